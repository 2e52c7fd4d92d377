/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the nic offers to transports: checking keys and placing bytes. The caller's busy line names
 * the member whose memory it is, from before the key is checked until the bytes are placed.
 */
#ifndef WEFT_NIC_PLACE_H
#define WEFT_NIC_PLACE_H

#include "nic/nic.h"

/* A checked part of a region; or, without a region, of this process's own memory at `start`. */
struct weft_span {
	const struct weft_pool_mr *mr;
	uint64_t start, len_bytes;
};

struct weft_spans {
	struct weft_span span[WEFT_MAX_SGE];
	unsigned int n;
	uint64_t len_bytes;
};

/* Maps and touches the extents of a region that this process has not used before. 0 or -ENOMEM. */
int weft_mr_prepare(struct weft_pool *pool, const struct weft_pool_mr *mr, uint32_t key);

/*
 * Does `key` of `owner` give `access` to [addr, addr + len) to protection domain `pd`?
 * The order is that of 10.6.3.5: key, domain, rights, bounds.
 */
static inline bool weft_mr_find(struct weft_pool *pool, uint32_t key, uint16_t owner, uint32_t pd,
				uint64_t addr, uint64_t len_bytes, uint8_t access,
				struct weft_span *span)
{
	uint32_t index = key >> 8;
	const struct weft_pool_mr *mr;
	uint64_t start;

	if (index - 1 >= WEFT_MRS - 1)
		return false;
	if (!atomic_load_explicit(&pool->mr_block_seen[index / WEFT_MR_BLOCK], memory_order_relaxed) &&
	    weft_pool_see_mr(pool, index))
		return false;
	mr = &pool->mrs[index];
	/* acquire: pairs with the release in weft_mr_create; the rest stands still until a revoker
	 * has waited for our busy line */
	if (atomic_load_explicit(&mr->key, memory_order_acquire) != key)
		return false;
	start = addr - mr->iova;
	if (mr->owner != owner || mr->pd != pd || (access & ~mr->access) || addr < mr->iova ||
	    start > mr->len_bytes || len_bytes > mr->len_bytes - start)
		return false;
	if (atomic_load_explicit(&pool->mr_ready[index], memory_order_relaxed) != key &&
	    weft_mr_prepare(pool, mr, key))
		return false;
	*span = (struct weft_span){ mr, start, len_bytes };
	return true;
}

/* Checks a scatter or gather list of `owner`. False: some key does not hold. */
bool weft_spans_find(struct weft_pool *pool, const struct weft_pool_sge *sge, unsigned int n,
		     uint16_t owner, uint32_t pd, uint8_t access, struct weft_spans *spans);

/*
 * Moves `len` bytes, in rising order of address, so that the last byte is visible last. `foreign`
 * is the member that owns whichever side is not ours. 0, or what env->reach says.
 */
int weft_place(struct weft_nic *nic, const struct weft_caller *caller, uint16_t foreign,
	       const struct weft_span *to, const struct weft_span *from, uint64_t len_bytes);

/* An 8-byte atomic on a checked, aligned span of `owner`; the old value. 0 or env's error. */
int weft_place_atomic(struct weft_nic *nic, const struct weft_caller *caller, uint16_t owner,
		      const struct weft_span *at, bool add, uint64_t compare_add, uint64_t swap,
		      uint64_t *old);

#endif
