/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/cq.h"
#include "nic/mw.h"
#include "nic/queues.h"
#include "nic/returns.h"
#include "nic/source.h"
#include "nic/submit.h"
#include "pool/format_ring.h"
#include "pool/step.h"

static uint32_t requests(const struct weft_qp *qp)
{
	return qp->cap.max_send_wr ? qp->cap.max_send_wr : 1;
}

static void set_tag(struct weft_qp *qp, uint32_t tag)
{
	weft_lock(qp->nic, &qp->send_cq->lock, 0);
	qp->return_tag = tag;
	qp->returned = 0;
	weft_unlock(&qp->send_cq->lock, false);
}

int weft_returns_get(struct weft_qp *qp, uint16_t card, uint64_t *off)
{
	struct weft_cq *cq = qp->send_cq;
	int err = weft_source_add_returns(cq);

	if (!err)
		err = weft_cq_ring_get(cq, &cq->returns, card, requests(qp), off);
	if (!err)
		set_tag(qp, qp->tag);
	return err;
}

void weft_returns_put(struct weft_qp *qp, uint64_t off, bool quiet)
{
	set_tag(qp, 0);
	weft_cq_ring_put(qp->send_cq, &qp->send_cq->returns, off, requests(qp), quiet);
}

uint64_t weft_returns_taken(struct weft_qp *qp)
{
	uint64_t position;

	weft_lock(qp->nic, &qp->send_cq->lock, 0);
	position = qp->returned;
	weft_unlock(&qp->send_cq->lock, false);
	return position;
}

/* ---- Polling ---- */

static void fill_return(struct weft_cqe *cqe, struct weft_qp *qp, const struct weft_pool_cqe *from)
{
	uint64_t position = from->wr_id;
	const struct weft_wqe *wqe = weft_sq_slot(qp, position);

	*cqe = (struct weft_cqe){.wr_id = wqe->wr_id,
				 .qp = qp,
				 .position = position,
				 .byte_len = from->byte_len,
				 .status = WEFT_WC_SUCCESS,
				 .opcode = (uint8_t)weft_sq_completion_of(wqe->opcode)};
}

/* Notes that the entry is taken, whatever becomes of it. */
static void consume(struct weft_cq *cq, struct weft_cq_ring *r, uint64_t at, struct weft_qp *qp)
{
	/* the helper that looks for it will not find it in the ring any more */
	if (cq->armed == 1 && at >= atomic_load_explicit(&r->armed_at, memory_order_relaxed))
		weft_cq_fire(cq);
	/* so many never wait at once */
	if (r->size > cq->size && qp && weft_cq_entry_at(r, at + cq->size))
		weft_cq_lose(cq, qp);
	atomic_store_explicit(&r->consumed, at + 1, memory_order_relaxed);
}

static bool take_return(struct weft_cq *cq, struct weft_cq_ring *r, struct weft_cqe *cqe)
{
	const struct weft_pool_cqe *from;
	struct weft_qp *qp;

	for (uint64_t at = weft_cq_consumed(r); (from = weft_cq_entry_at(r, at)); at++) {
		qp = cq->nic->qps[from->qpn & (WEFT_QPS - 1)];
		consume(cq, r, at, qp);
		WEFT_STEP(return_found);
		if (!qp || qp->return_tag != from->qpn || qp->send_cq != cq)
			continue;
		fill_return(cqe, qp, from);
		qp->returned = from->wr_id + 1;
		if (cq->stamps)
			cqe->stamp_ns =
				weft_pool_ring_stamps(r->ring, r->size)[from - r->ring->cqe];
		return true;
	}
	return false;
}

bool weft_returns_take(struct weft_cq *cq, struct weft_cqe *cqe, bool older)
{
	for (struct weft_cq_ring *r = weft_returns_first(cq); r; r = r->next)
		if (!(older && weft_cq_consumed(r) >= r->older) && take_return(cq, r, cqe))
			return true;
	return false;
}

void weft_returns_note_older(struct weft_cq *cq)
{
	/* what the card stored before the receive is seen, as that was by an acquire */
	for (struct weft_cq_ring *r = weft_returns_first(cq); r; r = r->next)
		r->older = atomic_load_explicit(&r->ring->produced, memory_order_relaxed);
}

bool weft_returns_look(struct weft_cq *cq, bool tell)
{
	bool news = false;

	for (struct weft_cq_ring *r = weft_returns_first(cq); r && !news; r = r->next) {
		if (tell)
			weft_cq_pass_by(r);
		else
			news = weft_cq_has_news(cq, r);
	}
	return news;
}
