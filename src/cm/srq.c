/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared receive queues of identifiers. */
#include <errno.h>

#include "cm/cm.h"

static int create(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (id->srq || !id->verbs)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->pd->context != id->verbs)
		return -EINVAL;
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	if (!id->srq)
		return -errno;
	id->pd = attr->pd;
	return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	return weft_cm_result(id && attr ? create(id, attr) : -EINVAL);
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
							IBV_SRQ_INIT_ATTR_PD,
					   .srq_type = IBV_SRQT_BASIC,
					   .pd = pd };
	int err;

	if (!id || !attr)
		return weft_cm_result(-EINVAL);
	ex.srq_context = attr->srq_context;
	ex.attr = attr->attr;
	err = create(id, &ex);
	if (!err)
		attr->attr = ex.attr;
	return weft_cm_result(err);
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
}
