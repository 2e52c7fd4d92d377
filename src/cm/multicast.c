/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Multicast groups of identifiers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

#define QPN_MULTICAST 0xffffffu

/* As Linux derives the GID of a RoCE v2 group: the address itself. */
static int make_group(const struct sockaddr *addr, struct weft_cm_group **made)
{
	struct weft_cm_group *group = calloc(1, sizeof(*group));
	uint16_t port;
	int err = group ? weft_addr_get(addr, group->gid.raw, &port) : -ENOMEM;

	if (err)
		free(group);
	else
		*made = group;
	return err;
}

static struct weft_cm_group **find_joined(struct weft_cm_id *id, const union ibv_gid *gid)
{
	struct weft_cm_group **at = &id->groups;

	while (*at && memcmp(&(*at)->gid, gid, sizeof(*gid)) != 0)
		at = &(*at)->next;
	return at;
}

static struct weft_cm_event *new_group_event(struct weft_cm_id *id,
					     const struct weft_cm_group *group, void *context)
{
	struct weft_cm_event *e = weft_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	struct rdma_ud_param *p = e ? &e->event.param.ud : NULL;

	if (!e)
		return NULL;
	p->private_data = context;
	p->qp_num = QPN_MULTICAST;
	p->qkey = RDMA_UDP_QKEY;
	weft_route_ah(id, &group->gid, &p->ah_attr);
	return e;
}

static int join_group(struct weft_cm_id *id, const struct sockaddr *addr, bool send_only,
		      void *context)
{
	struct weft_cm_group *group;
	struct weft_address card;
	struct weft_cm_event *e;
	int err;

	if (!weft_id_is_ud(id) || !id->id.verbs ||
	    (id->state != WEFT_ID_BOUND && id->state != WEFT_ID_ADDR_RESOLVED &&
	     id->state != WEFT_ID_ROUTE_RESOLVED))
		return -EINVAL;
	err = make_group(addr, &group);
	if (err)
		return err;
	/* what comes from other hosts is wanted, too */
	weft_cm.service->beyond(id->path.sgid.raw, group->gid.raw, &card);
	e = new_group_event(id, group, context);
	if (!e) {
		free(group);
		return -ENOMEM;
	}
	group->send_only = send_only;
	group->next = id->groups;
	id->groups = group;
	weft_event_post(e);
	return 0;
}

int rdma_join_multicast_ex(struct rdma_cm_id *rdma_id, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	int err;

	if (!rdma_id || !attr ||
	    attr->comp_mask != (RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	err = join_group(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
			 context);
	weft_cm_unlock();
	return weft_cm_result(err ? err : weft_event_complete(id));
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
							    RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
					       .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
					       .addr = addr};

	return rdma_join_multicast_ex(id, &attr, context);
}

int weft_multicast_attach(struct weft_cm_id *id, const union ibv_gid *gid)
{
	const struct weft_cm_group *group;
	bool wanted;

	weft_cm_lock();
	group = *find_joined(id, gid);
	wanted = group && !group->send_only && id->id.qp; /* it may have left meanwhile */
	weft_cm_unlock();
	return wanted ? -ibv_attach_mcast(id->id.qp, gid, 0) : 0;
}

int rdma_leave_multicast(struct rdma_cm_id *rdma_id, struct sockaddr *addr)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	struct weft_cm_group *group = NULL, **at;
	union ibv_gid gid;
	uint16_t port;
	int err = rdma_id ? weft_addr_get(addr, gid.raw, &port) : -EINVAL;

	if (err)
		return weft_cm_result(err);
	weft_cm_lock();
	at = find_joined(id, &gid);
	group = *at;
	if (group)
		*at = group->next;
	weft_cm_unlock();
	if (!group)
		return weft_cm_result(-EADDRNOTAVAIL);
	/* it was not attached if the event was never read: nothing is wrong then, either */
	if (rdma_id->qp && !group->send_only)
		ibv_detach_mcast(rdma_id->qp, &gid, 0);
	free(group);
	return 0;
}

void weft_multicast_free(struct weft_cm_id *id)
{
	struct weft_cm_group *next;

	for (struct weft_cm_group *group = id->groups; group; group = next) {
		next = group->next;
		free(group);
	}
}
