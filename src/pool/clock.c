/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t weft_clock_now_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t weft_clock_wall_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}
