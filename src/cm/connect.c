/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Connecting, accepting, rejecting, disconnecting: what programs ask of a connection's end. */
#include <errno.h>
#include <string.h>

#include "cm/agent.h"
#include "nic/limits.h"

#define ANSWER_TIMEOUT 20u /* code: 4.3 s, as Linux's rdma_cm has it */
#define CM_RETRIES     15u
#define MOST_RETRIES   7u

static uint32_t at_most(uint32_t value, uint32_t limit)
{
	return value < limit ? value : limit;
}

/* 0xff stands for as much as there is. */
static uint32_t depth(uint8_t wanted, uint32_t limit)
{
	return wanted == RDMA_MAX_RESP_RES ? limit : wanted;
}

static bool is_depth(uint8_t wanted)
{
	return wanted == RDMA_MAX_RESP_RES || wanted <= WEFT_CM_MAX_ATOMIC;
}

/* What connecting and accepting are given. */
static int check_conn_param(const struct rdma_cm_id *id, const struct rdma_conn_param *p)
{
	if (!id)
		return weft_cm_no_id();
	if (!p || (is_depth(p->responder_resources) && is_depth(p->initiator_depth)))
		return 0;
	return weft_cm_broken(
		-EINVAL,
		"responder_resources is %u, initiator_depth %u: each may be up to %u, or %u",
		p->responder_resources, p->initiator_depth, WEFT_CM_MAX_ATOMIC, RDMA_MAX_RESP_RES);
}

/* What rdma_create_ep was given, then the program's. -EINVAL: too much. */
static int put_private(const struct weft_cm_id *id, struct weft_mad *mad, size_t at,
		       const void *data, size_t bytes)
{
	size_t room = weft_mad_private_bytes(mad->kind) - at, before = id->ep_connect_bytes;

	if (bytes && !data)
		return weft_cm_broken(-EINVAL, "private_data_len is %zu, and private_data NULL",
				      bytes);
	if (before > room || bytes > room - before)
		return weft_cm_broken(-EINVAL,
				      "%zu bytes of private data: the message has room for %zu",
				      before + bytes, room);
	if (before)
		memcpy(mad->private_data + at, id->ep_connect, before);
	if (bytes)
		memcpy(mad->private_data + at + before, data, bytes);
	return 0;
}

/* ---- Connecting ---- */

static void put_ip(const struct weft_cm_id *id, struct weft_mad *mad, uint16_t *dst_port)
{
	struct weft_mad_ip ip;

	weft_addr_get(&id->id.route.addr.src_addr, ip.src, &ip.port);
	weft_addr_get(&id->id.route.addr.dst_addr, ip.dst, dst_port);
	weft_mad_put_ip(mad->private_data, &ip);
}

static void fill_path(const struct weft_cm_id *id, struct weft_mad_path *path)
{
	memcpy(path->local_gid, id->path.sgid.raw, 16);
	memcpy(path->remote_gid, id->path.dgid.raw, 16);
	/* Ethernet has no LIDs */
	path->local_lid = path->remote_lid = 0xffff;
	path->rate = id->path.rate;
	path->traffic_class = id->path.traffic_class;
	path->hop_limit = id->path.hop_limit;
	path->sl = id->path.sl;
	/* what the other end waits for our answers */
	path->ack_timeout = weft_conn_ack_timeout(id->ack_timeout, WEFT_ACK_DELAY);
}

static void fill_req(const struct weft_cm_id *id, const struct rdma_conn_param *p, uint64_t service,
		     struct weft_mad_req *req)
{
	req->service_id = service;
	req->ca_guid = weft_cm.ca_guid;
	req->vendor_id = id->local_ece.vendor_id;
	req->qpn = id->id.qp ? id->id.qp->qp_num : p ? p->qp_num : 0;
	req->srq = id->id.qp ? id->id.qp->srq != NULL : p && p->srq;
	req->psn = weft_cm_random() & WEFT_CM_PSN_MASK;
	req->responder_resources =
		p ? depth(p->responder_resources, WEFT_CM_MAX_ATOMIC) : WEFT_CM_MAX_ATOMIC;
	req->initiator_depth =
		p ? depth(p->initiator_depth, WEFT_CM_MAX_ATOMIC) : WEFT_CM_MAX_ATOMIC;
	req->service = id->id.qp_type == IBV_QPT_UC ? WEFT_SERVICE_UC : WEFT_SERVICE_RC;
	if (id->id.qp_type == IBV_QPT_XRC_SEND) {
		req->service = WEFT_SERVICE_EXT;
		req->ext = 1;
	}
	req->remote_timeout = req->local_timeout = ANSWER_TIMEOUT;
	req->flow_control = p && p->flow_control;
	req->retries = p ? at_most(p->retry_count, MOST_RETRIES) : MOST_RETRIES;
	req->rnr_retries = p ? at_most(p->rnr_retry_count, MOST_RETRIES) : MOST_RETRIES;
	req->cm_retries = CM_RETRIES;
	req->pkey = be16toh(id->path.pkey);
	req->mtu = id->path.mtu;
	fill_path(id, &req->path);
}

