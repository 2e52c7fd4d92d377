/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Slices: members, blocks of queue pairs, of regions and of objects, and segments are divided among the
 * hosts of a pool when it is made, alike and for good. Each host leases in its own slice, under the lock of its
 * home. A pool that is a file has one host, whose slice is all. Freestanding.
 */
#ifndef WEFT_POOL_SLICE_H
#define WEFT_POOL_SLICE_H

#include "pool/pool.h"
#include "pool/sizes.h"

/* From `first` on, below `end`. */
struct weft_slice {
	uint32_t first, end;
};

/* Of a table of `count`, a multiple of WEFT_MEMBERS, at that host. */
static inline struct weft_slice weft_slice_of(const struct weft_pool *pool, uint32_t count,
					      uint32_t host)
{
	uint32_t each = count >> pool->slice_bits;

	return (struct weft_slice){host * each, (host + 1) * each};
}

static inline uint64_t weft_segment_bytes(const struct weft_pool *pool)
{
	return WEFT_SEGMENT >> pool->cut_bits;
}

/* The first that is leased. */
static inline uint32_t weft_segment_first(const struct weft_pool *pool)
{
	return WEFT_FIRST_SEGMENT << pool->cut_bits;
}

static inline uint64_t weft_segment_of(const struct weft_pool *pool, uint64_t off)
{
	return off >> (WEFT_SEGMENT_BITS - pool->cut_bits);
}

/* Of the segments, at this host; those that the division leaves no host has. */
static inline struct weft_slice weft_slice_segments(const struct weft_pool *pool)
{
	uint32_t first = weft_segment_first(pool);
	uint32_t each = (pool->segments - first) >> pool->host_bits;

	return (struct weft_slice){first + pool->host * each, first + (pool->host + 1) * each};
}

/* Of a number that no host has: any. */
static inline uint32_t weft_host_of(const struct weft_pool *pool, uint16_t member)
{
	return member >> (WEFT_MEMBER_BITS - pool->slice_bits) & ((1u << pool->host_bits) - 1);
}

/* Members that hosts have are below this. */
static inline uint32_t weft_members_room(const struct weft_pool *pool)
{
	return WEFT_MEMBERS << pool->host_bits >> pool->slice_bits;
}

/* The host whose member has that queue pair's entry; of one that no host has: any. */
static inline uint32_t weft_host_of_qp(const struct weft_pool *pool, uint32_t qpn)
{
	return (qpn & (WEFT_QPS - 1)) / WEFT_QP_BLOCK / (WEFT_BLOCKS >> pool->slice_bits) &
	       ((1u << pool->host_bits) - 1);
}

/* Whether it is of this host: then its near page is here, and its pid and namespaces mean something. */
static inline bool weft_is_near(const struct weft_pool *pool, uint16_t member)
{
	return weft_host_of(pool, member) == pool->host;
}

/* Whether a word that this member and others write is changed by its helper alone. Those that are near to it change it
 * themselves, in the same kernel. */
static inline bool weft_must_ask(const struct weft_pool *pool, uint16_t member)
{
	return __builtin_expect(pool->change != NULL, 0) && !weft_is_near(pool, member);
}

/* One of 8 bytes. */
static inline struct weft_pool_change weft_change_of(const struct weft_pool *pool,
						     const _Atomic uint64_t *word,
						     enum weft_change_how how, uint64_t was,
						     uint64_t to)
{
	return (struct weft_pool_change){(uint64_t)((const uint8_t *)word - pool->base), to, was,
					 how, sizeof(*word)};
}

/* One of 4 bytes. */
static inline struct weft_pool_change
weft_change_set_half(const struct weft_pool *pool, const _Atomic uint32_t *word, uint32_t to)
{
	return (struct weft_pool_change){(uint64_t)((const uint8_t *)word - pool->base), to, 0,
					 WEFT_CHANGE_SET, sizeof(*word)};
}

_Static_assert(WEFT_MEMBERS % WEFT_HOSTS == 0 && WEFT_BLOCKS % WEFT_MEMBERS == 0,
	       "tables divide among hosts");

#endif
