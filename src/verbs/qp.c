/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs: creation, transitions, queries. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/qp.h"
#include "nic/queues.h"
#include "pool/step.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/sizes.h"
#include "verbs/async.h"
#include "verbs/attr.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "process/card.h"
#include "process/gids.h"
#include "process/interface.h"
#include "process/node.h"
#include "process/process.h"
#include "verbs/receiver.h"
#include "verbs/srq.h"
#include "verbs/verbs.h"

#define ATTR_BITS (2 * IBV_QP_DEST_QPN - 1) /* the attributes of the specification */

static int check_cq(const struct ibv_pd *pd, const struct ibv_cq *cq)
{
	if (weft_explain_stale("ibv_create_qp", cq, WEFT_HANDLE_CQ))
		return EINVAL;
	return cq->context == pd->context
		       ? 0
		       : weft_broken("ibv_create_qp", OTHER_CONTEXT, weft_value("completion queue"),
				     weft_value(cq));
}

/* What only sends has no completions of receives. */
static struct ibv_cq *receive_cq(const struct ibv_qp_init_attr *init)
{
	return init->qp_type == IBV_QPT_XRC_SEND ? init->send_cq : init->recv_cq;
}

static int check_qp(struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	const char *verb = "ibv_create_qp";
	int err;

	if (weft_explain_no_domain(verb, pd))
		return EINVAL;
	if (!init)
		return weft_broken(verb, MISSING, weft_value("qp_init_attr"));
	if (init->srq && weft_explain_stale(verb, init->srq, WEFT_HANDLE_SRQ))
		return EINVAL;
	if (init->srq && init->srq->context != pd->context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("srq"), weft_value(init->srq));
	if (init->qp_type == IBV_QPT_RAW_PACKET || init->qp_type == IBV_QPT_XRC_RECV ||
	    init->qp_type == IBV_QPT_DRIVER)
		return weft_broken(verb, SERVICE, init->qp_type);
	if (init->qp_type != IBV_QPT_XRC_SEND &&
	    (init->qp_type < IBV_QPT_RC || init->qp_type > IBV_QPT_UD))
		return weft_broken(verb, NO_SERVICE, init->qp_type);
	err = check_cq(pd, init->send_cq);
	return err ? err : check_cq(pd, receive_cq(init));
}

static void fill_qp(struct weft_verbs_qp *qp, struct ibv_pd *pd,
		    const struct ibv_qp_init_attr *init)
{
	qp->qp = (struct ibv_qp){.context = pd->context,
				 .qp_context = init->qp_context,
				 .pd = pd,
				 .send_cq = init->send_cq,
				 .recv_cq = init->recv_cq,
				 .srq = init->srq,
				 .qp_num = qp->nic.qpn,
				 .handle = qp->nic.qpn,
				 .state = IBV_QPS_RESET,
				 .qp_type = init->qp_type};
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp->init = *init;
	qp->attr.cap = init->cap;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	int err = check_qp(pd, init);
	struct weft_qp_cap cap;
	struct weft_verbs_qp *qp;

	if (!err)
		err = weft_verbs_pd_use("ibv_create_qp", pd);
	if (err) {
		errno = err;
		return NULL;
	}
	err = ENOMEM;
	if (posix_memalign((void **)&qp, 64, sizeof(*qp)))
		goto fail;
	memset(qp, 0, sizeof(*qp));
	cap = (struct weft_qp_cap){init->cap.max_send_wr, init->cap.max_recv_wr,
				   init->cap.max_send_sge, init->cap.max_recv_sge,
				   init->cap.max_inline_data};
	weft_rehome_share();
	err = -weft_qp_create(&weft_process_nic, &qp->nic, (enum weft_qp_type)init->qp_type,
			      weft_pd(pd)->number, &weft_cq(init->send_cq)->nic,
			      &weft_cq(receive_cq(init))->nic,
			      init->srq ? &weft_srq(init->srq)->nic : NULL, &cap, init->sq_sig_all);
	weft_rehome_unshare();
	if (err)
		goto free_object;
	WEFT_STEP(verbs_qp_made);
	err = -weft_handle_add(qp, WEFT_HANDLE_QP);
	if (err)
		goto destroy_queues;
	init->cap.max_inline_data = cap.max_inline_bytes;
	init->cap.max_recv_wr = cap.max_recv_wr;
	init->cap.max_recv_sge = cap.max_recv_sge;
	fill_qp(qp, pd, init);
	weft_cq(init->send_cq)->users++;
	weft_cq(receive_cq(init))->users++;
	if (init->srq)
		weft_srq(init->srq)->users++;
	return &qp->qp;
destroy_queues:
	weft_verbs_end_queues(qp);
free_object:
	free(qp);
fail:
	weft_verbs_pd_leave(pd);
	errno = err == EINVAL ? weft_broken("ibv_create_qp", QP_CAP, init->cap.max_send_wr,
					    init->cap.max_recv_wr, init->cap.max_send_sge,
					    init->cap.max_recv_sge, init->cap.max_inline_data)
			      : weft_explain_errno("ibv_create_qp", err);
	return NULL;
}

