/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The frequent half of waking, for inlining; the rest is in alarm.c. */
#ifndef WEFT_POOL_COMPLETED_H
#define WEFT_POOL_COMPLETED_H

#include "backing/fence.h"
#include "pool/format_ring.h"
#include "pool/pool.h"

/* A completion was published in that ring, or in what it stands for: its owner is woken if it waits for it.
 * solicited: or in error. */
static inline void weft_pool_completed(struct weft_pool *pool, const struct weft_pool_ring *ring,
				       uint16_t owner, bool solicited)
{
	uint64_t alarm_off;

	/* the barrier of the first arming stands in for ours (weft_cq_arm); then there is an alarm */
	weft_fence_frequent();
	alarm_off = atomic_load_explicit(&ring->alarm_off, memory_order_relaxed);
	if (__builtin_expect(alarm_off != 0, 0))
		pool->calls->alarm(pool, owner, alarm_off, solicited);
}

#endif
