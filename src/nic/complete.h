/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The frequent half of completing and polling, for inlining; the rest is in cq.c. */
#ifndef WEFT_NIC_COMPLETE_H
#define WEFT_NIC_COMPLETE_H

#include "nic/cq.h"
#include "nic/nic.h"
#include "nic/qp.h"
#include "pool/format_ring.h"

/* No room: a completion of the queue pair is lost. The queue's lock is held, here and below. */
void weft_cq_lose(struct weft_cq *cq, struct weft_qp *qp);
static inline bool weft_cq_wakes(const struct weft_cq *cq, uint8_t status, uint8_t solicited)
{
	return cq->armed == 1 || (cq->armed == 2 && (status || solicited));
}

/* The queue is armed. */
void weft_cq_wake(struct weft_cq *cq, uint8_t status, uint8_t solicited);

static inline bool weft_cq_has_room(const struct weft_cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed) -
		       atomic_load_explicit(&cq->head, memory_order_relaxed) !=
	       cq->size;
}

/* Where the next completion is to be written, then to be published; NULL: there is no room, which was told. */
static inline struct weft_cqe *weft_cq_next(struct weft_cq *cq, struct weft_qp *qp)
{
	if (__builtin_expect(!weft_cq_has_room(cq), 0)) {
		weft_cq_lose(cq, qp);
		return NULL;
	}
	return &cq->cqe[atomic_load_explicit(&cq->tail, memory_order_relaxed) & cq->mask];
}

static inline void weft_cq_stamp(const struct weft_cq *cq, struct weft_cqe *cqe)
{
	if (__builtin_expect(cq->stamps, 0))
		cqe->stamp_ns = weft_nic_stamp_ns(cq->nic);
}

static inline void weft_cq_publish(struct weft_cq *cq)
{
	/* release: pairs with the acquire in weft_cq_has_private, which has no lock */
	atomic_store_explicit(&cq->tail, atomic_load_explicit(&cq->tail, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* The same for a completion that may end an arming. */
static inline void weft_cq_put(struct weft_cq *cq, const struct weft_cqe *cqe)
{
	weft_cq_publish(cq);
	if (__builtin_expect(cq->armed, 0))
		weft_cq_wake(cq, cqe->status, cqe->solicited);
}

static inline void weft_cq_free_slot(struct weft_qp *qp, uint8_t opcode, uint64_t position)
{
	/* release: pairs with the acquire where the queue pair looks for room */
	if (opcode & WEFT_WC_RECV)
		atomic_store_explicit(&qp->rq_freed,
				      atomic_load_explicit(&qp->rq_freed, memory_order_relaxed) + 1,
				      memory_order_release);
	else
		atomic_store_explicit(&qp->sq_freed, position + 1, memory_order_release);
}

static inline void weft_cq_tell(struct weft_wc *wc, uint64_t wr_id, uint8_t status, uint8_t opcode,
				uint32_t bytes, uint32_t imm, uint32_t qpn, uint32_t src,
				uint8_t flags)
{
	wc->wr_id = wr_id;
	wc->status = status;
	wc->opcode = opcode;
	wc->vendor_err = 0;
	wc->byte_len = bytes;
	wc->imm = imm;
	wc->qp_num = qpn;
	wc->src_qp = src & 0xffffff;
	wc->flags = flags;
	wc->pkey_index = wc->slid = 0;
	wc->sl = src >> 24;
	wc->dlid_path_bits = 0;
}

static inline bool weft_cq_has_private(const struct weft_cq *cq)
{
	/* acquire: pairs with the release in weft_cq_publish */
	return atomic_load_explicit(&cq->head, memory_order_relaxed) !=
	       atomic_load_explicit(&cq->tail, memory_order_acquire);
}

/* How many were polled. The queue's lock is held. */
static inline int weft_cq_poll_private(struct weft_cq *cq, int n, struct weft_wc *wc)
{
	uint64_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	int got = 0;

	for (; got < n && head != tail; got++, wc++) {
		const struct weft_cqe *cqe = &cq->cqe[head++ & cq->mask];

		weft_cq_tell(wc, cqe->wr_id, cqe->status, cqe->opcode, cqe->byte_len, cqe->imm,
			     cqe->qp->qpn, cqe->src_qp, cqe->flags);
		weft_cq_free_slot(cqe->qp, cqe->opcode, cqe->position);
		if (__builtin_expect(cq->stamps, 0))
			cq->polled_ns = cqe->stamp_ns;
	}
	atomic_store_explicit(&cq->head, head, memory_order_relaxed);
	return got;
}

/* ---- Rings ---- */

static inline struct weft_cq_ring *weft_cq_first_ring(const struct weft_cq *cq)
{
	/* acquire: pairs with the release in weft_cq_ring_get */
	return atomic_load_explicit(&cq->rings, memory_order_acquire);
}

static inline uint64_t weft_cq_consumed(const struct weft_cq_ring *r)
{
	return atomic_load_explicit(&r->consumed, memory_order_relaxed);
}

/* The entry at a position if its producer has completed it. */
static inline const struct weft_pool_cqe *weft_cq_entry_at(const struct weft_cq_ring *r,
							   uint64_t position)
{
	const struct weft_pool_cqe *cqe = &r->ring->cqe[position & (r->size - 1)];

	/* acquire: pairs with the release of lap by the producer */
	return atomic_load_explicit(&cqe->lap, memory_order_acquire) ==
			       (uint32_t)(position >> r->size_bits) + 1
		       ? cqe
		       : NULL;
}

/* arm.c: whether the ring has a completion that ends the arming; none that it holds now is to. The queue's lock is
 * held. */
bool weft_cq_has_news(const struct weft_cq *cq, const struct weft_cq_ring *r);
void weft_cq_pass_by(struct weft_cq_ring *r);

/* What members have completed, after what stands in the private queue. */
int weft_cq_poll_rings(struct weft_cq *cq, int n, struct weft_wc *wc, uint32_t thread);

/* What members have completed, behind what stands in the private queue, as far as that has room. */
void weft_cq_take_in(struct weft_cq *cq, uint32_t thread);

/* A program that posts as often as it polls one of its own completions would find none of others: from time to time
 * theirs come behind those that it has. */
#define WEFT_CQ_ROUND 64u

static inline bool weft_cq_ends_round(const struct weft_cq *cq, int got)
{
	return (atomic_load_explicit(&cq->head, memory_order_relaxed) & (WEFT_CQ_ROUND - 1)) <
	       (uint32_t)got;
}

/* Up to n completions, oldest first for each queue pair. Never negative: an overrun queue is empty. */
static inline int weft_cq_poll(struct weft_cq *cq, int n, struct weft_wc *wc, uint32_t thread)
{
	int got = 0;

	if (weft_cq_has_private(cq)) {
		bool own = weft_lock(cq->nic, &cq->lock, thread);

		got = weft_cq_poll_private(cq, n, wc);
		weft_unlock(&cq->lock, own);
		if (got == n) {
			if (__builtin_expect(weft_cq_ends_round(cq, got), 0))
				weft_cq_take_in(cq, thread);
			return got;
		}
	}
	return got + weft_cq_poll_rings(cq, n - got, wc + got, thread);
}

#endif
