/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared receive queues of identifiers. */
#include <errno.h>

#include "cm/cm.h"

/* What one of XRC needs besides: a domain, and where its receives complete. */
static int complete_xrc(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err = weft_qp_complete_xrcd(&attr->comp_mask, IBV_SRQ_INIT_ATTR_XRCD, &attr->xrcd);

	if (err || (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq))
		return err;
	err = weft_qp_make_queue(id, attr->attr.max_wr, &id->recv_cq, &id->recv_cq_channel);
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	attr->cq = id->recv_cq;
	return err;
}

static int create_srq(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	bool is_xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC;
	int err;

	if (id->srq || !id->verbs)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->pd->context != id->verbs)
		return -EINVAL;
	err = is_xrc ? complete_xrc(id, attr) : 0;
	if (err)
		goto destroy_queues;
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	err = -errno;
	if (!id->srq)
		goto destroy_queues;
	id->pd = attr->pd;
	return 0;
destroy_queues:
	weft_qp_destroy_queues(id);
	return err;
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	return weft_cm_result(id && attr ? create_srq(id, attr) : -EINVAL);
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {.comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_BASIC,
					  .pd = pd};
	int err;

	if (!id || !attr)
		return weft_cm_result(-EINVAL);
	if (id->qp_type == IBV_QPT_XRC_RECV)
		ex.srq_type = IBV_SRQT_XRC;
	ex.srq_context = attr->srq_context;
	ex.attr = attr->attr;
	err = create_srq(id, &ex);
	if (!err)
		attr->attr = ex.attr;
	return weft_cm_result(err);
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	weft_qp_destroy_queues(id);
}
