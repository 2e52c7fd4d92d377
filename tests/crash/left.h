/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TESTS_CRASH_LEFT_H
#define WEFT_TESTS_CRASH_LEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether something is left in a pool that all members have left, and whose dead have been recovered; `what`
 * says what. */
bool left_in(const char *pool, char *what, size_t bytes);
/* The same of a pool of several hosts, each of which has so many agents there. */
bool left_in_hosts(const char *pool, uint32_t agents, char *what, size_t bytes);

#endif
