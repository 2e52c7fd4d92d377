/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cm/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/link.h"
#include "cm/timer.h"
#include "mailbox/port.h"
#include "pool/step.h"
#include "pool/format_mailbox.h"
#include "pool/sizes.h"

#define BUCKETS	       512u
#define ID_BITS	       22u /* of an id that this process counts; its member stands above */
#define CHECK_PEERS_NS 100000000ull
#define KNOCK_NS       1000000ull
#define KNOCKS	       (WEFT_PORT_HELD_NS / KNOCK_NS)

static struct weft_cm_id *by_local[BUCKETS], *by_remote[BUCKETS];
static uint32_t registered, last_id;
static uint64_t check_peers_ns;		/* when to look whether peers still live */
static uint64_t called_ns = UINT64_MAX; /* when the helper comes by itself */

/* The helper is to come by then; it wakes only if it would sleep longer. */
static void call_by(uint64_t when_ns)
{
	if (when_ns >= called_ns)
		return;
	called_ns = when_ns;
	weft_cm.service->kick();
}

/* ---- The tables ---- */

/* Unique in the pool, as on a host whose kernel gives them out. */
static uint32_t next_id(void)
{
	if (!last_id)
		last_id = weft_cm_random();
	return (uint32_t)weft_cm.pool->me << ID_BITS | (++last_id & ((1u << ID_BITS) - 1));
}

static struct weft_cm_id *find_local(uint32_t local_id)
{
	struct weft_cm_id *id = by_local[local_id % BUCKETS];

	while (id && id->conn.local_id != local_id)
		id = id->next_local;
	return id;
}

static bool same_address(struct weft_address a, struct weft_address b)
{
	return a.member == b.member && a.incarnation == b.incarnation &&
	       !memcmp(a.far, b.far, sizeof(a.far));
}

static struct weft_cm_id *find_passive(uint32_t remote_id, struct weft_address from)
{
	struct weft_cm_id *id = by_remote[remote_id % BUCKETS];

	while (id && !(id->conn.remote_id == remote_id && same_address(id->peer, from) &&
		       id->conn.state != WEFT_CONN_IDLE))
		id = id->next_remote;
	return id;
}

void weft_agent_register(struct weft_cm_id *id)
{
	struct weft_cm_id **bucket;

	id->registered = true;
	do
		id->conn.local_id = next_id();
	while (find_local(id->conn.local_id));
	bucket = &by_local[id->conn.local_id % BUCKETS];
	id->next_local = *bucket;
	*bucket = id;
	if (!id->conn.active && id->conn.state != WEFT_CONN_IDLE) {
		bucket = &by_remote[id->conn.remote_id % BUCKETS];
		id->next_remote = *bucket;
		*bucket = id;
	}
	if (!registered++) {
		check_peers_ns = weft_cm_now_ns() + CHECK_PEERS_NS;
		call_by(check_peers_ns);
	}
}

void weft_agent_unregister(struct weft_cm_id *id)
{
	struct weft_cm_id **at = &by_local[id->conn.local_id % BUCKETS];

	if (!id->registered)
		return;
	id->registered = false;
	registered--;
	weft_timer_remove(id);
	while (*at != id)
		at = &(*at)->next_local;
	*at = id->next_local;
	at = &by_remote[id->conn.remote_id % BUCKETS];
	while (*at && *at != id)
		at = &(*at)->next_remote;
	if (*at)
		*at = id->next_remote;
}

/* ---- What inputs bring ---- */

static struct weft_cm_event *new_event(struct weft_cm_id *id, enum rdma_cm_event_type type,
				       int status, const struct weft_mad *mad)
{
	struct weft_cm_event *e = weft_event_new(id, type, status);

	if (e && mad)
		memcpy(e->private_data, mad->private_data, sizeof(e->private_data));
	return e;
}

static void set_conn(struct weft_cm_event *e, const struct weft_cm_id *id,
		     const struct weft_mad *mad, size_t skip)
{
	struct rdma_conn_param *p = &e->event.param.conn;

	p->private_data = e->private_data + skip;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): these events come with a datagram */
	p->private_data_len = (uint8_t)(weft_mad_private_bytes(mad->kind) - skip);
	p->responder_resources = (uint8_t)id->conn.responder_resources;
	p->initiator_depth = (uint8_t)id->conn.initiator_depth;
	p->retry_count = (uint8_t)id->conn.retries;
	p->rnr_retry_count = (uint8_t)id->conn.rnr_retries;
	p->qp_num = id->conn.remote_qpn;
	p->flow_control = (uint8_t)(mad->kind == WEFT_MAD_REQ ? mad->req.flow_control
							      : mad->rep.flow_control);
	p->srq = (uint8_t)(mad->kind == WEFT_MAD_REQ ? mad->req.srq : mad->rep.srq);
}

