/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/clock.h"

#include <time.h>

uint64_t weft_clock_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
