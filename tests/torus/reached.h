/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Errors that a test has reached, as lines `reached CALL ERROR`: test_pages.py compares them with the manual pages. */
#ifndef WEFT_TESTS_TORUS_REACHED_H
#define WEFT_TESTS_TORUS_REACHED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* call: as it stands in the source; what is behind its name does not count. */
static inline void note_reached(const char *call, const char *error)
{
	printf("reached %.*s %s\n", (int)strcspn(call, "("), call, error);
	fflush(stdout);
}

#define FAILS(call, error)                                                                         \
	do {                                                                                       \
		assert_int_equal(call, -(error));                                                  \
		note_reached(#call, #error);                                                       \
	} while (0)

#endif
