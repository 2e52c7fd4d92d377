/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory windows: their rules are nic/mw.c's. */
#include <errno.h>
#include <stdlib.h>

#include "nic/mw.h"
#include "nic/queues.h"
#include "nic/submit.h"
#include "nic/wqe.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/mw.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "process/process.h"
#include "verbs/verbs.h"

struct ibv_mw *weft_verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct weft_verbs_mw *mw;
	int err;

	if (weft_explain_no_domain("ibv_alloc_mw", pd)) {
		errno = EINVAL;
		return NULL;
	}
	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = weft_broken("ibv_alloc_mw", WINDOW_TYPE, type);
		return NULL;
	}
	err = weft_verbs_pd_use("ibv_alloc_mw", pd);
	if (err) {
		errno = err;
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		goto fail;
	if (weft_mw_create(&weft_process_nic, &mw->nic, weft_pd(pd)->number,
			   (enum weft_mw_type)type))
		goto free_object;
	if (weft_handle_add(mw, WEFT_HANDLE_MW))
		goto destroy_window;
	mw->mw = (struct ibv_mw){pd->context, pd, mw->nic.key, mw->nic.index, type};
	return &mw->mw;
destroy_window:
	weft_mw_destroy(&mw->nic);
free_object:
	free(mw);
fail:
	weft_verbs_pd_leave(pd);
	errno = weft_explain_errno("ibv_alloc_mw", ENOMEM);
	return NULL;
}

int weft_verbs_dealloc_mw(struct ibv_mw *mw)
{
	if (weft_handle_inherited(mw))
		return 0;
	if (weft_explain_stale("ibv_dealloc_mw", mw, WEFT_HANDLE_MW))
		return EINVAL;
	weft_handle_remove(mw);
	weft_mw_destroy(&weft_mw(mw)->nic);
	weft_verbs_pd_leave(mw->pd);
	free(weft_mw(mw));
	return 0;
}

int weft_verbs_bind(const char *verb, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *info, struct weft_wqe *wqe)
{
	struct weft_bind bind = {info->addr, info->length, 0, info->mw_access_flags};

	/* the program chooses only the last byte of a key (10.6.7.2.3) */
	if ((rkey ^ mw->rkey) >> 8)
		return weft_broken(verb, WINDOW_KEY, rkey, mw->rkey);
	if (info->mr && weft_explain_stale(verb, info->mr, WEFT_HANDLE_MR))
		return EINVAL;
	if (!info->mr && (info->addr || info->length))
		return weft_broken(verb, WINDOW_REGION, info->addr, info->length);
	if (info->mr)
		bind.lkey = info->mr->lkey;
	wqe->num_sge = 0;
	wqe->rkey = rkey;
	weft_wqe_set_bind(wqe, &bind);
	return 0;
}

static int post_bind(struct weft_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind,
		     uint32_t rkey, struct weft_caller *caller)
{
	struct weft_wqe *wqe = weft_sq_next(qp);
	int err;

	if (!wqe || !weft_sq_open(qp) || !weft_sq_has(qp, WEFT_OP_BIND_MW))
		return weft_verbs_refuse_send("ibv_bind_mw", qp, WEFT_OP_BIND_MW, 0);
	wqe->wr_id = bind->wr_id;
	wqe->opcode = WEFT_OP_BIND_MW;
	wqe->flags = (uint8_t)bind->send_flags;
	wqe->imm = 0;
	err = weft_verbs_bind("ibv_bind_mw", mw, rkey, &bind->bind_info, wqe);
	if (!err)
		weft_sq_submit(qp, wqe, caller);
	return err;
}

/* ibv_bind_mw has seen that it is of type 1. */
int weft_verbs_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct weft_caller *caller = weft_caller();
	const char *verb = "ibv_bind_mw";
	struct weft_qp *qp;
	uint32_t rkey;
	bool own;
	int err;

	if (weft_explain_stale(verb, ibqp, WEFT_HANDLE_QP) ||
	    weft_explain_stale(verb, mw, WEFT_HANDLE_MW))
		return EINVAL;
	if (!bind)
		return weft_broken(verb, MISSING, weft_value("mw_bind"));
	if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return weft_broken(verb, WINDOW_ZERO, bind->bind_info.mw_access_flags);
	qp = &weft_qp(ibqp)->nic;
	if (weft_handle_is(bind->bind_info.mr, WEFT_HANDLE_MR) && bind->bind_info.mr->pd != mw->pd)
		return weft_broken(verb, WINDOW_DOMAIN, mw->rkey, bind->bind_info.mr->rkey);
	rkey = ibv_inc_rkey(mw->rkey);
	own = weft_lock(qp->nic, &qp->lock, caller->thread);
	err = post_bind(qp, mw, bind, rkey, caller);
	weft_unlock(&qp->lock, own);
	if (!err)
		mw->rkey = rkey;
	return err;
}
