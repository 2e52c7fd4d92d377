/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The receive queues whose completions stand in their own slots (srq.h), as a completion queue
 * sees them: its sources, besides its rings.
 */
#ifndef WEFT_NIC_SOURCE_H
#define WEFT_NIC_SOURCE_H

#include "nic/cq.h"
#include "nic/srq.h"
#include "nic/types.h"
#include "pool/format_queue.h"

/* A queue pair of `cq` receives from `q`, or does so no more. Attach: -ENOMEM, -ENOSPC. */
int weft_source_attach(struct weft_cq *cq, struct weft_srq *q);
void weft_source_detach(struct weft_cq *cq, const struct weft_srq *q);

/* Its return rings (returns.h), from the first on until it is destroyed. -ENOMEM. */
int weft_source_add_returns(struct weft_cq *cq);
void weft_source_forget_returns(struct weft_cq *cq);

/* As weft_cq_poll; what stands in the private queue comes first. */
int weft_source_poll(struct weft_cq *cq, int n, struct weft_wc *wc, uint32_t thread);

/* The queue's lock is held, from here on. Into the private queue, as weft_cq_drain does; or, unless all, as weft_cq_take_in. */
void weft_source_drain(struct weft_cq *cq, bool all);
/* As weft_srq_look, of all. */
bool weft_source_look(struct weft_cq *cq, bool tell);

/* A ring in which `producer` can complete `n` more. rings: cq->rings, for receives, or cq->returns. -ENOMEM,
 * -ENOSPC, -ENOENT: there is no such member. */
int weft_cq_ring_get(struct weft_cq *cq, struct weft_cq_ring *_Atomic *rings, uint16_t producer,
		     uint32_t n, uint64_t *off);
/* quiet: its producer writes there no more for this queue pair. */
void weft_cq_ring_put(struct weft_cq *cq, struct weft_cq_ring *_Atomic *rings, uint64_t off,
		      uint32_t n, bool quiet);

#define WEFT_CQ_TURNS 8u

/* False: it is another one's turn. */
static inline bool weft_cq_next_turn(struct weft_cq *cq)
{
	uint32_t turns = atomic_load_explicit(&cq->turns, memory_order_relaxed) + 1;

	atomic_store_explicit(&cq->turns, turns, memory_order_relaxed);
	return turns % WEFT_CQ_TURNS;
}

/* False: nothing of it is complete. Without the lock, as spinning programs ask most often. */
static inline bool weft_srq_stirs(const struct weft_srq *q)
{
	struct weft_pool_slot *slot = atomic_load_explicit(&q->oldest, memory_order_acquire),
			      *before;

	do {
		before = slot;
		/* acquire: pairs with the release in put_receive (srq.c) */
		if (!slot ||
		    weft_claim_what(atomic_load_explicit(&slot->state, memory_order_acquire)) !=
			    WEFT_CLAIM_FREE ||
		    atomic_load_explicit(&q->at->late, memory_order_relaxed))
			return true;
		/* it may have been taken, polled and posted again meanwhile */
		slot = atomic_load_explicit(&q->oldest, memory_order_acquire);
	} while (slot != before);
	return false;
}

#endif
