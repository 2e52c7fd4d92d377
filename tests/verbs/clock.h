/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Linked into a test program, this clock is the one that Weft reads: it runs as any other until it is
 * stopped, and then goes on only by clock_advance(). rig_now_ns() is another clock, which always runs.
 */
#ifndef WEFT_TESTS_VERBS_CLOCK_H
#define WEFT_TESTS_VERBS_CLOCK_H

#include <stdint.h>

void clock_stop(void);
void clock_advance(uint64_t ns);
/* Lets the clock run again, from the present time, which may be a step back. */
void clock_run(void);

#endif
