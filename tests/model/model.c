/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "model.h"

#include <string.h>

void model_init(struct model *m, int processes, uint32_t slab_bytes, uint8_t (*memory)[ARENA_BYTES])
{
	memset(m, 0, sizeof(*m));
	m->processes = processes;
	m->slab_bytes = slab_bytes;
	m->memory = memory;
}

struct qp *model_qp(struct model *m, uint32_t serial)
{
	for (int p = 0; serial && p < m->processes; p++)
		for (int i = 0; i < QPS; i++)
			if (m->process[p].qp[i].serial == serial)
				return &m->process[p].qp[i];
	return NULL;
}

/* When a region is deregistered while requests wait at both ends, either end may be the first to fail by
 * it. */
static bool is_race(struct model *m, const struct step *s)
{
	for (int i = 0; s->verb == DEREG_MR && i < QPS; i++) {
		const struct qp *qp = &m->process[s->process].qp[i];
		const struct qp *peer = model_qp(m, qp->dest);

		if (model_waits(qp) && peer && peer != qp && peer->dest == qp->serial &&
		    model_waits(peer))
			return true;
	}
	return false;
}

static bool has_objects(const struct model *m, const struct step *s)
{
	const struct process *p = &m->process[s->process];

	switch ((enum verb)s->verb) {
	case ALLOC_PD:
		return !p->pd[s->slot];
	case DEALLOC_PD:
		return p->pd[s->slot];
	case REG_MR:
		return !p->region[s->slot].serial && p->pd[s->region.pd];
	case DEREG_MR:
		return p->region[s->slot].serial;
	case CREATE_CHANNEL:
		return !p->channel;
	case DESTROY_CHANNEL:
	case GET_CQ_EVENTS:
		return p->channel;
	case CREATE_CQ:
		return !p->cq[s->slot].serial && (!s->cq.channel || p->channel);
	case RESIZE_CQ:
	case DESTROY_CQ:
	case POLL_CQ:
	case NOTIFY_CQ:
		return p->cq[s->slot].serial;
	case CREATE_QP:
		return !p->qp[s->slot].serial && p->pd[s->qp.pd] && p->cq[s->qp.send_cq].serial &&
		       p->cq[s->qp.recv_cq].serial;
	case MODIFY_QP:
	case DESTROY_QP:
	case POST_RECV:
	case POST_SEND:
		return p->qp[s->slot].serial;
	case GET_ASYNC_EVENTS:
	case STORE:
		return true;
	case VERBS:
		break;
	}
	return false;
}

/* Of slabs that do not lie side by side. */
static bool leaves_slab(const struct model *m, const struct step *s)
{
	const struct step_region *r = &s->region;

	return s->verb == REG_MR && r->length &&
	       r->at / m->slab_bytes != (r->at + r->length - 1) / m->slab_bytes;
}

bool model_possible(struct model *m, const struct step *s)
{
	return s->process < m->processes && has_objects(m, s) && !is_race(m, s) &&
	       !leaves_slab(m, s);
}

static struct answer poll_cq(const struct cq *cq, const struct step *s)
{
	return (struct answer){0, s->count < cq->n ? s->count : (int)cq->n};
}

static struct answer act(struct model *m, const struct step *s)
{
	struct process *p = &m->process[s->process];

	switch ((enum verb)s->verb) {
	case MODIFY_QP:
		return model_modify(m, &p->qp[s->slot], &s->modify);
	case POST_RECV:
		return model_post_recv(m, &p->qp[s->slot], s);
	case POST_SEND:
		return model_post_send(m, &p->qp[s->slot], s);
	case POLL_CQ:
		return poll_cq(&p->cq[s->slot], s);
	case NOTIFY_CQ:
		model_arm(&p->cq[s->slot], s->solicited_only);
		break;
	case STORE:
		step_pattern(m->memory[s->process] + s->store.at, s->store.length, s->store.seed);
		break;
	case GET_CQ_EVENTS:
	case GET_ASYNC_EVENTS:
		break;
	case ALLOC_PD:
	case DEALLOC_PD:
	case REG_MR:
	case DEREG_MR:
	case CREATE_CHANNEL:
	case DESTROY_CHANNEL:
	case CREATE_CQ:
	case RESIZE_CQ:
	case DESTROY_CQ:
	case CREATE_QP:
	case DESTROY_QP:
	case VERBS:
		return model_objects(m, s);
	}
	return (struct answer){0};
}

struct answer model_apply(struct model *m, const struct step *s)
{
	struct answer answer;

	m->touched = 1u << s->process;
	answer = act(m, s);
	model_run(m);
	return answer;
}
