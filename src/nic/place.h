/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the nic offers to transports: checking keys and placing bytes. The caller's busy line names
 * the peer, from before keys are checked until the bytes are placed; memory of a further member, of a
 * protection domain that processes share, is named in `also` of the line as its key is checked.
 */
#ifndef WEFT_NIC_PLACE_H
#define WEFT_NIC_PLACE_H

#include "nic/limits.h"
#include "nic/machine.h"
#include "pool/format_region.h"
#include "pool/pool.h"
#include "pool/seen.h"
#include "pool/sizes.h"

struct weft_nic;
struct weft_pool_sge;

/* A checked part of a region, or memory of this process. */
struct weft_span {
	uint8_t *
		at; /* where this process sees it, if all of it lies together; else NULL, and then: */
	uint64_t start;
	uint64_t len_bytes;
	uint64_t
		id; /* of the entry when it was checked: our copy of it (weft_span_mr) may be another's by now */
	/* to memory that is neither ours nor the peer's: whose it is, and that it is not rehomed; to ours on
	 * demand, or of a device; else no word */
	struct weft_grant grant;
};

/* 32 of them fit into a frame of 2,048 bytes, as do the registers beside them. */
_Static_assert(sizeof(struct weft_span) <= 56, "a list of spans fits into a frame");

struct weft_spans {
	unsigned int n;
	uint64_t len_bytes;
	struct weft_span span[WEFT_MAX_SGE];
};

/* Our copy of the entry, of a span whose `at` is NULL. */
static inline const struct weft_pool_mr *weft_span_mr(const struct weft_pool *pool,
						      const struct weft_span *span)
{
	return &pool->mr_seen[(uint32_t)span->id >> WEFT_KEY_BITS].mr;
}

static inline void weft_span_private(struct weft_span *span, void *at, uint64_t len_bytes)
{
	span->at = at;
	span->len_bytes = len_bytes;
}

/* A list of one. */
static inline void weft_spans_private(struct weft_spans *spans, void *at, uint64_t len_bytes)
{
	spans->n = 1;
	spans->len_bytes = len_bytes;
	weft_span_private(&spans->span[0], at, len_bytes);
}

/* First use of a key: maps its entry and its extents, and touches them. 0 or -ENOENT, -ENOMEM. */
int weft_mr_prepare(struct weft_pool *pool, uint32_t key);
/* A copy of the entry of any region or window of the pool; false: none has that key. */
bool weft_mr_read(struct weft_pool *pool, uint32_t key, struct weft_pool_mr *copy);

/* What may use a key: a protection domain of a member, as in what an entry allows. */
static inline uint64_t weft_domain(uint16_t owner, uint32_t pd)
{
	return WEFT_MR_ALLOWED(owner, 0, pd);
}

/* Does an entry that allows this give `access` to the domain? */
static inline bool weft_allows(uint64_t allowed, uint64_t domain, uint8_t access)
{
	return (allowed & WEFT_MR_ALLOWED(UINT16_MAX, access, UINT32_MAX)) ==
	       (domain | WEFT_MR_ALLOWED(0, access, 0));
}

/* The same if its memory may be of any member: domains have numbers of their own in all of the pool, and
 * processes may share them. */
static inline bool weft_allows_any(uint64_t allowed, uint64_t domain, uint8_t access)
{
	return weft_allows(allowed, (domain & ~(uint64_t)UINT16_MAX) | (allowed & UINT16_MAX),
			   access);
}

/* Windows name what may use them instead of a protection domain: that domain, marked so that a window
 * is no region to those that gather and scatter, or a queue pair. */
#define WEFT_PD_WINDOW	  (1u << 31) /* type 1 */
#define WEFT_PD_QP_WINDOW (3u << 30) /* type 2: and the QPN */

/* SEND with invalidate: may the domain end that key? *id names the binding, for weft_mw_end. */
bool weft_mw_find(struct weft_pool *pool, uint32_t key, uint64_t domain, uint64_t *id);
void weft_mw_end(struct weft_pool *pool, uint32_t key, uint64_t id);

/* The same where the key was not seen before, or not all bytes lie together in the pool, or they are of
 * another member than the domain's. */
bool weft_mr_find_slow(struct weft_pool *pool, struct weft_caller *caller, uint32_t key,
		       uint64_t domain, uint64_t addr, uint64_t len_bytes, uint8_t access,
		       struct weft_span *span);

/* Does `key` give `access` to [addr, addr + len) to the domain? (10.6.3) If not, weft_find_later says
 * whether it will again soon. */
static inline bool weft_mr_find(struct weft_pool *pool, struct weft_caller *caller, uint32_t key,
				uint64_t domain, uint64_t addr, uint64_t len_bytes, uint8_t access,
				struct weft_span *span)
{
	uint32_t index = key >> WEFT_KEY_BITS;
	const struct weft_seen_mr *seen = &pool->mr_seen[index];
	/* acquire: pairs with the release in weft_pool_keep_mr */
	uint64_t id = atomic_load_explicit(&seen->id, memory_order_acquire);
	uint64_t off;

