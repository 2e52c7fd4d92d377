/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Completions (11.4.2) and the events that announce them (11.4.2.2, 11.6.3). Only the completions of one
 * queue have an order: of those of different queues either may come first.
 */
#include "model.h"

#include <string.h>

/* An arming makes one event: at the next completion, or at the next one that is solicited or in error. */
static void announce(struct cq *cq, const struct completion *c, bool solicited)
{
	if (cq->armed == NOT_ARMED || (cq->armed == ARMED_SOLICITED && !solicited && !c->status))
		return;
	cq->armed = NOT_ARMED;
	if (cq->channel)
		cq->events++;
}

void model_complete(struct model *m, struct qp *qp, const struct completion *c, bool solicited)
{
	struct cq *cq = &process_of(m, qp)->cq[c->of_receive ? qp->recv_cq : qp->send_cq];

	m->touched |= 1u << qp->name.process;
	cq->completion[cq->n] = *c;
	cq->completion[cq->n++].qp = qp->serial;
	announce(cq, c, solicited);
}

/* Arming for all completions is not weakened by a later arming for solicited ones. */
void model_arm(struct cq *cq, bool solicited_only)
{
	if (!solicited_only)
		cq->armed = ARMED_ANY;
	else if (cq->armed == NOT_ARMED)
		cq->armed = ARMED_SOLICITED;
}

static void take_away(struct cq *cq, unsigned int i)
{
	memmove(&cq->completion[i], &cq->completion[i + 1],
		(--cq->n - i) * sizeof(cq->completion[0]));
}

void model_forget(struct model *m, const struct qp *qp)
{
	for (int k = 0; k < CQS; k++) {
		struct cq *cq = &process_of(m, qp)->cq[k];

		for (unsigned int i = cq->n; cq->serial && i-- > 0;)
			if (cq->completion[i].qp == qp->serial)
				take_away(cq, i);
	}
}

static bool is_oldest(const struct cq *cq, unsigned int i)
{
	for (unsigned int k = 0; k < i; k++)
		if (cq->completion[k].qp == cq->completion[i].qp &&
		    cq->completion[k].of_receive == cq->completion[i].of_receive)
			return false;
	return true;
}

/* Polling a completion frees the slot of its request, and those of all requests before it in the queue. */
bool model_poll(struct model *m, struct name name, uint64_t wr_id, struct completion *completion)
{
	struct cq *cq = &m->process[name.process].cq[name.slot];

	for (unsigned int i = 0; i < cq->n; i++) {
		struct completion *c = &cq->completion[i];
		struct qp *qp = model_qp(m, c->qp);

		if (c->wr_id != wr_id || !is_oldest(cq, i))
			continue;
		*completion = *c;
		(c->of_receive ? &qp->rq : &qp->sq)->freed = c->position + 1;
		take_away(cq, i);
		return true;
	}
	return false;
}

void model_raise(struct model *m, struct qp *qp, enum ibv_event_type type)
{
	struct process *p = process_of(m, qp);

	if (p->nasync < sizeof(p->async) / sizeof(*p->async))
		p->async[p->nasync++] = (struct async){qp->name.slot, type};
}

bool model_get_async(struct model *m, struct name qp, enum ibv_event_type *type)
{
	struct process *p = &m->process[qp.process];

	for (unsigned int i = 0; i < p->nasync; i++) {
		if (p->async[i].qp != qp.slot)
			continue;
		*type = p->async[i].type;
		memmove(&p->async[i], &p->async[i + 1], (--p->nasync - i) * sizeof(p->async[0]));
		return true;
	}
	return false;
}
