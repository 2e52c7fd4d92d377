/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "nic/limits.h"
#include "pool/sge.h"
#include "verbs/async.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/pd.h"
#include "verbs/srq.h"
#include "process/process.h"
#include "verbs/verbs.h"

static int check_srq(struct ibv_pd *pd, const struct ibv_srq_attr *attr)
{
	const char *verb = "ibv_create_srq";

	if (weft_explain_no_domain(verb, pd))
		return EINVAL;
	if (!attr->max_wr || attr->max_wr > WEFT_MAX_WR)
		return weft_broken(verb, RANGE, weft_value("max_wr"), attr->max_wr, 1, WEFT_MAX_WR);
	if (attr->max_sge > WEFT_MAX_SGE)
		return weft_broken(verb, RANGE, weft_value("max_sge"), attr->max_sge, 0,
				   WEFT_MAX_SGE);
	return 0;
}

static struct ibv_srq *create(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *attr)
{
	int err = check_srq(pd, attr);
	struct weft_verbs_srq *srq;

	if (!err)
		err = weft_verbs_pd_use("ibv_create_srq", pd);
	if (err) {
		errno = err;
		return NULL;
	}
	err = ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		goto fail;
	err = -weft_srq_create(&weft_process_nic, &srq->nic, weft_pd(pd)->number, attr->max_wr,
			       attr->max_sge);
	if (err)
		goto free_object;
	err = -weft_handle_add(srq, WEFT_HANDLE_SRQ);
	if (err)
		goto destroy_queue;
	srq->srq.context = pd->context;
	srq->srq.srq_context = srq_context;
	srq->srq.pd = pd;
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	return &srq->srq;
destroy_queue:
	weft_srq_destroy(&srq->nic, true);
free_object:
	free(srq);
fail:
	weft_verbs_pd_leave(pd);
	errno = weft_explain_errno("ibv_create_srq", err);
	return NULL;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	if (!init) {
		errno = weft_broken("ibv_create_srq", MISSING, weft_value("srq_init_attr"));
		return NULL;
	}
	return create(pd, init->srq_context, &init->attr);
}

static int check_xrc(const struct ibv_srq_init_attr_ex *init)
{
	const uint32_t mask = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	const char *verb = "ibv_create_srq_ex";

	if ((init->comp_mask & mask) != mask)
		return weft_broken(verb, MISSING, weft_value("xrcd or cq, by comp_mask"),
				   init->comp_mask);
	if (weft_explain_stale(verb, init->xrcd, WEFT_HANDLE_XRCD) ||
	    weft_explain_stale(verb, init->cq, WEFT_HANDLE_CQ))
		return EINVAL;
	if (init->xrcd->context != init->pd->context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("xrcd"), weft_value(init->xrcd));
	if (init->cq->context != init->pd->context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("cq"), weft_value(init->cq));
	return 0;
}

static struct ibv_srq *create_xrc(struct ibv_srq_init_attr_ex *init)
{
	struct weft_verbs_srq *srq;
	int err = check_xrc(init);

	if (err) {
		errno = err;
		return NULL;
	}
	srq = weft_srq(create(init->pd, init->srq_context, &init->attr));
	if (!srq)
		return NULL;
	weft_rehome_share();
	err = -weft_srq_number(&srq->nic, &weft_cq(init->cq)->nic, weft_xrcd(init->xrcd)->number,
			       &srq->number);
	weft_rehome_unshare();
	if (err) {
		ibv_destroy_srq(&srq->srq);
		errno = weft_explain_errno("ibv_create_srq_ex", err);
		return NULL;
	}
	srq->xrcd = weft_xrcd(init->xrcd);
	srq->cq = weft_cq(init->cq);
	srq->xrcd->users++;
	srq->cq->users++;
	return &srq->srq;
}

int weft_verbs_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	if (weft_explain_stale("ibv_get_srq_num", srq, WEFT_HANDLE_SRQ))
		return EINVAL;
	if (!srq_num)
		return weft_broken("ibv_get_srq_num", MISSING, weft_value("srq_num"));
	if (!weft_srq(srq)->xrcd)
		return weft_broken("ibv_get_srq_num", NOT_XRC);
	*srq_num = weft_srq(srq)->number;
	return 0;
}

struct ibv_srq *weft_verbs_create_srq_ex(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *init)
{
	enum ibv_srq_type type = IBV_SRQT_BASIC;
	const char *verb = "ibv_create_srq_ex";

