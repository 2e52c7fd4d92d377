/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The frequent half of posting, for inlining; the rest is in send.c. */
#ifndef WEFT_NIC_SUBMIT_H
#define WEFT_NIC_SUBMIT_H

#include "nic/complete.h"
#include "nic/mw.h"
#include "nic/queues.h"
#include "pool/sizes.h"

static inline enum weft_wc_opcode weft_sq_completion_of(enum weft_opcode opcode)
{
	switch (opcode) {
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
		return WEFT_WC_WRITE;
	case WEFT_OP_READ:
		return WEFT_WC_READ;
	case WEFT_OP_CMP_SWAP:
		return WEFT_WC_CMP_SWAP;
	case WEFT_OP_FETCH_ADD:
		return WEFT_WC_FETCH_ADD;
	case WEFT_OP_LOCAL_INV:
		return WEFT_WC_LOCAL_INV;
	case WEFT_OP_BIND_MW:
		return WEFT_WC_BIND_MW;
	case WEFT_OP_ATOMIC_WRITE:
		return WEFT_WC_ATOMIC_WRITE;
	case WEFT_OP_SEND:
	case WEFT_OP_SEND_IMM:
	case WEFT_OP_SEND_INV:
	case WEFT_OPS:
		break;
	}
	return WEFT_WC_SEND;
}

/* thread: which holds the queue pair's lock, if it may own that of the completion queue. */
static inline void weft_sq_complete(struct weft_qp *qp, const struct weft_wqe *wqe,
				    uint64_t position, enum weft_wc_status status, uint32_t thread)
{
	struct weft_cq *cq = qp->send_cq;
	bool own = weft_lock(cq->nic, &cq->lock, thread);
	struct weft_cqe *cqe = weft_cq_next(cq, qp);

	/* field by field where it is to be: wide loads of what was just stored in parts would wait */
	if (cqe) {
		cqe->wr_id = wqe->wr_id;
		cqe->qp = qp;
		cqe->position = position;
		cqe->byte_len = wqe->len_bytes;
		cqe->imm = cqe->src_qp = 0;
		cqe->status = (uint8_t)status;
		cqe->opcode = weft_sq_completion_of(wqe->opcode);
		cqe->flags = cqe->solicited = 0;
		weft_cq_stamp(cq, cqe);
		weft_cq_put(cq, cqe);
	}
	weft_unlock(&cq->lock, own);
}

/* The next request is not done: it is under way, or fails, or waits. */
void weft_sq_stumble(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_outcome outcome,
		     enum weft_cause cause);

/* The next request, which is the oldest. False: it is not done. */
static inline bool weft_sq_carry_out(struct weft_qp *qp, struct weft_wqe *wqe,
				     struct weft_caller *caller)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome;

	if (__builtin_expect(weft_op_is_local(wqe->opcode), 0))
		outcome = weft_mw_execute(qp, wqe, &cause);
	else
		outcome = qp->issue(qp, wqe, caller, &cause);
	if (__builtin_expect(outcome != WEFT_DONE, 0)) {
		weft_sq_stumble(qp, wqe, outcome, cause);
		return false;
	}
	if (qp->signal_all || wqe->flags & WEFT_SEND_SIGNALED)
		weft_sq_complete(qp, wqe, qp->sq_done, WEFT_WC_SUCCESS, caller->thread);
	qp->sq_done++;
	return true;
}

/* The request just posted is not the oldest, or the queue pair is not in RTS. */
void weft_sq_defer(struct weft_qp *qp, struct weft_caller *caller);

/* Posts what weft_sq_next gave; carries it out at once unless others wait. The lock is held. */
static inline void weft_sq_submit(struct weft_qp *qp, struct weft_wqe *wqe,
				  struct weft_caller *caller)
{
	bool first = qp->sq_done == qp->sq_posted++;

	if (__builtin_expect(qp->state != WEFT_QPS_RTS || !first, 0))
		weft_sq_defer(qp, caller);
	else if (!weft_sq_carry_out(qp, wqe, caller) && qp->state == WEFT_QPS_RTS)
		weft_sq_wait(qp);
}

#endif