static void set_ud(struct weft_cm_event *e, const struct weft_cm_id *id, const struct weft_mad *mad)
{
	struct rdma_ud_param *p = &e->event.param.ud;

	p->private_data = e->private_data;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): these events come with a datagram */
	p->private_data_len = (uint8_t)weft_mad_private_bytes(mad->kind);
	weft_route_ah(id, &id->path.dgid, &p->ah_attr);
	p->qp_num = id->conn.remote_qpn;
	p->qkey = id->conn.remote_qkey;
}

static void tell_program(struct weft_cm_id *id, enum weft_conn_event event, int status,
			 const struct weft_mad *mad)
{
	struct weft_cm_event *e = NULL;

	switch (event) {
	case WEFT_CONN_QUIET:
		return;
	case WEFT_CONN_RESPONDED:
		e = new_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, mad);
		if (e)
			set_conn(e, id, mad, 0);
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): so does this one */
		id->remote_ece =
			(struct ibv_ece){.vendor_id = mad->rep.vendor_id, .options = mad->attr_mod};
		break;
	case WEFT_CONN_OPEN:
		e = new_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
		break;
	case WEFT_CONN_REJECTED:
		e = new_event(id, RDMA_CM_EVENT_REJECTED, status, mad);
		if (e) { /* zeros where a host answers for its dead */
			e->event.param.conn.private_data = e->private_data;
			e->event.param.conn.private_data_len =
				(uint8_t)weft_mad_private_bytes(WEFT_MAD_REJ);
		}
		break;
	case WEFT_CONN_UNANSWERED:
		e = new_event(id, RDMA_CM_EVENT_UNREACHABLE, status, NULL);
		break;
	case WEFT_CONN_CLOSED:
		e = new_event(id, RDMA_CM_EVENT_DISCONNECTED, status, NULL);
		break;
	case WEFT_CONN_RELEASED:
		e = new_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
		break;
	case WEFT_CONN_LOOKED_UP:
		e = new_event(id, status ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_ESTABLISHED,
			      status, mad);
		if (e)
			set_ud(e, id, mad);
		break;
	}
	if (e)
		weft_event_post(e);
}

/* There is no listener: the answer is what a host without that listener gives. */
static void answer_for_nobody(struct weft_cm_id *id, const uint8_t wire[WEFT_MAD_BYTES])
{
	struct weft_conn_out out;
	struct weft_mad mad;

	if (weft_mad_decode(wire, WEFT_MAD_BYTES, &mad) || !weft_conn_answer_stray(&mad, &out) ||
	    weft_mad_decode(out.wire, WEFT_MAD_BYTES, &mad))
		return;
	weft_conn_receive(&id->conn, &mad, weft_cm_now_ns(), &out);
	weft_agent_apply(id, &out, &mad);
}

static int find_peer(struct weft_cm_id *id)
{
	struct weft_pool_port wanted = {.space = (uint16_t)id->id.ps};
	int err = weft_addr_get(&id->id.route.addr.dst_addr, wanted.addr, &wanted.port);

	if (err || (!weft_cm.service->reachable(weft_cm.pool, wanted.addr) &&
		    weft_cm.service->beyond(id->path.sgid.raw, id->path.dgid.raw, &id->peer)))
		return err;
	return weft_cm.service->port_find(weft_cm.pool, &wanted, &id->peer);
}

/* A server that has told its port is about to listen, and so may one that has just stopped: it knocks again, as the card of a
 * server's host does for others (card/manager.c). */
static bool knock_again(struct weft_cm_id *id, uint64_t now_ns)
{
	if (id->knocks == KNOCKS)
		return false;
	id->knocks++;
	id->conn.retries_left++; /* this one was not sent */
	id->conn.deadline_ns = now_ns + KNOCK_NS;
	weft_timer_update(id);
	call_by(id->conn.deadline_ns);
	return true;
}

static void transmit(struct weft_cm_id *id, const uint8_t wire[WEFT_MAD_BYTES])
{
	uint64_t now_ns = weft_cm_now_ns();
	struct weft_conn_out out;
	bool asks =
		id->conn.state == WEFT_CONN_REQ_SENT || id->conn.state == WEFT_CONN_SIDR_REQ_SENT;
	int err = asks ? find_peer(id) : 0;

	if (err == -EAGAIN && knock_again(id, now_ns))
		return;
	if (err == -EAGAIN || err == -ECONNREFUSED) {
		answer_for_nobody(id, wire);
	} else if (err) {
		weft_conn_unsent(&id->conn, err, &out);
		weft_agent_apply(id, &out, NULL);
	} else if (weft_link_send(id->peer, wire, now_ns) == -ESRCH) {
		weft_conn_lost(&id->conn, now_ns, &out);
		weft_agent_apply(id, &out, NULL);
	}
}

