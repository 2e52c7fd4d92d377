/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Transitions of queue pairs: 10.3.1 and table 91 in 11.2.5.2, the rows of RC. */
#include "model.h"

#include <errno.h>

#define SOFT                                                                                       \
	(IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |         \
	 IBV_QP_PATH_MIG_STATE)

static const struct transition {
	enum ibv_qp_state from, to;
	uint32_t required, optional;
} transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 SOFT},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, SOFT},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, SOFT},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
		 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
};

/* Transitions to RESET are allowed from any state, those to ERR from any but RESET, both without other
 * attributes. */
static bool allowed(enum ibv_qp_state from, enum ibv_qp_state to, uint32_t mask)
{
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return !mask;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(*transitions); i++)
		if (transitions[i].from == from && transitions[i].to == to)
			return (mask & transitions[i].required) == transitions[i].required &&
			       !(mask & ~(transitions[i].required | transitions[i].optional));
	return false;
}

static bool in_range(const struct qp *qp, const struct step_modify *s)
{
	return !((s->mask & IBV_QP_CUR_STATE && s->current != qp->state) ||
		 (s->mask & IBV_QP_PORT && s->port != 1) ||
		 (s->mask & IBV_QP_PKEY_INDEX && s->pkey != 0) ||
		 (s->mask & IBV_QP_PATH_MTU && (s->mtu < IBV_MTU_256 || s->mtu > IBV_MTU_4096)) ||
		 (s->mask & IBV_QP_TIMEOUT && s->timeout > 31) ||
		 (s->mask & IBV_QP_RETRY_CNT && s->retry_cnt > 7) ||
		 (s->mask & IBV_QP_RNR_RETRY && s->rnr_retry > 7) ||
		 (s->mask & IBV_QP_MIN_RNR_TIMER && s->min_rnr_timer > 31) ||
		 (s->mask & IBV_QP_MAX_QP_RD_ATOMIC && s->max_rd_atomic > 16) ||
		 (s->mask & IBV_QP_MAX_DEST_RD_ATOMIC && s->max_dest_rd_atomic > 16));
}

static void set(struct model *m, struct qp *qp, const struct step_modify *s)
{
	struct step_modify *a = &qp->attr;

	if (s->mask & IBV_QP_ACCESS_FLAGS)
		a->access = s->access;
	if (s->mask & IBV_QP_PATH_MTU)
		a->mtu = s->mtu;
	if (s->mask & IBV_QP_MIN_RNR_TIMER)
		a->min_rnr_timer = s->min_rnr_timer;
	if (s->mask & IBV_QP_TIMEOUT)
		a->timeout = s->timeout;
	if (s->mask & IBV_QP_RETRY_CNT)
		a->retry_cnt = s->retry_cnt;
	if (s->mask & IBV_QP_RNR_RETRY)
		a->rnr_retry = s->rnr_retry;
	if (s->mask & IBV_QP_MAX_QP_RD_ATOMIC)
		a->max_rd_atomic = s->max_rd_atomic;
	if (s->mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		a->max_dest_rd_atomic = s->max_dest_rd_atomic;
	if (s->mask & IBV_QP_DEST_QPN) {
		a->dest = s->dest;
		qp->dest = s->dest.process < m->processes
				   ? m->process[s->dest.process].qp[s->dest.slot].serial
				   : 0;
	}
}

/* Outstanding requests are discarded, and so are completions that were not polled. */
void model_reset(struct model *m, struct qp *qp)
{
	m->touched |= 1u << qp->name.process;
	model_forget(m, qp);
	qp->state = IBV_QPS_RESET;
	qp->sq = qp->rq = (struct queue){0};
	qp->attr = (struct step_modify){0};
	qp->dest = 0;
}

void model_fail(struct model *m, struct qp *qp)
{
	m->touched |= 1u << qp->name.process;
	qp->state = IBV_QPS_ERR;
	model_flush(m, qp);
}

struct answer model_modify(struct model *m, struct qp *qp, const struct step_modify *s)
{
	enum ibv_qp_state to = s->mask & IBV_QP_STATE ? s->to : qp->state;

	if (!allowed(qp->state, to, s->mask & ~(uint32_t)IBV_QP_STATE) || !in_range(qp, s))
		return (struct answer){EINVAL, 0};
	if (to == IBV_QPS_RESET) {
		model_reset(m, qp);
	} else if (to == IBV_QPS_ERR) {
		model_fail(m, qp);
	} else {
		set(m, qp, s);
		if (qp->state == IBV_QPS_RTS && to == IBV_QPS_SQD)
			qp->begun = m->carried ? qp->sq.posted : 0;
		qp->state = to;
	}
	return (struct answer){0};
}
