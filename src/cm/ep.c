/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Endpoints: an identifier made ready in one synchronous call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

#define RESOLVE_TIMEOUT_MS 2000

static int keep_attr(struct weft_cm_id *id, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	if (!attr)
		return 0;
	id->ep_attr = malloc(sizeof(*attr));
	if (!id->ep_attr)
		return -ENOMEM;
	*id->ep_attr = *attr;
	id->ep_attr->qp_type = id->id.qp_type;
	id->ep_pd = pd;
	return 0;
}

static int keep_connect(struct weft_cm_id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_connect_len)
		return 0;
	id->ep_connect = malloc(res->ai_connect_len);
	if (!id->ep_connect)
		return -ENOMEM;
	memcpy(id->ep_connect, res->ai_connect, res->ai_connect_len);
	id->ep_connect_bytes = res->ai_connect_len;
	return 0;
}

static int make_active(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_TIMEOUT_MS) ||
	    rdma_resolve_route(id, RESOLVE_TIMEOUT_MS))
		return -errno;
	if (!attr)
		return 0;
	attr->qp_type = id->qp_type;
	return rdma_create_qp(id, pd, attr) ? -errno : 0;
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int err = -EINVAL;

	if (!out || !res)
		return weft_cm_result(err);
	err = weft_id_create(&id, (enum rdma_port_space)res->ai_port_space,
			     (enum ibv_qp_type)res->ai_qp_type);
	if (err)
		return weft_cm_result(err);
	if (res->ai_flags & RAI_PASSIVE) {
		err = rdma_bind_addr(id, res->ai_src_addr) ? -errno : 0;
		if (!err)
			err = keep_attr(weft_cm_id(id), pd, attr);
	} else {
		err = make_active(id, res, pd, attr);
	}
	if (!err)
		err = keep_connect(weft_cm_id(id), res);
	if (err) {
		rdma_destroy_ep(id);
		return weft_cm_result(err);
	}
	*out = id;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
