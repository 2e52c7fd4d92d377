/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The one clock: every deadline and timer of Weft is reckoned by it. A test that brings its own
 * clock_gettime() replaces it (tests/verbs/clock.h).
 */
#ifndef WEFT_POOL_CLOCK_H
#define WEFT_POOL_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC; any thread. */
uint64_t weft_clock_now_ns(void);
/* CLOCK_REALTIME, for programs that ask: nothing is reckoned by it. */
uint64_t weft_clock_wall_ns(void);

#endif