static int connect_id(struct weft_cm_id *id, const struct rdma_conn_param *p)
{
	struct weft_mad mad = {.attr_mod = id->local_ece.options};
	bool ud = weft_id_is_ud(id);
	struct weft_conn_out out;
	uint64_t service;
	uint16_t port;
	int err;

	if (id->state != WEFT_ID_ROUTE_RESOLVED)
		return weft_cm_wrong_state(id, "route resolved");
	mad.kind = ud ? WEFT_MAD_SIDR_REQ : WEFT_MAD_REQ;
	err = put_private(id, &mad, WEFT_MAD_IP_BYTES, p ? p->private_data : NULL,
			  p ? p->private_data_len : 0);
	if (err)
		return err;
	put_ip(id, &mad, &port);
	service = (uint64_t)id->id.ps << 16 | port;
	if (ud) {
		mad.sidr_req.service_id = service;
		mad.sidr_req.pkey = be16toh(id->path.pkey);
		id->conn.cm_retries = CM_RETRIES;
		id->conn.answer_ns = 4096ull << (ANSWER_TIMEOUT - 2);
	} else {
		fill_req(id, p, service, &mad.req);
	}
	id->conn.active = true;
	weft_agent_register(id);
	id->conn.tid = id->conn.local_id;
	weft_conn_connect(&id->conn, &mad, weft_cm_now_ns(), &out);
	id->state = WEFT_ID_CONNECTED;
	weft_agent_apply(id, &out, NULL);
	return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int err = check_conn_param(id, param);

	if (err)
		return weft_cm_result(err);
	weft_cm_lock();
	err = connect_id(weft_cm_id(id), param);
	weft_cm_unlock();
	return weft_cm_result(err ? err : weft_event_complete(weft_cm_id(id)));
}

int rdma_establish(struct rdma_cm_id *rdma_id)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	struct weft_conn_out out;
	int err;

	/* an identifier with a queue pair is established by itself */
	if (!rdma_id || rdma_id->qp)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	err = weft_conn_establish(&id->conn, &out);
	if (!err)
		weft_agent_apply(id, &out, NULL);
	weft_cm_unlock();
	return weft_cm_result(err);
}

/* ---- Answering ---- */

static int accept_id(struct weft_cm_id *id, const struct rdma_conn_param *p)
{
	bool ud = weft_id_is_ud(id);
	struct ibv_qp *qp = id->id.qp;
	uint32_t qpn = qp ? qp->qp_num : p ? p->qp_num : 0;
	struct weft_mad mad = {.attr_mod = id->local_ece.options};
	struct weft_conn_out out;
	int err;

	mad.kind = ud ? WEFT_MAD_SIDR_REP : WEFT_MAD_REP;
	err = put_private(id, &mad, 0, p ? p->private_data : NULL, p ? p->private_data_len : 0);
	if (err)
		return err;
	if (ud) {
		mad.sidr_rep = (struct weft_mad_sidr_rep){
			.status = WEFT_SIDR_OK, .qpn = qpn, .qkey = RDMA_UDP_QKEY};
	} else {
		struct weft_mad_rep *rep = &mad.rep;

		rep->ca_guid = weft_cm.ca_guid;
		rep->vendor_id = id->local_ece.vendor_id;
		rep->qpn = qpn;
		rep->srq = qp ? qp->srq != NULL : p && p->srq;
		rep->psn = id->conn.local_psn;
		rep->responder_resources =
			p ? depth(p->responder_resources, id->conn.responder_resources)
			  : id->conn.responder_resources;
		rep->initiator_depth = p ? depth(p->initiator_depth, id->conn.initiator_depth)
					 : id->conn.initiator_depth;
		rep->ack_delay = WEFT_ACK_DELAY;
		rep->flow_control = p && p->flow_control;
		rep->rnr_retries = p ? at_most(p->rnr_retry_count, MOST_RETRIES) : MOST_RETRIES;
	}
	err = weft_conn_accept(&id->conn, &mad, weft_cm_now_ns(), &out);
	if (!err)
		weft_agent_apply(id, &out, NULL);
	return err;
}

