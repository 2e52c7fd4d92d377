/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extended queue pairs: requests are built where they are to lie, in the send queue behind what is
 * posted, and posted together by ibv_wr_complete. What is not posted is nothing: to abort, or to
 * fail, leaves all as it was. The queue pair's lock is held from ibv_wr_start on.
 */
#include <errno.h>
#include <string.h>

#include "nic/mw.h"
#include "nic/queues.h"
#include "nic/submit.h"
#include "nic/wqe.h"
#include "verbs/ah.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/inline.h"
#include "verbs/mw.h"
#include "verbs/qp.h"
#include "verbs/receiver.h"
#include "process/process.h"
#include "process/ranges.h"
#include "verbs/verbs.h"

#define MASK                                                                                       \
	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |             \
	 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
#define SENDS  (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITES (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define RESPONDING                                                                                 \
	(IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |                            \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define WINDOWS	 (IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)
#define RELIABLE (RESPONDING | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE)

static inline struct weft_verbs_qp *qp_of(struct ibv_qp_ex *ex)
{
	return weft_qp(&ex->qp_base);
}

/* ---- Requests ---- */

static void fail_batch(struct weft_verbs_qp *qp, int err)
{
	if (!qp->built_error)
		qp->built_error = err;
	qp->wqe = NULL;
}

/* A part of the request breaks the rule with that value, or there is none. What is wrong first is said. */
#define REFUSE(ex, verb, rule, value)                                                              \
	fail_batch(qp_of(ex), qp_of(ex)->built_error ? qp_of(ex)->built_error                      \
			      : qp_of(ex)->wqe                                                     \
				      ? weft_broken(verb, rule, qp_of(ex)->nic.qpn, value,         \
						    qp_of(ex)->nic.cap.max_send_sge)               \
				      : weft_broken(verb, NO_REQUEST, qp_of(ex)->nic.qpn))

/* The next request; NULL if it cannot be posted. */
static inline struct weft_wqe *build(struct ibv_qp_ex *ex, enum weft_opcode opcode)
{
	struct weft_verbs_qp *qp = qp_of(ex);
	struct weft_wqe *wqe = weft_sq_ahead(&qp->nic, qp->built);

	bool may = weft_sq_open(&qp->nic) && weft_sq_has(&qp->nic, opcode);

	if (__builtin_expect(!may || !wqe, 0)) {
		fail_batch(qp, qp->built_error
				       ? qp->built_error
				       : weft_verbs_refuse_send("ibv_wr_*", &qp->nic, opcode, 0));
		return NULL;
	}
	wqe->wr_id = ex->wr_id;
	wqe->opcode = (uint8_t)opcode;
	wqe->flags = (uint8_t)(ex->wr_flags & ~(unsigned int)IBV_SEND_INLINE);
	wqe->num_sge = 0;
	wqe->imm = 0;
	qp->built++;
	qp->wqe = wqe;
	return wqe;
}

static inline void build_remote(struct ibv_qp_ex *ex, enum weft_opcode opcode, uint32_t rkey,
				uint64_t remote_addr, uint32_t imm)
{
	struct weft_wqe *wqe = build(ex, opcode);

	if (!wqe)
		return;
	wqe->remote_addr = remote_addr;
	wqe->rkey = rkey;
	wqe->imm = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	build_remote(ex, WEFT_OP_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	build_remote(ex, WEFT_OP_WRITE_IMM, rkey, remote_addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	build_remote(ex, WEFT_OP_READ, rkey, remote_addr, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	build_remote(ex, WEFT_OP_SEND, 0, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	build_remote(ex, WEFT_OP_SEND_IMM, 0, 0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build_remote(ex, WEFT_OP_SEND_INV, 0, 0, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build_remote(ex, WEFT_OP_LOCAL_INV, 0, 0, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct weft_wqe *wqe = build(ex, WEFT_OP_BIND_MW);
	int err;

	if (!wqe)
		return;
	if (weft_explain_stale("ibv_wr_bind_mw", mw, WEFT_HANDLE_MW))
		err = EINVAL;
	else if (mw->type != IBV_MW_TYPE_2)
		err = weft_broken("ibv_wr_bind_mw", WINDOW_TYPE, mw->type);
	else
		err = weft_verbs_bind("ibv_wr_bind_mw", mw, rkey, info, wqe);
	if (err)
		fail_batch(qp_of(ex), err);
}

static void build_atomic(struct ibv_qp_ex *ex, enum weft_opcode opcode, uint32_t rkey,
			 uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	build_remote(ex, opcode, rkey, remote_addr, 0);
	if (!qp_of(ex)->wqe)
		return;
	qp_of(ex)->wqe->compare_add = compare_add;
	qp_of(ex)->wqe->swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	build_atomic(ex, WEFT_OP_CMP_SWAP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	build_atomic(ex, WEFT_OP_FETCH_ADD, rkey, remote_addr, add, 0);
}

/* No program can ask for these (offered). */
static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	fail_batch(qp_of(ex),
		   weft_broken("ibv_wr_send_tso", NOT_OFFERED, weft_value("hdr_sz"), hdr_sz));
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct weft_wqe *wqe = qp_of(ex)->wqe;

	if (!wqe || !ah || qp_of(ex)->nic.type != WEFT_QPT_UD) {
		REFUSE(ex, "ibv_wr_set_ud_addr", NO_ADDRESS, weft_value(ah));
		return;
	}
	wqe->ah = &weft_ah(ah)->nic;
	wqe->remote_qpn = qpn;
	wqe->remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct weft_wqe *wqe = qp_of(ex)->wqe;

	if (!wqe || qp_of(ex)->nic.type != WEFT_QPT_XRC_SEND) {
		REFUSE(ex, "ibv_wr_set_xrc_srqn", NO_REQUEST, srqn);
		return;
	}
	if (weft_op_is_atomic(wqe->opcode))
		wqe->imm = srqn;
	else
		wqe->remote_srqn = srqn;
}

/* ---- Their data ---- */

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *list)
{
	struct weft_verbs_qp *qp = qp_of(ex);
	struct weft_wqe *wqe = qp->wqe;

	if (!wqe || num_sge > qp->nic.cap.max_send_sge) {
		REFUSE(ex, "ibv_wr_set_sge_list", SEND_LIST, num_sge);
		return;
	}
	wqe->num_sge = (uint16_t)num_sge;
	for (size_t i = 0; i < num_sge; i++)
		wqe->sge[i] = (struct weft_pool_sge){list[i].addr, list[i].length, list[i].lkey};
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct weft_wqe *wqe = qp_of(ex)->wqe;

	if (!wqe || !qp_of(ex)->nic.cap.max_send_sge) {
		REFUSE(ex, "ibv_wr_set_sge", SEND_LIST, 1);
		return;
	}
	wqe->num_sge = 1;
	wqe->sge[0] = (struct weft_pool_sge){addr, length, lkey};
}

/* False: it has been refused. */
static __attribute__((noinline)) bool look_at_inline(struct ibv_qp_ex *ex, size_t num_buf,
						     const struct ibv_data_buf *list)
{
	const struct weft_wqe *wqe = qp_of(ex)->wqe;
	int err = 0;

	if (!wqe || !weft_op_may_inline(wqe->opcode)) {
		REFUSE(ex, "ibv_wr_set_inline_data", NOT_INLINE, wqe ? wqe->opcode : 0);
		return false;
	}
	for (size_t i = 0; i < num_buf && !err; i++)
		if (weft_ranges_have((uintptr_t)list[i].addr, list[i].length))
			err = weft_broken("ibv_wr_set_inline_data", INLINE_DEVICE,
					  qp_of(ex)->nic.qpn, (uintptr_t)list[i].addr,
					  (uint64_t)list[i].length);
	if (err)
		fail_batch(qp_of(ex), err);
	return !err;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *list)
{
	struct weft_verbs_qp *qp = qp_of(ex);
	struct weft_wqe *wqe = qp->wqe;
	uint32_t bytes = 0;

	if ((!wqe || !weft_verbs_inlines(wqe->opcode)) && !look_at_inline(ex, num_buf, list))
		return;
	for (size_t i = 0; i < num_buf; i++) {
		if (list[i].length > qp->nic.cap.max_inline_bytes - bytes) {
			REFUSE(ex, "ibv_wr_set_inline_data", INLINE, qp->nic.cap.max_inline_bytes);
			return;
		}
		memcpy(weft_wqe_inline(wqe) + bytes, list[i].addr, list[i].length);
		bytes += (uint32_t)list[i].length;
	}
	wqe->flags |= WEFT_SEND_INLINE;
	wqe->len_bytes = bytes;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	wr_set_inline_data_list(ex, 1, &(struct ibv_data_buf){addr, length});
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *value)
{
	build_remote(ex, WEFT_OP_ATOMIC_WRITE, rkey, remote_addr, 0);
	wr_set_inline_data(ex, (void *)value, 8);
}

/* ---- Posting ---- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct weft_verbs_qp *qp = qp_of(ex);
	bool own = weft_lock(qp->nic.nic, &qp->nic.lock, weft_caller()->thread);

	qp->built_own = own;
	qp->built = 0;
	qp->built_error = 0;
	qp->wqe = NULL;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	weft_unlock(&qp_of(ex)->nic.lock, qp_of(ex)->built_own);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct weft_verbs_qp *qp = qp_of(ex);
	struct weft_caller *caller = weft_caller();
	int err = qp->built_error;

	for (uint32_t n = err ? 0 : qp->built; n; n--)
		weft_sq_submit(&qp->nic, weft_sq_slot(&qp->nic, qp->nic.sq_posted), caller);
	weft_unlock(&qp->nic.lock, qp->built_own);
	return err;
}

/* ---- Creating ---- */

static uint64_t offered(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC	  ? SENDS | WRITES | WINDOWS | RELIABLE
	       : type == IBV_QPT_UC	  ? SENDS | WRITES | WINDOWS
	       : type == IBV_QPT_UD	  ? SENDS
	       : type == IBV_QPT_XRC_SEND ? SENDS | WRITES | RELIABLE
					  : 0;
}

static int check_qp_ex(struct ibv_context *context, const struct ibv_qp_init_attr_ex *init)
{
	const char *verb = "ibv_create_qp_ex";

	if (!init)
		return weft_broken(verb, MISSING, weft_value("qp_init_attr"));
	if (init->comp_mask & IBV_QP_INIT_ATTR_PD && weft_explain_no_domain(verb, init->pd))
		return EINVAL;
	if (init->comp_mask & IBV_QP_INIT_ATTR_PD && init->pd->context != context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("pd"), weft_value(init->pd));
	if (init->comp_mask & ~(uint32_t)MASK)
		return weft_broken(verb, NOT_OFFERED, weft_value("comp_mask"), init->comp_mask);
	if (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && init->create_flags)
		return weft_broken(verb, NOT_OFFERED, weft_value("create_flags"),
				   init->create_flags);
	if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    init->send_ops_flags & ~offered(init->qp_type))
		return weft_broken(verb, NOT_OFFERED, weft_value("send_ops_flags"),
				   init->send_ops_flags);
	return 0;
}

static void fill_qp_calls(struct ibv_qp_ex *ex)
{
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_atomic_write = wr_atomic_write;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}

struct ibv_qp *weft_verbs_create_qp_ex(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *init)
{
	int err = check_qp_ex(context, init);
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	if (err) {
		errno = err;
		return NULL;
	}
	pd = init->comp_mask & IBV_QP_INIT_ATTR_PD ? init->pd : NULL;
	qp = init->qp_type == IBV_QPT_XRC_RECV ? weft_receiver_create(context, init)
					       : ibv_create_qp(pd, (struct ibv_qp_init_attr *)init);
	if (qp && init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		weft_qp(qp)->extended = true;
		fill_qp_calls(&weft_qp(qp)->ex);
	}
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return weft_handle_is(qp, WEFT_HANDLE_QP) && weft_qp(qp)->extended ? &weft_qp(qp)->ex
									   : NULL;
}