void weft_agent_apply(struct weft_cm_id *id, const struct weft_conn_out *out,
		      const struct weft_mad *mad)
{
	/* without memory for a timer it waits without an end, as for a datagram that is always lost */
	weft_timer_update(id);
	if (id->conn.deadline_ns)
		call_by(id->conn.deadline_ns);
	tell_program(id, out->event, out->status, mad);
	WEFT_STEP(cm_told);
	if (out->send)
		transmit(id, out->wire);
}

/* ---- Requests ---- */

static void send_stray(const struct weft_mad *mad, struct weft_address from)
{
	struct weft_conn_out out;

	if (weft_conn_answer_stray(mad, &out))
		weft_link_send(from, out.wire, weft_cm_now_ns());
}

static enum ibv_qp_type type_of(const struct weft_mad *mad)
{
	if (mad->kind == WEFT_MAD_SIDR_REQ)
		return IBV_QPT_UD;
	if (mad->req.service == WEFT_SERVICE_EXT)
		return IBV_QPT_XRC_RECV;
	return mad->req.service == WEFT_SERVICE_UC ? IBV_QPT_UC : IBV_QPT_RC;
}

/* A new identifier for it, bound and routed; NULL when memory is out. */
static struct weft_cm_id *make_passive(struct weft_cm_id *listener, const struct weft_mad *mad,
				       const struct weft_mad_ip *ip, struct weft_address from)
{
	struct weft_cm_id *id = weft_id_new(listener->id.channel, listener->id.context,
					    listener->id.ps, type_of(mad));
	uint16_t port;
	uint8_t any[16];

	if (!id)
		return NULL;
	/* the asking member may know an address of this host that it has only just got */
	weft_cm.service->follow();
	weft_addr_get(&listener->id.route.addr.src_addr, any, &port);
	weft_addr_put(&id->id.route.addr.src_addr, ip->dst, port);
	weft_addr_put(&id->id.route.addr.dst_addr, ip->src, ip->port);
	weft_id_bind_device(id);
	if (mad->kind == WEFT_MAD_REQ) {
		memcpy(id->path.sgid.raw, mad->req.path.remote_gid, 16);
		memcpy(id->path.dgid.raw, mad->req.path.local_gid, 16);
		id->remote_ece.vendor_id = mad->req.vendor_id;
		id->remote_ece.options = mad->attr_mod;
	} else {
		weft_addr_gid(ip->dst, id->path.sgid.raw);
		weft_addr_gid(ip->src, id->path.dgid.raw);
	}
	weft_route_fill(id);
	id->state = WEFT_ID_CONNECTED;
	WEFT_STEP(cm_request_taken);
	id->peer = from;
	weft_conn_requested(&id->conn, mad);
	id->conn.local_psn = weft_cm_random() &
			     WEFT_CM_PSN_MASK; /* a queue pair may want it before the answer */
	weft_agent_register(id);
	return id;
}

static void tell_request(struct weft_cm_id *listener, struct weft_cm_id *id,
			 const struct weft_mad *mad)
{
	struct weft_cm_event *e = new_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, mad);

	if (!e) {
		weft_id_free(id);
		return;
	}
	set_conn(e, id, mad, WEFT_MAD_IP_BYTES);
	if (mad->kind == WEFT_MAD_SIDR_REQ) {
		set_ud(e, id, mad);
		e->event.param.ud.private_data = e->private_data + WEFT_MAD_IP_BYTES;
		e->event.param.ud.private_data_len -= WEFT_MAD_IP_BYTES;
	}
	e->event.listen_id = &listener->id;
	e->counts = listener;
	WEFT_STEP(cm_request_told);
	listener->pending++;
	weft_event_post(e);
}

/* Whether a card has brought it to a program that no card is to carry anything for (WEFT_NIC=off): it has no listener then. */
static bool is_kept_out(const struct weft_address *from)
{
	struct weft_address card;

	return !weft_address_is_any(from->far) &&
	       !weft_cm.service->beyond(from->near, from->far, &card);
}

