/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Posting work requests: from the program's structs into the nic's queues, where they are carried out. */
#include <errno.h>
#include <string.h>

#include "nic/mw.h"
#include "nic/queues.h"
#include "nic/submit.h"
#include "nic/wqe.h"
#include "verbs/ah.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/mw.h"
#include "verbs/qp.h"
#include "process/process.h"
#include "process/ranges.h"
#include "verbs/inline.h"
#include "verbs/verbs.h"
#include "pool/sizes.h"

#define VERB "ibv_post_send"

_Static_assert(sizeof(struct ibv_sge) == sizeof(struct weft_pool_sge) &&
		       offsetof(struct ibv_sge, lkey) == offsetof(struct weft_pool_sge, lkey),
	       "scatter elements are taken as they are");
_Static_assert((int)WEFT_OP_FETCH_ADD == (int)IBV_WR_ATOMIC_FETCH_AND_ADD &&
		       (int)WEFT_SEND_INLINE == (int)IBV_SEND_INLINE,
	       "opcodes and flags are verbs' own");

/* Small ones are most, and a call would take longer than the copy. */
static inline void copy_inline(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (bytes == 8)
		memcpy(to, from, 8);
	else
		memcpy(to, from, bytes);
}

static __attribute__((cold, noinline)) int refuse_inline(const struct weft_qp *qp,
							 const struct ibv_send_wr *wr)
{
	if (!weft_op_may_inline(wr->opcode))
		return weft_broken(VERB, NOT_INLINE, qp->qpn, wr->opcode);
	return weft_broken(VERB, INLINE, qp->qpn, qp->cap.max_inline_bytes);
}

_Atomic uint32_t weft_verbs_inline_ops = WEFT_OPS_INLINE;

void weft_verbs_look_before_inline(void)
{
	atomic_store_explicit(&weft_verbs_inline_ops, 0, memory_order_relaxed);
}

/* Where the process has registered memory that no CPU reads. */
static __attribute__((noinline)) int look_at_inline(const struct weft_qp *qp,
						    const struct ibv_send_wr *wr)
{
	int err = weft_op_may_inline(wr->opcode) ? 0 : refuse_inline(qp, wr);

	for (int i = 0; !err && i < wr->num_sge; i++)
		if (weft_ranges_have(wr->sg_list[i].addr, wr->sg_list[i].length))
			err = weft_broken(VERB, INLINE_DEVICE, qp->qpn, wr->sg_list[i].addr,
					  (uint64_t)wr->sg_list[i].length);
	return err;
}

static inline int take_inline(const struct weft_qp *qp, const struct ibv_send_wr *wr,
			      struct weft_wqe *wqe)
{
	uint32_t bytes = 0;
	int err;

