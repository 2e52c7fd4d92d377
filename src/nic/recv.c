/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receive queues: the owner posts into the pool, the connected peer takes. */
#include "nic/complete.h"
#include "nic/cq.h"
#include "nic/errors.h"
#include "nic/queues.h"
#include "nic/srq.h"
#include "pool/step.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"
#include "pool/sizes.h"

static struct weft_pool_recv *receive_at(const struct weft_qp *qp, uint64_t position)
{
	return (void *)(qp->rq + (position & (qp->rq_size - 1)) * qp->rq_stride);
}

static int post_srq(struct weft_qp *qp, uint64_t wr_id, const struct weft_pool_sge *sge,
		    uint32_t num_sge, uint32_t thread)
{
	int err;

	if (qp->state == WEFT_QPS_RESET || !qp->owns_srq)
		return -EINVAL;
	err = weft_srq_post(qp->srq, wr_id, sge, num_sge, thread);
	if (!err && qp->state == WEFT_QPS_ERR)
		weft_rq_flush(qp);
	return err;
}

int weft_rq_post(struct weft_qp *qp, uint64_t wr_id, const struct weft_pool_sge *sge,
		 uint32_t num_sge, uint32_t thread)
{
	struct weft_pool_recv *recv;

	if (qp->srq)
		return post_srq(qp, wr_id, sge, num_sge, thread);
	if (qp->state == WEFT_QPS_RESET || num_sge > qp->cap.max_recv_sge)
		return -EINVAL;
	/* acquire: pairs with the release when a completion is polled */
	if (qp->rq_posted - atomic_load_explicit(&qp->rq_freed, memory_order_acquire) >=
	    qp->cap.max_recv_wr)
		return -ENOMEM;
	recv = receive_at(qp, qp->rq_posted++);
	recv->wr_id = wr_id;
	recv->num_sge = num_sge;
	for (uint32_t i = 0; i < num_sge; i++)
		recv->sge[i] = sge[i];
	if (qp->state == WEFT_QPS_ERR) {
		weft_rq_flush(qp);
		return 0;
	}
	WEFT_STEP(recv_written);
	/* release: pairs with the acquire of the peer that takes it */
	atomic_store_explicit(&qp->slot->rq_posted, qp->rq_posted, memory_order_release);
	/* The peer has read what stood in the next line of slots. Taken back now, it will not hold up the
	 * stores behind the one into it, a reply among them. */
	__builtin_prefetch(receive_at(qp, qp->rq_posted + 2), 1);
	return 0;
}

/* The completion queue's lock is held. */
static void flush_one(struct weft_qp *qp, uint64_t wr_id)
{
	struct weft_cqe *cqe = weft_cq_next(qp->recv_cq, qp);

	if (!cqe)
		return;
	*cqe = (struct weft_cqe){
		.wr_id = wr_id, .qp = qp, .status = WEFT_WC_WR_FLUSH_ERR, .opcode = WEFT_WC_RECV};
	weft_cq_stamp(qp->recv_cq, cqe);
	weft_cq_put(qp->recv_cq, cqe);
}

/* The peer is shut out. What it took is in its ring or was lost with it; the rest is flushed. */
void weft_rq_flush(struct weft_qp *qp)
{
	uint64_t from, wr_id;

	weft_cq_drain(qp->recv_cq);
	weft_lock(qp->nic, &qp->recv_cq->lock, 0);
	WEFT_STEP(recv_drained);
	from = qp->rq_completed;
	qp->rq_completed = qp->rq_posted;
	for (; from < qp->rq_posted; from++)
		flush_one(qp, receive_at(qp, from)->wr_id);
	while (qp->owns_srq && weft_srq_withdraw(qp->srq, &wr_id))
		flush_one(qp, wr_id);
	weft_unlock(&qp->recv_cq->lock, false);
}

void weft_rq_forget(struct weft_qp *qp)
{
	uint64_t wr_id;

	qp->rq_completed = qp->rq_posted;
	while (qp->owns_srq && weft_srq_withdraw(qp->srq, &wr_id))
		;
	if (qp->owns_srq)
		atomic_store_explicit(&qp->srq->at->fault, 0, memory_order_relaxed);
}