	if (!init || !(init->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		errno = weft_broken(verb, MISSING,
				    weft_value("srq_init_attr, or the pd of its comp_mask"),
				    init ? init->comp_mask : 0);
		return NULL;
	}
	if (weft_explain_no_domain(verb, init->pd)) {
		errno = EINVAL;
		return NULL;
	}
	if (init->pd->context != context) {
		errno = weft_broken(verb, OTHER_CONTEXT, weft_value("pd"), weft_value(init->pd));
		return NULL;
	}
	if (init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)
		type = init->srq_type;
	if (type == IBV_SRQT_BASIC)
		return create(init->pd, init->srq_context, &init->attr);
	if (type == IBV_SRQT_XRC)
		return create_xrc(init);
	errno = weft_broken(verb, NOT_OFFERED, weft_value("srq_type"), type);
	return NULL;
}

static int modify(struct weft_verbs_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->nic.max_wr;
	const char *verb = "ibv_modify_srq";
	int err = 0;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return weft_broken(verb, UNKNOWN_BITS, weft_value("srq_attr_mask"), (uint64_t)mask);
	if (!max_wr || max_wr > WEFT_MAX_WR)
		return weft_broken(verb, RANGE, weft_value("max_wr"), max_wr, 1, WEFT_MAX_WR);
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > max_wr)
		return weft_broken(verb, RANGE, weft_value("srq_limit"), attr->srq_limit, 0,
				   max_wr);
	if (mask & IBV_SRQ_LIMIT)
		err = -weft_helper_start();
	if (!err && mask & IBV_SRQ_MAX_WR)
		err = -weft_srq_resize(&srq->nic, max_wr);
	if (!err && mask & IBV_SRQ_LIMIT)
		weft_srq_arm(&srq->nic, attr->srq_limit);
	if (err == EINVAL)
		return weft_broken(verb, SRQ_HELD, max_wr);
	return err ? weft_explain_errno(verb, err) : 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	int err;

	if (weft_explain_stale("ibv_modify_srq", srq, WEFT_HANDLE_SRQ))
		return EINVAL;
	if (!attr)
		return weft_broken("ibv_modify_srq", MISSING, weft_value("srq_attr"));
	pthread_mutex_lock(&srq->mutex);
	err = modify(weft_srq(srq), attr, mask);
	pthread_mutex_unlock(&srq->mutex);
	return err;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	const struct weft_srq *q;

	if (weft_explain_stale("ibv_query_srq", srq, WEFT_HANDLE_SRQ))
		return EINVAL;
	if (!attr)
		return weft_broken("ibv_query_srq", MISSING, weft_value("srq_attr"));
	q = &weft_srq(srq)->nic;
	*attr = (struct ibv_srq_attr){q->max_wr, q->max_sge, weft_srq_limit(q)};
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct weft_verbs_srq *srq = weft_srq(ibsrq);

	if (weft_handle_inherited(ibsrq))
		return 0;
	if (weft_explain_stale("ibv_destroy_srq", ibsrq, WEFT_HANDLE_SRQ))
		return EINVAL;
	if (srq->users)
		return weft_broken("ibv_destroy_srq", IN_USE, srq->users,
				   weft_value("shared receive queue"));
	weft_handle_remove(ibsrq);
	weft_rehome_share();
	if (srq->xrcd) {
		weft_srq_forget(&srq->nic);
		srq->xrcd->users--;
		srq->cq->users--;
	}
	/* peers were shut out with the last queue pair, but for an executor that stood still then */
	weft_srq_destroy(&srq->nic, !weft_pool_quiesce(weft_process.pool, 0, srq->nic.made));
	weft_rehome_unshare();
	weft_async_finish(ibsrq->context, srq, weft_srq_acks(ibsrq));
	weft_verbs_pd_leave(ibsrq->pd);
	free(srq);
	return 0;
}

static __attribute__((cold)) int refuse(const struct weft_srq *q, uint32_t num_sge)
{
	if (num_sge > q->max_sge)
		return weft_broken("ibv_post_srq_recv", RECEIVE_LIST, (int)num_sge, q->max_sge);
	return weft_broken("ibv_post_srq_recv", RECEIVE_FULL, q->max_wr);
}

int weft_verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr)
{
	uint32_t thread = weft_caller()->thread;
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		err = -weft_srq_post(&weft_srq(srq)->nic, wr->wr_id,
				     (const struct weft_pool_sge *)wr->sg_list,
				     (uint32_t)wr->num_sge, thread);
		if (err) {
			*bad_wr = wr;
			err = refuse(&weft_srq(srq)->nic, (uint32_t)wr->num_sge);
		}
	}
	return err;
}
