/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/verbs.h"

static int check(struct ibv_pd *pd, const struct ibv_srq_attr *attr)
{
	return weft_handle_is(pd, WEFT_HANDLE_PD) && attr->max_wr && attr->max_wr <= WEFT_MAX_WR &&
			       attr->max_sge <= WEFT_MAX_SGE ?
		       0 :
		       EINVAL;
}

static struct ibv_srq *create(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *attr)
{
	int err = check(pd, attr);
	struct weft_verbs_srq *srq;

	if (err)
		goto fail;
	err = ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		goto fail;
	err = -weft_shared_create(&weft_process.nic, &srq->nic, weft_pd(pd)->number, attr->max_wr,
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
	weft_pd(pd)->users++;
	return &srq->srq;
destroy_queue:
	weft_shared_destroy(&srq->nic, true);
free_object:
	free(srq);
fail:
	errno = err == ENOSPC ? ENOMEM : err;
	return NULL;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	if (!init) {
		errno = EINVAL;
		return NULL;
	}
	return create(pd, init->srq_context, &init->attr);
}

static struct ibv_srq *create_xrc(struct ibv_srq_init_attr_ex *init)
{
	const uint32_t mask = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	struct weft_verbs_srq *srq;
	int err;

	if ((init->comp_mask & mask) != mask || !weft_handle_is(init->xrcd, WEFT_HANDLE_XRCD) ||
	    init->xrcd->context != init->pd->context || !weft_handle_is(init->cq, WEFT_HANDLE_CQ) ||
	    init->cq->context != init->pd->context) {
		errno = EINVAL;
		return NULL;
	}
	srq = weft_srq(create(init->pd, init->srq_context, &init->attr));
	if (!srq)
		return NULL;
	err = -weft_shared_number(&srq->nic, &weft_cq(init->cq)->nic,
				  weft_xrcd(init->xrcd)->number, &srq->number);
	if (err) {
		ibv_destroy_srq(&srq->srq);
		errno = err == ENOSPC ? ENOMEM : err;
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
	if (!weft_handle_is(srq, WEFT_HANDLE_SRQ) || !srq_num || !weft_srq(srq)->xrcd)
		return EINVAL;
	*srq_num = weft_srq(srq)->number;
	return 0;
}

struct ibv_srq *weft_verbs_create_srq_ex(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *init)
{
	enum ibv_srq_type type = IBV_SRQT_BASIC;

	if (!init || !(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    !weft_handle_is(init->pd, WEFT_HANDLE_PD) || init->pd->context != context) {
		errno = EINVAL;
		return NULL;
	}
	if (init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)
		type = init->srq_type;
	if (type == IBV_SRQT_BASIC)
		return create(init->pd, init->srq_context, &init->attr);
	if (type == IBV_SRQT_XRC)
		return create_xrc(init);
	errno = EOPNOTSUPP;
	return NULL;
}

static int modify(struct weft_verbs_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->nic.max_wr;
	int err = 0;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) || !max_wr || max_wr > WEFT_MAX_WR ||
	    (mask & IBV_SRQ_LIMIT && attr->srq_limit > max_wr))
		return EINVAL;
	if (mask & IBV_SRQ_LIMIT)
		err = -weft_engine_start();
	if (!err && mask & IBV_SRQ_MAX_WR)
		err = -weft_shared_resize(&srq->nic, max_wr);
	if (!err && mask & IBV_SRQ_LIMIT)
		weft_shared_arm(&srq->nic, attr->srq_limit);
	return err == ENOSPC ? ENOMEM : err;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	int err;

	if (!weft_handle_is(srq, WEFT_HANDLE_SRQ) || !attr)
		return EINVAL;
	pthread_mutex_lock(&srq->mutex);
	err = modify(weft_srq(srq), attr, mask);
	pthread_mutex_unlock(&srq->mutex);
	return err;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	const struct weft_shared *q;

	if (!weft_handle_is(srq, WEFT_HANDLE_SRQ) || !attr)
		return EINVAL;
	q = &weft_srq(srq)->nic;
	*attr = (struct ibv_srq_attr){ q->max_wr, q->max_sge, weft_shared_limit(q) };
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct weft_verbs_srq *srq = weft_srq(ibsrq);

	if (!weft_handle_is(ibsrq, WEFT_HANDLE_SRQ))
		return EINVAL;
	if (srq->users)
		return EBUSY;
	weft_handle_remove(ibsrq);
	if (srq->xrcd) {
		weft_shared_forget(&srq->nic);
		srq->xrcd->users--;
		srq->cq->users--;
	}
	/* peers were shut out with the last queue pair, but for one who was stopped then */
	weft_shared_destroy(&srq->nic, !weft_pool_quiesce(weft_process.pool, srq->nic.made));
	weft_async_finish(ibsrq->context, srq, weft_srq_acks(ibsrq));
	weft_pd(ibsrq->pd)->users--;
	free(srq);
	return 0;
}

int weft_verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int err = 0;

	for (; wr && !err; wr = wr->next) {
		err = -weft_shared_post(&weft_srq(srq)->nic, wr->wr_id,
					(const struct weft_pool_sge *)wr->sg_list,
					(uint32_t)wr->num_sge);
		if (err)
			*bad_wr = wr;
	}
	return err;
}