static bool is_asked(const struct weft_cm_id *id)
{
	return id->conn.state == WEFT_CONN_REQ_RCVD || id->conn.state == WEFT_CONN_MRA_REQ_SENT ||
	       id->conn.state == WEFT_CONN_SIDR_REQ_RCVD;
}

/* Fixes what both the queue pair and the answer take from it. */
static int prepare_accept(struct weft_cm_id *id)
{
	int err = 0;

	weft_cm_lock();
	if (is_asked(id)) {
		id->conn.responder_resources =
			at_most(id->conn.responder_resources, WEFT_CM_MAX_ATOMIC);
		id->conn.initiator_depth = at_most(id->conn.initiator_depth, WEFT_CM_MAX_ATOMIC);
	} else {
		err = weft_cm_broken(-EINVAL, "no request waits here: the connection's state is %s",
				     weft_conn_state_str(id->conn.state));
	}
	weft_cm_unlock();
	return err;
}

static int reject(struct rdma_cm_id *rdma_id, const void *data, uint8_t bytes,
		  enum weft_rej_reason reason)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	struct weft_mad mad = {.kind = WEFT_MAD_REJ, .rej.reason = reason};
	struct weft_conn_out out;
	int err;

	if (!rdma_id)
		return -EINVAL;
	if (weft_id_is_ud(id))
		mad = (struct weft_mad){.kind = WEFT_MAD_SIDR_REP,
					.sidr_rep.status = WEFT_SIDR_REJECTED};
	if (bytes > weft_mad_private_bytes(mad.kind) || (bytes && !data))
		return -EINVAL;
	if (bytes)
		memcpy(mad.private_data, data, bytes);
	weft_cm_lock();
	err = weft_conn_reject(&id->conn, &mad, weft_cm_now_ns(), &out);
	if (!err)
		weft_agent_apply(id, &out, NULL);
	weft_cm_unlock();
	return err;
}

int rdma_accept(struct rdma_cm_id *rdma_id, struct rdma_conn_param *param)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	int err = check_conn_param(rdma_id, param);
	bool ud;

	if (err)
		return weft_cm_result(err);
	ud = weft_id_is_ud(id);
	err = prepare_accept(id);
	if (!err && !ud)
		err = weft_qp_to_rtr(id, param ? param->responder_resources : RDMA_MAX_RESP_RES);
	if (!err && !ud)
		err = weft_qp_to_rts(id, param ? param->initiator_depth : RDMA_MAX_INIT_DEPTH);
	if (err)
		return weft_cm_result(err);
	weft_cm_lock();
	err = accept_id(id, param);
	weft_cm_unlock();
	if (err) {
		/* the member that asked would wait */
		weft_qp_to_error(id);
		reject(rdma_id, NULL, 0, WEFT_REJ_CONSUMER);
		return weft_cm_result(err);
	}
	return weft_cm_result(ud ? 0 : weft_event_complete(id));
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	return weft_cm_result(reject(id, data, bytes, WEFT_REJ_CONSUMER));
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	return weft_cm_result(reject(id, data, bytes, WEFT_REJ_VENDOR_OPTION));
}

int rdma_notify(struct rdma_cm_id *rdma_id, enum ibv_event_type event)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	struct weft_conn_out out;
	int err = 0;

	if (!rdma_id)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	if (!id->registered)
		err = -EINVAL;
	/* the only event that a connection can use; late ones are harmless */
	else if (event == IBV_EVENT_COMM_EST && !weft_conn_notice(&id->conn, &out))
		weft_agent_apply(id, &out, NULL);
	weft_cm_unlock();
	return weft_cm_result(err);
}

int rdma_disconnect(struct rdma_cm_id *rdma_id)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	struct weft_conn_out out;
	int err;

	if (!rdma_id)
		return weft_cm_result(-EINVAL);
	if (!id->registered || weft_id_is_ud(id))
		return weft_cm_result(-EINVAL);
	err = weft_qp_to_error(id);
	if (err)
		return weft_cm_result(err);
	weft_cm_lock();
	/* where there is nothing to end, there is nothing wrong either */
	if (!weft_conn_disconnect(&id->conn, weft_cm_now_ns(), &out))
		weft_agent_apply(id, &out, NULL);
	weft_cm_unlock();
	return weft_cm_result(weft_event_complete(id));
}
