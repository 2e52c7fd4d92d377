/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Included before every file of a coverage build: children of tests leave by _exit(), which would
 * lose what they counted. */
#ifndef WEFT_TEST_COVERAGE_H
#define WEFT_TEST_COVERAGE_H

#include <unistd.h>

void __gcov_dump(void) __attribute__((weak)); /* some programs are linked without it */

__attribute__((noreturn)) static inline void weft_coverage_exit(int status)
{
	if (__gcov_dump)
		__gcov_dump();
	_exit(status);
}

#define _exit(status) weft_coverage_exit(status)

#endif