	if (!weft_verbs_inlines(wr->opcode)) {
		err = look_at_inline(qp, wr);
		if (err)
			return err;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > qp->cap.max_inline_bytes - bytes)
			return refuse_inline(qp, wr);
		copy_inline(weft_wqe_inline(wqe) + bytes,
			    (const uint8_t *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		bytes += wr->sg_list[i].length;
	}
	wqe->len_bytes = bytes;
	return 0;
}

/* Those of type 1 go by ibv_bind_mw. */
static __attribute__((noinline)) int take_bind(const struct weft_qp *qp,
					       const struct ibv_send_wr *wr, struct weft_wqe *wqe)
{
	struct ibv_mw *mw = wr->bind_mw.mw;

	if (wr->send_flags & IBV_SEND_INLINE)
		return weft_broken(VERB, NOT_INLINE, qp->qpn, wr->opcode);
	if (weft_explain_stale(VERB, mw, WEFT_HANDLE_MW))
		return EINVAL;
	if (mw->type != IBV_MW_TYPE_2)
		return weft_broken(VERB, WINDOW_TYPE, mw->type);
	return weft_verbs_bind(VERB, mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info, wqe);
}

/* The peer, which a connection does not say. */
static __attribute__((noinline)) int
take_address(const struct weft_qp *qp, const struct ibv_send_wr *wr, struct weft_wqe *wqe)
{
	if (qp->type == WEFT_QPT_XRC_SEND) {
		if (weft_op_is_atomic(wqe->opcode))
			wqe->imm = wr->qp_type.xrc.remote_srqn;
		else
			wqe->remote_srqn = wr->qp_type.xrc.remote_srqn;
		return 0;
	}
	if (!wr->wr.ud.ah)
		return weft_broken(VERB, NO_ADDRESS, qp->qpn, 0);
	wqe->ah = &weft_ah(wr->wr.ud.ah)->nic;
	wqe->remote_qpn = wr->wr.ud.remote_qpn;
	wqe->remote_qkey = wr->wr.ud.remote_qkey;
	return 0;
}

static inline int take_wr(const struct weft_qp *qp, const struct ibv_send_wr *wr,
			  struct weft_wqe *wqe)
{
	wqe->wr_id = wr->wr_id;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->flags = (uint8_t)wr->send_flags;
	wqe->num_sge = (uint16_t)wr->num_sge;
	wqe->imm = wr->imm_data;
	if (weft_op_is_atomic(wr->opcode)) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (__builtin_expect(qp->type >= WEFT_QPT_UD, 0)) {
		int err = take_address(qp, wr, wqe);

		if (err)
			return err;
	}
	if (__builtin_expect(wr->opcode == IBV_WR_BIND_MW, 0))
		return take_bind(qp, wr, wqe);
	if (wr->send_flags & IBV_SEND_INLINE)
		return take_inline(qp, wr, wqe);
	for (int i = 0; i < wr->num_sge; i++)
		wqe->sge[i] = (struct weft_pool_sge){wr->sg_list[i].addr, wr->sg_list[i].length,
						     wr->sg_list[i].lkey};
	return 0;
}

__attribute__((cold)) int weft_verbs_refuse_send(const char *verb, const struct weft_qp *qp,
						 uint32_t opcode, uint32_t num_sge)
{
	if (!weft_sq_open(qp))
		return weft_broken(verb, SEND_STATE, qp->qpn,
				   weft_value(weft_explain_state(qp->state)));
	if (!weft_sq_has(qp, opcode))
		return weft_broken(verb, OPERATION, qp->qpn, opcode);
	if (num_sge > qp->cap.max_send_sge)
		return weft_broken(verb, SEND_LIST, qp->qpn, (int)num_sge, qp->cap.max_send_sge);
	return weft_broken(verb, SEND_FULL, qp->qpn, qp->cap.max_send_wr);
}

static __attribute__((cold, noinline)) int refuse(const struct weft_qp *qp,
						  const struct ibv_send_wr *wr)
{
	return weft_verbs_refuse_send(VERB, qp, wr->opcode, (uint32_t)wr->num_sge);
}

static inline int post_one(struct weft_qp *qp, const struct ibv_send_wr *wr,
			   struct weft_caller *caller)
{
	struct weft_wqe *wqe;
	int err;

	if (!weft_sq_open(qp) || !weft_sq_has(qp, wr->opcode) ||
	    (unsigned int)wr->num_sge > qp->cap.max_send_sge)
		return refuse(qp, wr);
	wqe = weft_sq_next(qp);
	if (!wqe)
		return refuse(qp, wr);
	err = take_wr(qp, wr, wqe);
	if (!err)
		weft_sq_submit(qp, wqe, caller);
	return err;
}

int weft_verbs_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct weft_qp *qp = &weft_qp(ibqp)->nic;
	struct weft_caller *caller = weft_caller();
	bool own;
	int err = 0;

	own = weft_lock(qp->nic, &qp->lock, caller->thread);
	for (; wr; wr = wr->next) {
		err = post_one(qp, wr, caller);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	weft_unlock(&qp->lock, own);
	return err;
}

static __attribute__((cold)) int refuse_receive(const struct weft_qp *qp, uint32_t num_sge)
{
	const char *verb = "ibv_post_recv";

	if (qp->state == WEFT_QPS_RESET)
		return weft_broken(verb, RECEIVE_STATE, qp->qpn,
				   weft_value(weft_explain_state(qp->state)));
	if (qp->srq && !qp->owns_srq)
		return weft_broken(verb, HAS_SHARED, qp->qpn);
	if (num_sge > qp->cap.max_recv_sge)
		return weft_broken(verb, RECEIVE_LIST, (int)num_sge, qp->cap.max_recv_sge);
	return weft_broken(verb, RECEIVE_FULL, qp->cap.max_recv_wr);
}

int weft_verbs_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct weft_qp *qp = &weft_qp(ibqp)->nic;
	struct weft_caller *caller = weft_caller();
	bool own = weft_lock(qp->nic, &qp->lock, caller->thread);
	int err = 0;

	while (wr && !weft_rq_post(qp, wr->wr_id, (const struct weft_pool_sge *)wr->sg_list,
				   (uint32_t)wr->num_sge, caller->thread))
		wr = wr->next;
	if (wr) {
		err = refuse_receive(qp, (uint32_t)wr->num_sge);
		*bad_wr = wr;
	}
	weft_unlock(&qp->lock, own);
	return err;
}
