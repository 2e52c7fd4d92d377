/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs of identifiers: made with what they lack, and modified as the connection goes. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "cm/cm.h"

/* ---- Attributes ---- */

static void fill_init(const struct weft_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = 1;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (weft_id_is_ud(id)) {
		attr->qkey = RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
		return;
	}
	/* before there is a connection the peer has no rights */
	attr->qp_access_flags = 0;
	if (id->conn.state != WEFT_CONN_IDLE)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_WRITE;
	if (id->conn.state != WEFT_CONN_IDLE && id->conn.responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask |= IBV_QP_ACCESS_FLAGS;
}

static bool is_uc(const struct weft_cm_id *id)
{
	return id->conn.service == WEFT_SERVICE_UC;
}

static void fill_rtr(const struct weft_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .sl = id->path.sl};
	attr->ah_attr.grh.dgid = id->path.dgid;
	attr->ah_attr.grh.hop_limit = id->path.hop_limit;
	attr->ah_attr.grh.traffic_class = id->path.traffic_class;
	attr->ah_attr.grh.sgid_index = (uint8_t)weft_addr_gid_index(id->path.sgid.raw);
	attr->path_mtu = (enum ibv_mtu)id->conn.mtu;
	attr->dest_qp_num = id->conn.remote_qpn;
	attr->rq_psn = id->conn.local_psn;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (is_uc(id))
		return;
	attr->max_dest_rd_atomic = (uint8_t)id->conn.responder_resources;
	attr->min_rnr_timer = 0;
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void fill_rts(const struct weft_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->sq_psn = id->conn.remote_psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (is_uc(id) || weft_id_is_ud(id))
		return;
	attr->timeout = id->has_ack_timeout ? id->ack_timeout : (uint8_t)id->conn.ack_timeout;
	attr->retry_cnt = (uint8_t)id->conn.retries;
	attr->rnr_retry = (uint8_t)id->conn.rnr_retries;
	attr->max_rd_atomic = (uint8_t)id->conn.initiator_depth;
	*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

/* Both ends know each other's queue pair. */
static bool knows_peer(const struct weft_cm_id *id)
{
	static const bool known[WEFT_CONN_STATES] = {
		[WEFT_CONN_REQ_RCVD] = true,	 [WEFT_CONN_MRA_REQ_SENT] = true,
		[WEFT_CONN_REP_SENT] = true,	 [WEFT_CONN_REP_RCVD] = true,
		[WEFT_CONN_MRA_REP_SENT] = true, [WEFT_CONN_MRA_REP_RCVD] = true,
		[WEFT_CONN_ESTABLISHED] = true,
	};

	return known[id->conn.state];
}

static int fill_qp_attr(const struct weft_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	bool ud = weft_id_is_ud(id);

	if (!id->id.verbs)
		return -EINVAL;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		fill_init(id, attr, mask);
		return 0;
	case IBV_QPS_RTR:
		*mask = IBV_QP_STATE;
		if (!ud && knows_peer(id))
			fill_rtr(id, attr, mask);
		return ud || knows_peer(id) ? 0 : -EINVAL;
	case IBV_QPS_RTS:
		if (!ud && !knows_peer(id))
			return -EINVAL;
		fill_rts(id, attr, mask);
		return 0;
	default:
		return -EINVAL;
	}
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int err;

	if (!id || !attr || !mask)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	err = fill_qp_attr(weft_cm_id(id), attr, mask);
	weft_cm_unlock();
	return weft_cm_result(err);
}

/* ---- Transitions ---- */

/* limit: what the program wants instead of the depth that was agreed on; 0xff: nothing. */
static int change_state(struct weft_cm_id *id, enum ibv_qp_state state, uint8_t limit)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = 0;

	if (rdma_init_qp_attr(&id->id, &attr, &mask))
		return -errno;
	if (limit != 0xff && mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = limit;
	if (limit != 0xff && mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = limit;
	return -ibv_modify_qp(id->id.qp, &attr, mask);
}

int weft_qp_to_rtr(struct weft_cm_id *id, uint8_t responder_resources)
{
	int err;

	if (!id->id.qp)
		return 0;
	/* now that there is a connection: its rights */
	err = change_state(id, IBV_QPS_INIT, 0xff);
	return err ? err : change_state(id, IBV_QPS_RTR, responder_resources);
}

int weft_qp_to_rts(struct weft_cm_id *id, uint8_t initiator_depth)
{
	return id->id.qp ? change_state(id, IBV_QPS_RTS, initiator_depth) : 0;
}

int weft_qp_to_error(struct weft_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return id->id.qp ? -ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE) : 0;
}

/* ---- Making ---- */

static void destroy_queue(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	/* the program may have given it to another queue pair */
	if (*cq && ibv_destroy_cq(*cq))
		return;
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

void weft_qp_destroy_queues(struct rdma_cm_id *id)
{
	/* the last one takes them along: a shared receive queue of XRC completes there, too */
	if (id->qp || (id->qp_type == IBV_QPT_XRC_RECV && id->srq))
		return;
	destroy_queue(&id->send_cq, &id->send_cq_channel);
	destroy_queue(&id->recv_cq, &id->recv_cq_channel);
}

int weft_qp_make_queue(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
		       struct ibv_comp_channel **channel)
{
	if (*cq || !size)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -errno;
	*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	if (!*cq)
		return -errno;
	return -ibv_req_notify_cq(*cq, 0);
}

/* It may be used for receiving at once; an unconnected one for sending, too. */
static int make_ready(struct weft_cm_id *id)
{
	int err = change_state(id, IBV_QPS_INIT, 0xff);

	if (!err && weft_id_is_ud(id))
		err = change_state(id, IBV_QPS_RTR, 0xff);
	if (!err && weft_id_is_ud(id))
		err = change_state(id, IBV_QPS_RTS, 0xff);
	return err;
}

int weft_qp_complete_xrcd(uint32_t *comp_mask, uint32_t bit, struct ibv_xrcd **xrcd)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};

	int err = 0;

	if (*comp_mask & bit && *xrcd)
		return 0;
	weft_cm_lock();
	if (!weft_cm.xrcd)
		weft_cm.xrcd = ibv_open_xrcd(weft_cm.verbs, &attr);
	if (!weft_cm.xrcd)
		err = -errno;
	weft_cm_unlock();
	*comp_mask |= bit;
	*xrcd = weft_cm.xrcd;
	return err;
}

