/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The path between two ends: one hop, known without asking. */
#include <errno.h>
#include <stdlib.h>

#include "cm/cm.h"

#define SELECT_EXACTLY 2 /* 15.2.5.16 */
#define HOP_LIMIT      64
#define PKEY	       0xffff

/* What its interface carries, to another host. */
static uint8_t mtu_of(const struct weft_cm_id *id)
{
	return weft_cm.service->reachable(weft_cm.pool, id->path.dgid.raw)
		       ? (uint8_t)IBV_MTU_4096
		       : weft_cm.service->mtu(id->path.sgid.raw);
}

void weft_route_fill(struct weft_cm_id *id)
{
	id->path.hop_limit = HOP_LIMIT;
	id->path.traffic_class = id->tos;
	id->path.reversible = 1;
	id->path.numb_path = 1;
	id->path.pkey = htobe16(PKEY);
	id->path.sl = id->tos >> 5;
	id->path.mtu_selector = SELECT_EXACTLY;
	id->path.mtu = mtu_of(id);
	id->path.rate_selector = SELECT_EXACTLY;
	id->path.rate = IBV_RATE_100_GBPS;
	id->path.packet_life_time_selector = SELECT_EXACTLY;
	id->path.packet_life_time = (uint8_t)(id->ack_timeout - !!id->ack_timeout);
	id->id.route.addr.addr.ibaddr.sgid = id->path.sgid;
	id->id.route.addr.addr.ibaddr.dgid = id->path.dgid;
	id->id.route.addr.addr.ibaddr.pkey = id->path.pkey;
	if (!id->id.route.path_rec)
		id->id.route.path_rec = malloc(sizeof(id->path));
	id->id.route.num_paths = !!id->id.route.path_rec;
	if (id->id.route.path_rec)
		*id->id.route.path_rec = id->path;
}

void weft_route_ah(const struct weft_cm_id *id, const union ibv_gid *to, struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .sl = id->path.sl};
	attr->grh.dgid = *to;
	attr->grh.hop_limit = HOP_LIMIT;
	attr->grh.traffic_class = id->tos;
	attr->grh.sgid_index = (uint8_t)weft_addr_gid_index(id->path.sgid.raw);
}

int rdma_resolve_route(struct rdma_cm_id *rdma_id, int timeout_ms)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	int err = -EINVAL;

	if (!rdma_id)
		return weft_cm_result(err);
	weft_cm_lock();
	if (id->state == WEFT_ID_ADDR_RESOLVED) {
		weft_route_fill(id);
		id->state = WEFT_ID_ROUTE_RESOLVED;
		weft_event_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
		err = 0;
	}
	weft_cm_unlock();
	return weft_cm_result(err ? err : weft_event_complete(id));
}