	/* the entry and its extents stand still until a revoker has waited for our busy line */
	if (__builtin_expect(
		    (uint32_t)id != key ||
			    atomic_load_explicit(&pool->mrs[index].id, memory_order_acquire) != id,
		    0))
		return weft_mr_find_slow(pool, caller, key, domain, addr, len_bytes, access, span);
	off = addr - seen->run;
	if (__builtin_expect(len_bytes > seen->run_bytes || off > seen->run_bytes - len_bytes ||
				     !weft_allows(seen->allowed, domain, access),
			     0))
		return weft_mr_find_slow(pool, caller, key, domain, addr, len_bytes, access, span);
	span->at = seen->at + off;
	span->len_bytes = len_bytes;
	return true;
}

/* Where those bytes lie if that is known already, whatever it allows, or NULL: only to be asked for ahead. */
static inline uint8_t *weft_mr_guess(const struct weft_pool *pool, uint32_t key, uint64_t addr,
				     uint64_t len_bytes)
{
	const struct weft_seen_mr *seen = &pool->mr_seen[key >> WEFT_KEY_BITS];
	/* acquire: pairs with the release in weft_pool_keep_mr */
	uint64_t id = atomic_load_explicit(&seen->id, memory_order_acquire), off = addr - seen->run;

	return (uint32_t)id == key && len_bytes <= seen->run_bytes &&
			       off <= seen->run_bytes - len_bytes
		       ? seen->at + off
		       : NULL;
}

/* A key did not hold: only because a member that shares its domain rehomes? */
static inline bool weft_find_later(struct weft_caller *caller)
{
	bool rehomes = caller->rehomes;

	caller->rehomes = false;
	return rehomes;
}

/* Checks a scatter or gather list of the domain. False: some key does not hold. */
bool weft_spans_find(struct weft_pool *pool, struct weft_caller *caller,
		     const struct weft_pool_sge *sge, unsigned int n, uint64_t domain,
		     uint8_t access, struct weft_spans *spans);

/* Without their first `offset` bytes, which are fewer than all. */
void weft_spans_cut(struct weft_spans *spans, uint64_t offset);

/* Is that memory of a member that is neither we nor the peer, or ours on demand or of a device? Only for what was found slowly:
 * `at` is NULL then. */
static inline bool weft_span_is_foreign(const struct weft_span *span)
{
	return !span->at && span->grant.word;
}

/*
 * Copies `len_bytes`, in rising order of address, so that the last byte is visible last. `grant` is that to
 * whichever side is not ours; NULL: both are. 0, or what struct weft_memory says, with caller->failed: at which
 * span, if it is foreign; -EINPROGRESS with a struct weft_later: the same again, later; -ESTALE: the executor was
 * left behind as that memory was rehomed, and bytes are lost.
 */
int weft_place_scattered(struct weft_nic *nic, struct weft_caller *caller,
			 const struct weft_grant *grant, const struct weft_span *to,
			 const struct weft_span *from, uint64_t len_bytes);
void weft_copy(const struct weft_nic *nic, uint8_t *to, const uint8_t *from, uint64_t len_bytes);

static inline int weft_place(struct weft_nic *nic, struct weft_caller *caller,
			     const struct weft_grant *grant, const struct weft_span *to,
			     const struct weft_span *from, uint64_t len_bytes)
{
	if (__builtin_expect(!len_bytes || !to->at || !from->at || to->len_bytes < len_bytes ||
				     from->len_bytes < len_bytes,
			     0))
		return weft_place_scattered(nic, caller, grant, to, from, len_bytes);
	if (len_bytes == 8 && !((uintptr_t)to->at & 7)) {
		uint64_t word;

		__builtin_memcpy(&word, from->at, 8);
		atomic_store_explicit((_Atomic uint64_t *)to->at, word, memory_order_release);
	} else {
		weft_copy(nic, to->at, from->at, len_bytes);
	}
	return 0;
}

/* Forgets what a request has reached, and takes back what is asked for it. */
void weft_later_drop(const struct weft_nic *nic, struct weft_later *later);

/* An 8-byte atomic on a checked, aligned span of the peer; the old value. 0 or that of struct weft_memory. */
int weft_place_atomic_slow(struct weft_nic *nic, struct weft_caller *caller,
			   const struct weft_grant *grant, const struct weft_span *at, bool add,
			   uint64_t compare_add, uint64_t swap, uint64_t *old);

static inline int weft_place_atomic(struct weft_nic *nic, struct weft_caller *caller,
				    const struct weft_grant *grant, const struct weft_span *at,
				    bool add, uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)at->at;

	if (__builtin_expect(!word, 0))
		return weft_place_atomic_slow(nic, caller, grant, at, add, compare_add, swap, old);
	*old = compare_add;
	if (add)
		*old = atomic_fetch_add(word, compare_add);
	else
		atomic_compare_exchange_strong(word, old, swap);
	return 0;
}

#endif