void weft_verbs_end_queues(struct weft_verbs_qp *qp)
{
	weft_rehome_share();
	weft_qp_destroy(&qp->nic);
	weft_rehome_unshare();
	weft_rehome_from_qp(qp->nic.index);
}

static void drop_users(struct weft_verbs_qp *qp)
{
	weft_verbs_pd_leave(qp->qp.pd);
	weft_cq(qp->qp.send_cq)->users--;
	weft_cq(receive_cq(&qp->init))->users--;
	if (qp->qp.srq)
		weft_srq(qp->qp.srq)->users--;
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct weft_verbs_qp *qp = weft_qp(ibqp);

	if (weft_handle_inherited(ibqp))
		return 0;
	if (weft_explain_stale("ibv_destroy_qp", ibqp, WEFT_HANDLE_QP))
		return EINVAL;
	if (qp->groups)
		return weft_broken("ibv_destroy_qp", QP_GROUPS, ibqp->qp_num, qp->groups);
	weft_handle_remove(ibqp);
	if (qp->real) {
		weft_receiver_close(qp);
		return 0;
	}
	WEFT_STEP(verbs_qp_destroying);
	weft_verbs_end_queues(qp);
	WEFT_STEP(verbs_qp_destroyed);
	weft_async_finish(ibqp->context, qp, weft_qp_acks(ibqp));
	drop_users(qp);
	free(qp);
	return 0;
}

/* ---- Modify ---- */

#define VERB "ibv_modify_qp"

static int check_transition(const struct weft_qp *qp, enum weft_qp_state from,
			    enum weft_qp_state to, uint32_t mask)
{
	uint64_t was = weft_value(weft_explain_state(from)),
		 will = weft_value(weft_explain_state(to));
	uint32_t required, allowed;
	char names[256];

	if (!weft_qp_transition(qp->type, from, to, &required, &allowed))
		return weft_broken(VERB, TRANSITION, qp->qpn, was, will);
	if (required & ~mask)
		return weft_broken(
			VERB, ATTR_NEEDED, qp->qpn, was, will, mask,
			weft_value(weft_explain_mask(required & ~mask, names, sizeof(names))));
	if (mask & ~allowed)
		return weft_broken(
			VERB, ATTR_EXTRA, qp->qpn, was, will, mask,
			weft_value(weft_explain_mask(mask & ~allowed, names, sizeof(names))));
	return 0;
}

static int check_address(const struct ibv_ah_attr *ah)
{
	uint8_t source[16];

	/* on Ethernet an address is a GID (A17.4.1) */
	if (ah->is_global && ah->port_num <= 1 && weft_gids_source(ah->grh.sgid_index, source))
		return 0;
	return weft_broken(VERB, ADDRESS, ah->is_global, ah->grh.sgid_index,
			   weft_process.pool->self->ngids, ah->port_num);
}

