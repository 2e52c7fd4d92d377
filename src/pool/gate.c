/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The gate in front of each exchange of a build with WEFT_GATES (backing/atomic.h): by where the word lies it knows which host
 * writes there. What tools/check-atomics.py is told of each, that no other host writes the word or that its owner is asked, is
 * so seen to be true, or ends the process.
 */
#ifdef WEFT_GATES
#include <stdio.h>
#include <stdlib.h>

#include "pool/format.h"
#include "pool/format_host.h"
#include "pool/internal.h"

#define NO_HOST WEFT_HOSTS

/* The pool of this process, if exchanges do not hold among its hosts. */
static const struct weft_pool *_Atomic watched;

void weft_gate_open(const struct weft_pool *pool)
{
	atomic_store_explicit(&watched, pool && !weft_pool_has_atomics(pool) ? pool : NULL,
			      memory_order_relaxed);
}

static uint32_t host_of_block(const struct weft_pool *pool, uint64_t block)
{
	return (uint32_t)(block / (WEFT_BLOCKS >> pool->slice_bits));
}

static uint32_t host_of_segment(const struct weft_pool *pool, uint64_t off)
{
	struct weft_slice ours = weft_slice_segments(pool);
	uint64_t behind = weft_segment_of(pool, off) - weft_segment_first(pool);

	return (uint32_t)(behind / (ours.end - ours.first));
}

/* In the order of the pool's parts (pool/format.h). */
static uint32_t host_of(const struct weft_pool *pool, uint64_t off)
{
	if (off < WEFT_OFF_MEMBERS)
		return NO_HOST;
	if (off < WEFT_OFF_HOSTS)
		return weft_host_of(pool, (uint16_t)((off - WEFT_OFF_MEMBERS) / WEFT_MEMBER_BYTES));
	if (off < WEFT_OFF_HOME)
		return (uint32_t)((off - WEFT_OFF_HOSTS) / sizeof(struct weft_pool_host));
	if (off < WEFT_OFF_HOME_END)
		return pool->host;
	if (off < WEFT_OFF_MRS)
		return host_of_block(pool, (off - WEFT_OFF_QPS) / WEFT_QP_BLOCK_BYTES);
	if (off < WEFT_OFF_OBJECTS)
		return host_of_block(pool, (off - WEFT_OFF_MRS) / WEFT_MR_BLOCK_BYTES);
	if (off < WEFT_FIRST_SEGMENT * WEFT_SEGMENT)
		return host_of_block(pool, (off - WEFT_OFF_OBJECTS) / WEFT_OBJECT_BLOCK_BYTES);
	return host_of_segment(pool, off);
}

void weft_gate(const void *word)
{
	const struct weft_pool *pool = atomic_load_explicit(&watched, memory_order_relaxed);
	uint64_t off = pool ? (uint64_t)((const uint8_t *)word - pool->base) : 0;

	if (!pool || off >= pool->bytes || host_of(pool, off) == pool->host)
		return;
	fprintf(stderr,
		"weft: host %u exchanges the word at %#lx, of another, in a pool without atomics\n",
		pool->host, (unsigned long)off);
	abort();
}
#endif
