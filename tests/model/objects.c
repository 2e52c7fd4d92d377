/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Objects (chapter 11.2). One that others use cannot be destroyed: the call answers EBUSY. */
#include "model.h"

#include <errno.h>
#include <string.h>

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

static int dealloc_pd(struct process *p, uint8_t slot)
{
	for (int i = 0; i < REGIONS; i++)
		if (p->region[i].serial && p->region[i].pd == slot)
			return EBUSY;
	for (int i = 0; i < QPS; i++)
		if (p->qp[i].serial && p->qp[i].pd == slot)
			return EBUSY;
	p->pd[slot] = 0;
	return 0;
}

/* A region that peers may write to must be writable by its owner (11.2.8.2). */
static int reg_mr(struct model *m, struct process *p, const struct step *s)
{
	const struct step_region *r = &s->region;
	const uint32_t written = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (!r->length || r->access & ~(uint32_t)ALL_ACCESS ||
	    (r->access & written && !(r->access & IBV_ACCESS_LOCAL_WRITE)))
		return EINVAL;
	p->region[s->slot] = (struct region){.serial = ++m->serial,
					     .pd = r->pd,
					     .kind = r->kind,
					     .access = r->access,
					     .start = r->at,
					     .length = r->length};
	return 0;
}

static int create_cq(struct model *m, struct process *p, const struct step *s)
{
	if (s->cq.cqe < 1)
		return EINVAL;
	p->cq[s->slot] = (struct cq){.serial = ++m->serial, .channel = s->cq.channel};
	return 0;
}

static int destroy_cq(struct process *p, uint8_t slot)
{
	for (int i = 0; i < QPS; i++)
		if (p->qp[i].serial && (p->qp[i].send_cq == slot || p->qp[i].recv_cq == slot))
			return EBUSY;
	p->cq[slot].serial = 0;
	return 0;
}

static int destroy_channel(struct process *p)
{
	for (int i = 0; i < CQS; i++)
		if (p->cq[i].serial && p->cq[i].channel)
			return EBUSY;
	p->channel = false;
	return 0;
}

static int create_qp(struct model *m, struct process *p, const struct step *s)
{
	const struct step_qp *q = &s->qp;
	struct qp *qp = &p->qp[s->slot];

	/* more elements than any queue pair has */
	if (q->cap.max_send_sge > SGES || q->cap.max_recv_sge > SGES)
		return EINVAL;
	memset(qp, 0, sizeof(*qp));
	qp->serial = ++m->serial;
	qp->name = (struct name){s->process, s->slot};
	qp->pd = q->pd;
	qp->send_cq = q->send_cq;
	qp->recv_cq = q->recv_cq;
	qp->signal_all = q->signal_all;
	qp->cap = q->cap;
	return 0;
}

bool model_grant(struct model *m, const struct step *create, const struct ibv_qp_cap *cap)
{
	const struct ibv_qp_cap *want = &create->qp.cap;

	m->process[create->process].qp[create->slot].cap = *cap;
	return cap->max_send_wr >= want->max_send_wr && cap->max_send_wr <= DEPTH &&
	       cap->max_recv_wr >= want->max_recv_wr && cap->max_recv_wr <= DEPTH &&
	       cap->max_send_sge >= want->max_send_sge && cap->max_send_sge < SGES &&
	       cap->max_recv_sge >= want->max_recv_sge && cap->max_recv_sge < SGES &&
	       cap->max_inline_data >= want->max_inline_data && cap->max_inline_data < INLINE_ROOM;
}

/* The queue pair's completions and events are discarded with it. */
static int destroy_qp(struct model *m, struct qp *qp)
{
	enum ibv_event_type type;

	model_reset(m, qp);
	while (model_get_async(m, qp->name, &type))
		;
	qp->serial = 0;
	return 0;
}

static int act(struct model *m, struct process *p, const struct step *s)
{
	switch ((enum verb)s->verb) {
	case ALLOC_PD:
		p->pd[s->slot] = ++m->serial;
		break;
	case DEALLOC_PD:
		return dealloc_pd(p, s->slot);
	case REG_MR:
		return reg_mr(m, p, s);
	case DEREG_MR:
		p->region[s->slot].serial = 0;
		break;
	case CREATE_CHANNEL:
		p->channel = true;
		break;
	case DESTROY_CHANNEL:
		return destroy_channel(p);
	case CREATE_CQ:
		return create_cq(m, p, s);
	case RESIZE_CQ:
		return s->cq.cqe < 1 ? EINVAL : 0;
	case DESTROY_CQ:
		return destroy_cq(p, s->slot);
	case CREATE_QP:
		return create_qp(m, p, s);
	case DESTROY_QP:
		return destroy_qp(m, &p->qp[s->slot]);
	case MODIFY_QP:
	case POST_RECV:
	case POST_SEND:
	case POLL_CQ:
	case NOTIFY_CQ:
	case GET_CQ_EVENTS:
	case GET_ASYNC_EVENTS:
	case STORE:
	case VERBS:
		break;
	}
	return 0;
}

struct answer model_objects(struct model *m, const struct step *s)
{
	return (struct answer){act(m, &m->process[s->process], s), 0};
}
