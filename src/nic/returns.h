/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests that a card has carried out (pool/hand.h) come back by rings, one for each completion queue and card: the card
 * writes which have ended well, and the poller makes completions of them from the send queue. They hang behind the
 * sources of a completion queue, so that a queue without any does not look for them.
 *
 * An entry's wr_id is the position in the send queue. It counts while the queue pair has the tag that it bears.
 */
#ifndef WEFT_NIC_RETURNS_H
#define WEFT_NIC_RETURNS_H

#include "nic/cq.h"

/* The queue pair is being connected: a ring in which the card has room for all of its requests. -ENOMEM, -ENOSPC,
 * -ENOENT: there is no such card. */
int weft_returns_get(struct weft_qp *qp, uint16_t card, uint64_t *off);
/* From now on nothing counts that stands there. quiet: the card writes there no more for this queue pair. */
void weft_returns_put(struct weft_qp *qp, uint64_t off, bool quiet);

/* The position behind the last that was taken. */
uint64_t weft_returns_taken(struct weft_qp *qp);

/* The completion queue's lock is held. The next one; false: there is none now. older: only those noted as such. */
bool weft_returns_take(struct weft_cq *cq, struct weft_cqe *cqe, bool older);
/* Likewise, when a receive has been seen: notes what stands in the rings as older. A card tells of a request that ended
 * before of a message that came behind, and a program may count on that: its peer sends the message in answer. */
void weft_returns_note_older(struct weft_cq *cq);
/* As weft_srq_look, of all. */
bool weft_returns_look(struct weft_cq *cq, bool tell);

static inline struct weft_cq_ring *weft_returns_first(const struct weft_cq *cq)
{
	/* acquire: pairs with the release in weft_cq_ring_get */
	return atomic_load_explicit(&cq->returns, memory_order_acquire);
}

#endif
