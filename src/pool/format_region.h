/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A memory region, as peers see it: key = index << 12 | generation. Writers: as in format.h. */
#ifndef WEFT_POOL_FORMAT_REGION_H
#define WEFT_POOL_FORMAT_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

/*
 * A memory region as peers see it. Most have one pooled run between an in-place head and tail:
 * it stands here, [lo, hi) counted from the start of the region. Others list their pieces.
 */
/*
 * id                          | writer         | transition                      | order
 * {n, 0} to {n + 1, key}      | owner          | a region or window gets the key | release, after all other fields
 * {n, key} to {n + 1, key}    | owner          | rehoming: other pages by the    | release, after all other fields; while
 *                             |                | same key                        | its `rehomings` says LEAVES (format_member.h)
 * {n, key} to {n, 0}          | owner          | it ends                         | relaxed; then a barrier on all threads,
 *                             |                |                                 | and a wait for executors, before the
 *                             |                |                                 | memory is given back
 *                             | recoverer      | its owner has died (format.h)   | release; the same barrier and wait
 * the same, by exchange       | peer's member, | SEND with invalidate kills a    | release, before the completion of
 *                             | [P]            | window of type 2                | that SEND
 *
 * Stale values. An executor that reads the old id has a busy line, for which the owner waits before the memory
 * goes to another owner. One that was left behind while the region was rehomed, and copies an entry that is half
 * written, looks at its grant once more before it touches bytes, and finds that it has ended. A peer that kills a window
 * by an old id loses its exchange: the owner has ended that binding, perhaps bound it anew, and n tells them apart; the
 * SEND has then nothing to invalidate any more. The owner sees that a peer has killed a window by the id, when it
 * binds, invalidates or deallocates it the next time, or ends the region: until then its own list still has a binding
 * which no executor can use. One that has polled the completion of that SEND sees it, as the exchange came before.
 */
struct weft_pool_mr {
	/* [O] the key, and above it how many regions had the entry: no two are the same. Stored last
	 * when made; when ended, first the number alone, as entry 0 has no key. All else between.
	 * [P] A window of type 2 can also be ended, by compare-and-swap, by the peer of its queue pair */
	union {
		_Atomic uint64_t id;
		uint32_t key;
	};
	union {
		struct {
			uint16_t owner;
			uint8_t access; /* enum weft_access, low byte */
			uint8_t check;	/* the bytes of the whole entry, exclusively ored, are 0 */
			uint32_t pd;
		};
		uint64_t allowed; /* all of that in one word, to be compared at once */
	};
	uint64_t iova, len_bytes;
	uint64_t va;	  /* of iova in the owner */
	uint64_t off, lo; /* lo above hi: `off` is that of an array of weft_pool_piece, `hi` long */
	uint64_t hi;
};

static inline bool weft_mr_is_listed(const struct weft_pool_mr *mr)
{
	return mr->lo > mr->hi;
}

#define WEFT_MR_LISTED UINT64_MAX /* as lo */
#define WEFT_NOWHERE                                                                               \
	(UINT64_MAX - 1) /* as off of one that is all in place: no memory stands behind it */
/* As off of one that is all in place: memory of a device, and the line of the pool in which its owner says how it is found. */
#define WEFT_ON_DEVICE (UINT64_MAX << 33)

static inline bool weft_mr_on_device(const struct weft_pool_mr *mr)
{
	return mr->lo == mr->hi && mr->off >> 32 == WEFT_ON_DEVICE >> 32;
}

static inline uint64_t weft_mr_device_off(const struct weft_pool_mr *mr)
{
	return (uint64_t)(uint32_t)mr->off * WEFT_LINE;
}

/* `allowed` as one word; machines that share a pool are little-endian, as its files are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a pool is little-endian");
#define WEFT_MR_ALLOWED(owner, access, pd)                                                         \
	((uint64_t)(uint16_t)(owner) | (uint64_t)(uint8_t)(access) << 16 | (uint64_t)(pd) << 32)

struct weft_pool_piece {
	uint64_t start; /* from the start of the region; the next piece's start ends it */
	uint64_t off;	/* UINT64_MAX: in place */
};

_Static_assert(sizeof(struct weft_pool_mr) == WEFT_LINE, "a key check reads one line");

#endif