static void on_request(const struct weft_mad *mad, struct weft_address from)
{
	uint64_t service =
		mad->kind == WEFT_MAD_REQ ? mad->req.service_id : mad->sidr_req.service_id;
	struct weft_cm_id *id = find_passive(mad->local_id, from), *listener = NULL;
	struct weft_conn_out out;
	struct weft_mad_ip ip;

	if (id) {
		weft_conn_receive(&id->conn, mad, weft_cm_now_ns(), &out);
		weft_agent_apply(id, &out, mad);
		return;
	}
	if (!(service >> 32) && !weft_mad_get_ip(mad->private_data, &ip))
		listener = weft_listener_find((enum rdma_port_space)(service >> 16), ip.dst,
					      (uint16_t)service);
	if (!listener || weft_id_is_ud(listener) != (mad->kind == WEFT_MAD_SIDR_REQ) ||
	    is_kept_out(&from)) {
		send_stray(mad, from);
		return;
	}
	/* the peer will ask again */
	if (listener->pending >= listener->backlog)
		return;
	id = make_passive(listener, mad, &ip, from);
	if (id)
		tell_request(listener, id, mad);
}

/* ---- The helper ---- */

static void on_datagram(const uint8_t wire[WEFT_MAD_BYTES], struct weft_address from)
{
	struct weft_conn_out out;
	struct weft_cm_id *id;
	struct weft_mad mad;

	if (weft_mad_decode(wire, WEFT_MAD_BYTES, &mad))
		return;
	if (mad.kind == WEFT_MAD_REQ || mad.kind == WEFT_MAD_SIDR_REQ) {
		on_request(&mad, from);
		return;
	}
	WEFT_STEP(cm_answer_taken);
	id = find_local(mad.kind == WEFT_MAD_SIDR_REP ? mad.local_id : mad.remote_id);
	/* a requester that gave up before it had an answer does not know our number */
	if (!id && mad.kind == WEFT_MAD_REJ)
		id = find_passive(mad.local_id, from);
	if (!id || !same_address(id->peer, from)) {
		send_stray(&mad, from);
		return;
	}
	weft_conn_receive(&id->conn, &mad, weft_cm_now_ns(), &out);
	weft_agent_apply(id, &out, &mad);
}

static void take_all(void)
{
	uint8_t wire[WEFT_MAD_BYTES];
	struct weft_address from;

	while (weft_link_take(&from, wire))
		on_datagram(wire, from);
}

/* Whether its peer has died; each member is asked about once a round. */
static bool is_orphan(const struct weft_cm_id *id, uint64_t round)
{
	static struct life {
		uint64_t round,
			incarnation; /* the last round in which it lived, and which one it was */
	} lives[WEFT_MEMBERS];
	struct life *seen = &lives[id->peer.member];

	if (id->conn.state == WEFT_CONN_IDLE || id->conn.state == WEFT_CONN_TIMEWAIT ||
	    (seen->round == round && seen->incarnation == id->peer.incarnation))
		return false;
	if (!weft_link_alive(id->peer))
		return true;
	*seen = (struct life){round, id->peer.incarnation};
	return false;
}

static bool any_orphan(uint64_t round)
{
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct weft_cm_id *id = by_local[i]; id; id = id->next_local)
			if (is_orphan(id, round))
				return true;
	return false;
}

static void check_peers(uint64_t now_ns)
{
	struct weft_conn_out out;

	if (!any_orphan(now_ns))
		return;
	WEFT_STEP(cm_peer_lost);
	take_all(); /* the last words of the dead */
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct weft_cm_id *id = by_local[i]; id; id = id->next_local)
			if (is_orphan(id, now_ns)) {
				weft_conn_lost(&id->conn, now_ns, &out);
				weft_agent_apply(id, &out, NULL);
			}
}

uint64_t weft_agent_run(uint64_t now_ns)
{
	struct weft_conn_out out;
	struct weft_cm_id *id;
	uint64_t due_ns;

	weft_cm_lock();
	if (registered && now_ns >= check_peers_ns) {
		check_peers_ns = now_ns + CHECK_PEERS_NS;
		check_peers(now_ns);
	}
	take_all();
	while ((id = weft_timer_first()) && id->conn.deadline_ns <= now_ns) {
		weft_conn_timer(&id->conn, now_ns, &out);
		weft_agent_apply(id, &out, NULL);
	}
	due_ns = weft_link_flush(now_ns);
	if (registered && check_peers_ns < due_ns)
		due_ns = check_peers_ns;
	if (weft_timer_first() && weft_timer_first()->conn.deadline_ns < due_ns)
		due_ns = weft_timer_first()->conn.deadline_ns;
	called_ns = due_ns;
	weft_cm_unlock();
	return due_ns;
}

void weft_agent_look(void)
{
	take_all();
}

void weft_agent_forget(void)
{
	memset(by_local, 0, sizeof(by_local));
	memset(by_remote, 0, sizeof(by_remote));
	registered = 0;
	called_ns = UINT64_MAX;
	weft_timer_forget();
	weft_link_forget();
	weft_listener_forget();
}