static int create_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int err;

	if (id->qp)
		return weft_cm_broken(-EINVAL, "the identifier has QP 0x%x already",
				      id->qp->qp_num);
	if (!id->verbs)
		return weft_cm_wrong_state(weft_cm_id(id), "address resolved");
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (!attr->pd || attr->pd->context != id->verbs)
		return weft_cm_broken(-EINVAL, "pd is %p: it must be of the identifier's device",
				      (void *)attr->pd);
	if (id->qp_type == IBV_QPT_XRC_RECV) {
		err = weft_qp_complete_xrcd(&attr->comp_mask, IBV_QP_INIT_ATTR_XRCD, &attr->xrcd);
		if (err)
			return err;
	}
	err = weft_qp_make_queue(id, attr->send_cq ? 0 : attr->cap.max_send_wr, &id->send_cq,
				 &id->send_cq_channel);
	if (!err)
		err = weft_qp_make_queue(id, attr->recv_cq ? 0 : attr->cap.max_recv_wr,
					 &id->recv_cq, &id->recv_cq_channel);
	if (err)
		goto destroy_queues;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	id->qp = ibv_create_qp_ex(id->verbs, attr);
	err = -errno;
	if (!id->qp)
		goto destroy_queues;
	err = make_ready(weft_cm_id(id));
	if (err)
		goto destroy_qp;
	id->pd = attr->pd;
	return 0;
destroy_qp:
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
destroy_queues:
	weft_qp_destroy_queues(id);
	return err;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	return weft_cm_result(id && attr ? create_qp(id, attr) : -EINVAL);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	int err;

	if (!id || !attr)
		return weft_cm_result(
			weft_cm_broken(-EINVAL, "id is %p, qp_init_attr %p: both must be given",
				       (void *)id, (void *)attr));
	/* the same fields, up to sq_sig_all */
	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd ? pd : id->pd;
	err = create_qp(id, &ex);
	if (!err)
		memcpy(attr, &ex, sizeof(*attr));
	return weft_cm_result(err);
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	weft_qp_destroy_queues(id);
}
