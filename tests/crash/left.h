/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TESTS_CRASH_LEFT_H
#define WEFT_TESTS_CRASH_LEFT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether something is left in a pool that all members have left, and whose dead have been recovered; `what`
 * says what. */
bool left_in(const char *pool, char *what, size_t bytes);

#endif
