/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Identifiers: made, moved between channels, and ended. */
#include <errno.h>
#include <stdlib.h>

#include "cm/agent.h"

struct weft_cm_id *weft_id_new(struct rdma_event_channel *channel, void *context,
			       enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct weft_cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->forks = weft_cm.forks;
	id->ack_timeout = WEFT_CM_ACK_TIMEOUT;
	pthread_cond_init(&id->acked, NULL);
	return id;
}

void weft_id_bind_device(struct weft_cm_id *id)
{
	id->id.verbs = weft_cm.verbs;
	id->id.port_num = 1;
	id->id.pd = weft_cm.pd;
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		     enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct rdma_event_channel *own = channel ? NULL : rdma_create_event_channel();
	struct weft_cm_id *id;
	int err = channel || own ? weft_cm_start() : -errno;

	if (err)
		goto destroy_channel;
	id = weft_id_new(channel ? channel : own, context, ps, type);
	err = -ENOMEM;
	if (!id)
		goto destroy_channel;
	id->sync = own;
	*out = &id->id;
	return 0;
destroy_channel:
	if (own)
		rdma_destroy_event_channel(own);
	return err;
}

int weft_id_create(struct rdma_cm_id **id, enum rdma_port_space ps, enum ibv_qp_type type)
{
	return create_id(NULL, id, NULL, ps, type);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	bool ud = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;

	if (!id)
		return weft_cm_result(weft_cm_no_id());
	if (!ud && ps != RDMA_PS_TCP && ps != RDMA_PS_IB)
		return weft_cm_result(weft_cm_broken(
			-EINVAL,
			"port space 0x%x is none of RDMA_PS_TCP (0x%x), "
			"_UDP (0x%x), _IPOIB (0x%x) and _IB (0x%x)",
			(unsigned int)ps, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB));
	return weft_cm_result(create_id(channel, id, context, ps, ud ? IBV_QPT_UD : IBV_QPT_RC));
}

/* Unread events go with it; those of requests end the identifiers that they bring. */
static void drop_events(struct weft_cm_id *id)
{
	struct weft_cm_event *next;

	for (struct weft_cm_event *e = weft_event_detach(id); e; e = next) {
		next = e->next;
		if (e->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			weft_id_free(weft_cm_id(e->event.id));
		free(e);
	}
}

/* Out of the agent's and the listeners' sight; the peer is told. */
static void retire_id(struct weft_cm_id *id)
{
	struct weft_conn_out out;

	weft_listener_remove(id);
	if (id->registered) {
		weft_conn_abandon(&id->conn, &out);
		weft_agent_apply(id, &out, NULL);
		weft_agent_unregister(id);
	}
	if (id->has_port)
		weft_cm.service->port_release(weft_cm.pool, id->port_index);
	drop_events(id);
}

static void free_id(struct weft_cm_id *id)
{
	pthread_cond_destroy(&id->acked);
	free(id->id.route.path_rec);
	free(id->ep_attr);
	free(id->ep_connect);
	weft_multicast_free(id);
	rdma_freeaddrinfo(id->info);
	free(id);
}

void weft_id_free(struct weft_cm_id *id)
{
	retire_id(id);
	free_id(id);
}

int rdma_destroy_id(struct rdma_cm_id *rdma_id)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);

	if (!rdma_id)
		return weft_cm_result(-EINVAL);
	/* Its parent's connection, port and events live on; events that the child may yet read name it. */
	if (id->forks != weft_cm.forks)
		return 0;
	if (rdma_id->event)
		rdma_ack_cm_event(rdma_id->event);
	weft_cm_lock();
	retire_id(id);
	while (id->events_acked != id->events_read)
		pthread_cond_wait(&id->acked, &weft_cm.mutex);
	weft_cm_unlock();
	if (id->sync)
		rdma_destroy_event_channel(rdma_id->channel);
	free_id(id);
	return 0;
}

static void move_events(struct weft_cm_id *id, struct rdma_event_channel *channel)
{
	struct weft_cm_event *next, *e = weft_event_detach(id);

	id->id.channel = channel;
	for (; e; e = next) {
		next = e->next;
		e->next = NULL;
		e->event.id->channel = channel;
		weft_event_post(e);
	}
}

int rdma_migrate_id(struct rdma_cm_id *rdma_id, struct rdma_event_channel *channel)
{
	struct rdma_event_channel *own = NULL, *before;
	struct weft_cm_id *id = weft_cm_id(rdma_id);

	if (!rdma_id || (id->sync && !channel))
		return weft_cm_result(-EINVAL);
	if (!channel) {
		own = channel = rdma_create_event_channel();
		if (!own)
			return -1;
	}
	weft_cm_lock();
	before = id->sync ? rdma_id->channel : NULL;
	id->sync = own;
	move_events(id, channel);
	/* those that were read belong to the program's old channel until they are acknowledged */
	while (!before && id->events_acked != id->events_read)
		pthread_cond_wait(&id->acked, &weft_cm.mutex);
	weft_cm_unlock();
	if (before) {
		if (rdma_id->event)
			rdma_ack_cm_event(rdma_id->event);
		rdma_id->event = NULL;
		rdma_destroy_event_channel(before);
	}
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	uint8_t addr[16];
	uint16_t port;

	return id && !weft_addr_get(&id->route.addr.src_addr, addr, &port) ? htobe16(port) : 0;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	uint8_t addr[16];
	uint16_t port;

	return id && !weft_addr_get(&id->route.addr.dst_addr, addr, &port) ? htobe16(port) : 0;
}
