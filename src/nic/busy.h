/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A thread's line while it executes at a member (struct weft_pool_busy_line). */
#ifndef WEFT_NIC_BUSY_H
#define WEFT_NIC_BUSY_H

#include "backing/fence.h"
#include "nic/machine.h"
#include "pool/step.h"
#include "pool/format_line.h"

/* at: weft_busy_at. The line is idle: all below its sequence is 0. */
static inline __attribute__((always_inline)) uint64_t weft_busy_begin(struct weft_caller *caller,
								      uint64_t at)
{
	uint64_t next = atomic_load_explicit(&caller->line->busy, memory_order_relaxed) +
			(1u << WEFT_BUSY_BITS);

	atomic_store_explicit(&caller->line->busy, next + at, memory_order_relaxed);
	/* the revoker's barrier stands in for ours (weft_pool_quiesce) */
	weft_fence_frequent();
	WEFT_STEP(direct_busy);
	return next;
}

static inline __attribute__((always_inline)) void weft_busy_end(struct weft_caller *caller,
								uint64_t next)
{
	/* release: pairs with the acquire in goes_on (bell.c) */
	atomic_store_explicit(&caller->line->busy, next, memory_order_release);
}

#endif