static int check_values(uint32_t qpn, const struct ibv_qp_attr *attr, int mask)
{
	const struct {
		int bit;
		const char *name;
		uint32_t value, least, most;
	} values[] = {
		{IBV_QP_PORT, "port_num", attr->port_num, 1, 1},
		{IBV_QP_PKEY_INDEX, "pkey_index", attr->pkey_index, 0, 0},
		{IBV_QP_PATH_MTU, "path_mtu", attr->path_mtu, IBV_MTU_256, IBV_MTU_4096},
		{IBV_QP_TIMEOUT, "timeout", attr->timeout, 0, 31},
		{IBV_QP_RETRY_CNT, "retry_cnt", attr->retry_cnt, 0, 7},
		{IBV_QP_RNR_RETRY, "rnr_retry", attr->rnr_retry, 0, 7},
		{IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", attr->min_rnr_timer, 0, 31},
		{IBV_QP_ALT_PATH, "alt_port_num", attr->alt_port_num, 1, 1},
		{IBV_QP_DEST_QPN, "dest_qp_num", attr->dest_qp_num, 0, 0xffffff},
		{IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attr->max_rd_atomic, 0,
		 WEFT_MAX_RD_ATOMIC},
		{IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr->max_dest_rd_atomic, 0,
		 WEFT_MAX_RD_ATOMIC},
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (mask & values[i].bit &&
		    (values[i].value < values[i].least || values[i].value > values[i].most))
			return weft_broken(VERB, ATTR_VALUE, qpn, weft_value(values[i].name),
					   values[i].value, values[i].least, values[i].most);
	if (mask & IBV_QP_PATH_MIG_STATE && attr->path_mig_state != IBV_MIG_MIGRATED)
		return weft_broken(VERB, MIGRATION, qpn, attr->path_mig_state);
	if (mask & IBV_QP_ACCESS_FLAGS && !weft_verbs_known_access(VERB, attr->qp_access_flags))
		return EINVAL;
	return mask & IBV_QP_AV ? check_address(&attr->ah_attr) : 0;
}

struct member {
	int bit;
	size_t offset, bytes;
};

#define MEMBER(bit, field)                                                                         \
	{                                                                                          \
		bit, offsetof(struct ibv_qp_attr, field), sizeof(((struct ibv_qp_attr *)0)->field) \
	}

static void merge_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	static const struct member members[] = {
		MEMBER(IBV_QP_ACCESS_FLAGS, qp_access_flags),
		MEMBER(IBV_QP_PKEY_INDEX, pkey_index),
		MEMBER(IBV_QP_PORT, port_num),
		MEMBER(IBV_QP_QKEY, qkey),
		MEMBER(IBV_QP_AV, ah_attr),
		MEMBER(IBV_QP_PATH_MTU, path_mtu),
		MEMBER(IBV_QP_TIMEOUT, timeout),
		MEMBER(IBV_QP_RETRY_CNT, retry_cnt),
		MEMBER(IBV_QP_RNR_RETRY, rnr_retry),
		MEMBER(IBV_QP_RQ_PSN, rq_psn),
		MEMBER(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
		MEMBER(IBV_QP_ALT_PATH, alt_ah_attr),
		MEMBER(IBV_QP_ALT_PATH, alt_pkey_index),
		MEMBER(IBV_QP_ALT_PATH, alt_port_num),
		MEMBER(IBV_QP_ALT_PATH, alt_timeout),
		MEMBER(IBV_QP_MIN_RNR_TIMER, min_rnr_timer),
		MEMBER(IBV_QP_SQ_PSN, sq_psn),
		MEMBER(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
		MEMBER(IBV_QP_PATH_MIG_STATE, path_mig_state),
		MEMBER(IBV_QP_DEST_QPN, dest_qp_num),
		MEMBER(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify),
	};

	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (mask & members[i].bit)
			memcpy((char *)to + members[i].offset,
			       (const char *)from + members[i].offset, members[i].bytes);
}

/* $WEFT_PSN: for programs whose two ends do not tell each other their numbers. */
static uint32_t psn(uint32_t given)
{
	static _Atomic signed char lax; /* 0: not looked yet */

	if (!lax) {
		const char *value = getenv("WEFT_PSN");

		lax = value && !strcmp(value, "lax") ? 1 : -1;
	}
	return lax > 0 ? WEFT_ANY_PSN : given & 0xffffff;
}

/* qp: as it is before, whose source stays unless a new path is given. */
static struct weft_qp_attr for_nic(const struct weft_qp *qp, const struct ibv_qp_attr *attr,
				   int mask)
{
	/* with no resources for READ and atomics, a responder refuses them (11.2.5.2, as network cards do) */
	unsigned int access = attr->max_dest_rd_atomic ? ~0u : IBV_ACCESS_REMOTE_WRITE;
	struct weft_qp_attr nic = {.dest_qpn = attr->dest_qp_num,
				   .access = (uint8_t)(attr->qp_access_flags & access),
				   .sq_psn = psn(attr->sq_psn),
				   .rq_psn = psn(attr->rq_psn),
				   .max_rd_atomic = attr->max_rd_atomic,
				   .max_dest_rd_atomic = attr->max_dest_rd_atomic,
				   .path_mtu = (uint8_t)attr->path_mtu,
				   .sgid_index = attr->ah_attr.grh.sgid_index,
				   .hop_limit = attr->ah_attr.grh.hop_limit,
				   .traffic_class = attr->ah_attr.grh.traffic_class,
				   .service_level = attr->ah_attr.sl,
				   .flow_label = attr->ah_attr.grh.flow_label & 0xfffff,
				   .min_rnr_timer = attr->min_rnr_timer,
				   .rnr_retry = attr->rnr_retry,
				   .retry_cnt = attr->retry_cnt,
				   .timeout = attr->timeout,
				   .qkey = attr->qkey};

	memcpy(nic.dgid, &attr->ah_attr.grh.dgid, 16);
	memcpy(nic.sgid, qp->attr.sgid, 16);
	if (mask & IBV_QP_AV)
		weft_gids_source(attr->ah_attr.grh.sgid_index, nic.sgid);
	return nic;
}

/* What goes to another host goes by a card, as RoCE v2, and through an interface. XRC goes between nodes of a torus alone: no
 * other implementation, and no decoder, has shown its packets to be right on Ethernet. */
static int find_card(const struct weft_qp *qp, const struct weft_qp_attr *attr)
{
	uint32_t instead;
	uint8_t most, node[3];

	if (qp->type == WEFT_QPT_UD)
		return 0;
	if (weft_card_is_wanted(attr->sgid, attr->dgid) &&
	    weft_interface_lacks(attr->sgid_index, &instead))
		return weft_broken(VERB, WIRE_SOURCE, qp->qpn, attr->sgid_index, instead);
	if (!weft_card_summon(attr->sgid, attr->dgid))
		return 0;
	if (qp->type != WEFT_QPT_RC && qp->type != WEFT_QPT_UC && !weft_node_here(node))
		return weft_broken(VERB, WIRE_XRC, qp->qpn);
	if (attr->sgid_index % 2 == 0)
		return weft_broken(VERB, WIRE_V1, qp->qpn, attr->sgid_index, attr->sgid_index + 1u);
	most = weft_interface_mtu(attr->sgid);
	if (attr->path_mtu > most)
		return weft_broken(VERB, WIRE_MTU, qp->qpn, 128u << attr->path_mtu, 128u << most);
	return 0;
}

int weft_verbs_modify(struct weft_verbs_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      struct weft_caller *caller)
{
	enum weft_qp_state from = qp->nic.state, to = from;
	struct ibv_qp_attr merged = qp->attr;
	struct weft_qp_attr nic;
	int err;

	if (mask & ~ATTR_BITS) /* IBV_QP_RATE_LIMIT, and what is not defined yet */
		return weft_broken(VERB, NOT_OFFERED, weft_value("attr_mask"), (uint64_t)mask);
	if (mask & IBV_QP_STATE)
		to = (enum weft_qp_state)attr->qp_state;
	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != (enum ibv_qp_state)from)
		return weft_broken(VERB, CURRENT, qp->nic.qpn, weft_value(weft_explain_state(from)),
				   weft_value(weft_explain_state(attr->cur_qp_state)));
	err = check_transition(&qp->nic, from, to, (uint32_t)mask);
	if (!err)
		err = check_values(qp->nic.qpn, attr, mask);
	if (err)
		return err;
	err = to == WEFT_QPS_RTR ? -weft_helper_start() : 0;
	if (err)
		return weft_explain_errno(VERB, err);
	merge_attr(&merged, attr, mask);
	nic = for_nic(&qp->nic, &merged, mask);
	err = to == WEFT_QPS_RTR && from == WEFT_QPS_INIT ? find_card(&qp->nic, &nic) : 0;
	if (err)
		return err;
	nic.tells_drained = mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify;
	err = -weft_qp_modify(&qp->nic, from, to, &nic, caller);
	WEFT_STEP(verbs_qp_modified);
	if (to == WEFT_QPS_ERR || to == WEFT_QPS_RESET)
		weft_rehome_from_qp(qp->nic.index);
	if (err)
		return err == EINVAL ? weft_broken(VERB, TRANSITION, qp->nic.qpn,
						   weft_value(weft_explain_state(qp->nic.state)),
						   weft_value(weft_explain_state(to)))
				     : weft_explain_errno(VERB, err);
	if (to == WEFT_QPS_RESET) {
		merged = (struct ibv_qp_attr){.cap = qp->attr.cap};
		weft_blame_reset(qp->nic.qpn);
	}
	qp->attr = merged;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct weft_verbs_qp *qp;
	int err;

	if (weft_explain_stale(VERB, ibqp, WEFT_HANDLE_QP))
		return EINVAL;
	if (!attr)
		return weft_broken(VERB, MISSING, weft_value("attr"));
	qp = weft_qp_real(ibqp);
	if (qp->opened.is)
		return weft_receiver_modify(qp, attr, mask);
	pthread_mutex_lock(&qp->qp.mutex);
	err = weft_verbs_modify(qp, attr, mask, weft_caller());
	if (!err)
		weft_verbs_tell_state(ibqp, attr, mask);
	pthread_mutex_unlock(&qp->qp.mutex);
	return err;
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct weft_verbs_qp *qp;

	/* the mask is a hint: everything is cheap to tell (ibv_query_qp(3)) */
	if (weft_explain_stale("ibv_query_qp", ibqp, WEFT_HANDLE_QP))
		return EINVAL;
	if (!attr || !init)
		return weft_broken("ibv_query_qp", MISSING, weft_value("attr or init_attr"));
	qp = weft_qp_real(ibqp);
	*init = qp->init;
	init->qp_context = ibqp->qp_context;
	if (qp->opened.is)
		return weft_receiver_query(qp, attr, mask);
	pthread_mutex_lock(&qp->qp.mutex);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)qp->nic.state;
	weft_verbs_tell_state(ibqp, attr, mask);
	attr->sq_draining = weft_sq_is_draining(&qp->nic);
	pthread_mutex_unlock(&qp->qp.mutex);
	return 0;
}
