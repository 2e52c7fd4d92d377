/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "generate.h"

#include <string.h>

#include "../masks.h"

#define ATTRIBUTES 21 /* bits of an attribute mask */
#define REMOTE	   (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct step *plan(struct generator *g, enum verb verb, int process, int slot)
{
	struct step *s = &g->plan[g->planned++ % PLAN];

	*s = (struct step){.verb = verb, .process = (uint8_t)process, .slot = (uint8_t)slot};
	return s;
}

/* ---- Objects ---- */

static void keep_to_slab(const struct generator *g, struct step_region *r)
{
	uint32_t left = g->slab_bytes - r->at % g->slab_bytes;

	if (r->length > left)
		r->length = left;
}

static void some_region(struct generator *g, struct step *s)
{
	struct step_region *r = &s->region;

	s->verb = REG_MR;
	r->pd = (uint8_t)below(g, PDS);
	r->at = below(g, ARENA_BYTES);
	/* less than two pages stays in place, more migrates into the pool */
	r->length = chance(g, 30) ? below(g, 2000) : below(g, ARENA_BYTES);
	keep_to_slab(g, r);
	r->access = IBV_ACCESS_LOCAL_WRITE | REMOTE;
	if (chance(g, 12))
		r->access = below(g, 16);
	if (chance(g, 1))
		r->access |= 1u << 15;
	r->kind = chance(g, 80) ? REGION_PLAIN : chance(g, 50) ? REGION_IOVA : REGION_ZERO_BASED;
	if (r->kind == REGION_ZERO_BASED)
		r->access |= IBV_ACCESS_ZERO_BASED;
}

static void some_qp(struct generator *g, struct step *s)
{
	struct step_qp *q = &s->qp;

	s->verb = CREATE_QP;
	q->pd = (uint8_t)(chance(g, 80) ? 0 : below(g, PDS));
	q->send_cq = (uint8_t)below(g, CQS);
	q->recv_cq = (uint8_t)(chance(g, 70) ? q->send_cq : below(g, CQS));
	q->signal_all = chance(g, 20);
	q->cap = (struct ibv_qp_cap){1 + below(g, DEPTH), 1 + below(g, DEPTH),
				     1 + below(g, SGES - 1), 1 + below(g, SGES - 1),
				     below(g, INLINE_BYTES + 1)};
	if (chance(g, 2))
		q->cap.max_send_sge = SGES + 1;
}

static void some_cq(struct generator *g, struct step *s)
{
	s->cq.channel = chance(g, 80);
	s->cq.cqe = chance(g, 3) ? 0 : 2 * DEPTH * QPS + (int)below(g, 100);
}

/* ---- States ---- */

static void some_attributes(struct generator *g, const struct model *m, struct step_modify *a)
{
	a->port = 1;
	a->mtu = (uint8_t)(1 + below(g, 5));
	a->access = (uint8_t)(chance(g, 92) ? REMOTE : below(g, 16));
	a->min_rnr_timer = (uint8_t)(1 + below(g, 6)); /* 10 to 80 µs */
	a->timeout = (uint8_t)(chance(g, 40) ? 0 : 1 + below(g, 3));
	a->retry_cnt = (uint8_t)below(g, 8);
	a->rnr_retry = (uint8_t)(chance(g, 75) ? 7 : below(g, 7));
	a->max_rd_atomic = (uint8_t)(chance(g, 95) ? 1 + below(g, 16) : 0);
	a->max_dest_rd_atomic = (uint8_t)(chance(g, 95) ? 1 + below(g, 16) : 0);
	a->dest.process = (uint8_t)below(g, (uint64_t)m->processes);
	a->dest.slot = (uint8_t)below(g, QPS);
}

static uint32_t mask_to(enum ibv_qp_state to)
{
	return to == IBV_QPS_INIT  ? INIT_MASK
	       : to == IBV_QPS_RTR ? RTR_MASK
	       : to == IBV_QPS_RTS ? RTS_MASK
				   : IBV_QP_STATE;
}

/* The usual transitions from RESET to RTS, on both sides by turns; now and then one side stops halfway. */
static void plan_connection(struct generator *g, const struct model *m, struct name a,
			    struct name b)
{
	const struct name ends[2] = {a, b};

	if (g->planned - g->taken > PLAN / 2)
		return;
	for (int to = IBV_QPS_RESET; to <= IBV_QPS_RTS; to++)
		for (int i = 0; i < 2; i++) {
			struct step *s;

			if (chance(g, 3))
				continue;
			s = plan(g, MODIFY_QP, ends[i].process, ends[i].slot);
			some_attributes(g, m, &s->modify);
			s->modify.to = (uint8_t)to;
			s->modify.mask = mask_to(to);
			s->modify.dest = ends[!i];
		}
}

static bool find_idle(struct generator *g, const struct model *m, struct name *name)
{
	for (int tries = 0; tries < 8; tries++) {
		const struct qp *qp;

		*name = (struct name){(uint8_t)below(g, (uint64_t)m->processes),
				      (uint8_t)below(g, QPS)};
		qp = &m->process[name->process].qp[name->slot];
		if (qp->serial && (qp->state != IBV_QPS_RTS || chance(g, 5)))
			return true;
	}
	return false;
}

static void connect_some(struct generator *g, const struct model *m)
{
	struct name a, b;

	if (find_idle(g, m, &a) && find_idle(g, m, &b))
		plan_connection(g, m, a, b);
}

static void some_transition(struct generator *g, const struct model *m, const struct qp *qp,
			    struct step *s)
{
	struct step_modify *a = &s->modify;

	s->verb = MODIFY_QP;
	some_attributes(g, m, a);
	a->current = (uint8_t)qp->state;
	if (chance(g, 40)) {
		a->to = qp->state == IBV_QPS_RTS   ? IBV_QPS_SQD
			: qp->state == IBV_QPS_SQD ? IBV_QPS_RTS
						   : (uint8_t)((qp->state + 1) % (IBV_QPS_ERR + 1));
		a->mask = qp->state == IBV_QPS_SQD ? IBV_QP_STATE : mask_to(a->to);
	} else if (chance(g, 50)) {
		a->to = chance(g, 50) ? IBV_QPS_RESET : IBV_QPS_ERR;
		a->mask = IBV_QP_STATE;
	} else if (chance(g, 50)) {
		a->to = (uint8_t)qp->state;
		for (int i = (int)below(g, 5); i > 0; i--)
			a->mask |= 1u << below(g, ATTRIBUTES);
	} else {
		a->to = (uint8_t)below(g, IBV_QPS_ERR + 1);
		a->mask = mask_to((enum ibv_qp_state)below(g, 4));
	}
	if (chance(g, 10))
		a->mask ^= 1u << below(g, ATTRIBUTES);
	if (chance(g, 3))
		a->rnr_retry = 8;
	if (chance(g, 3))
		a->port = 2;
	if (chance(g, 3))
		a->current = (uint8_t)below(g, 7);
}

/* ---- All steps ---- */

static const struct weight {
	uint8_t verb, weight;
} weights[] = {
	{POST_SEND, 28}, {POST_RECV, 16},     {POLL_CQ, 16},	     {MODIFY_QP, 6},
	{NOTIFY_CQ, 6},	 {GET_CQ_EVENTS, 5},  {GET_ASYNC_EVENTS, 3}, {STORE, 4},
	{REG_MR, 5},	 {DEREG_MR, 3},	      {CREATE_QP, 3},	     {DESTROY_QP, 1},
	{CREATE_CQ, 1},	 {RESIZE_CQ, 1},      {DESTROY_CQ, 1},	     {ALLOC_PD, 1},
	{DEALLOC_PD, 1}, {CREATE_CHANNEL, 1}, {DESTROY_CHANNEL, 1},
};

static enum verb some_verb(struct generator *g)
{
	unsigned int sum = 0, at;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(weights) / sizeof(*weights); k++)
		sum += weights[k].weight;
	at = below(g, sum);
	while (at >= weights[i].weight)
		at -= weights[i++].weight;
	return weights[i].verb;
}

static const uint8_t slots[VERBS] = {
	[ALLOC_PD] = PDS,  [DEALLOC_PD] = PDS, [REG_MR] = REGIONS, [DEREG_MR] = REGIONS,
	[CREATE_CQ] = CQS, [RESIZE_CQ] = CQS,  [DESTROY_CQ] = CQS, [POLL_CQ] = CQS,
	[NOTIFY_CQ] = CQS, [CREATE_QP] = QPS,  [MODIFY_QP] = QPS,  [DESTROY_QP] = QPS,
	[POST_RECV] = QPS, [POST_SEND] = QPS,
};

static void fill(struct generator *g, struct model *m, struct step *s)
{
	struct qp *qp = &m->process[s->process].qp[s->slot % QPS];

	switch ((enum verb)s->verb) {
	case REG_MR:
		some_region(g, s);
		break;
	case CREATE_CQ:
	case RESIZE_CQ:
		some_cq(g, s);
		break;
	case CREATE_QP:
		some_qp(g, s);
		break;
	case MODIFY_QP:
		some_transition(g, m, qp, s);
		break;
	case POST_RECV:
		generate_receives(g, m, qp, s);
		break;
	case POST_SEND:
		generate_sends(g, m, qp, s);
		break;
	case POLL_CQ:
		s->count = (uint8_t)(1 + below(g, chance(g, 60) ? POLLS : 3));
		break;
	case NOTIFY_CQ:
		s->solicited_only = chance(g, 40);
		break;
	case STORE:
		s->store.at = below(g, ARENA_BYTES);
		s->store.length = below(
			g, ARENA_BYTES - s->store.at < 9000 ? ARENA_BYTES - s->store.at : 9000);
		s->store.seed = below(g, 1u << 31);
		break;
	default: /* other verbs have no arguments */
		break;
	}
}

/* Whether a step is worth making: mostly, requests are posted to connected queue pairs and queues with
 * completions are polled. */
static bool is_useful(const struct model *m, const struct step *s)
{
	const struct process *p = &m->process[s->process];

	switch ((enum verb)s->verb) {
	case POST_SEND:
		return p->qp[s->slot].state == IBV_QPS_RTS &&
		       p->qp[s->slot].sq.posted - p->qp[s->slot].sq.freed <
			       p->qp[s->slot].cap.max_send_wr;
	case POST_RECV:
		return p->qp[s->slot].dest && p->qp[s->slot].state != IBV_QPS_ERR;
	case POLL_CQ:
		return p->cq[s->slot].n;
	default:
		return true;
	}
}

static struct step some_step(struct generator *g, struct model *m)
{
	struct step s = {.process = (uint8_t)below(g, (uint64_t)m->processes)};

	s.verb = (uint8_t)some_verb(g);
	s.slot = (uint8_t)(slots[s.verb] ? below(g, slots[s.verb]) : 0);
	for (int i = 0; i < 8 && !is_useful(m, &s); i++) {
		s.process = (uint8_t)below(g, (uint64_t)m->processes);
		s.slot = (uint8_t)(slots[s.verb] ? below(g, slots[s.verb]) : 0);
	}
	fill(g, m, &s);
	return s;
}

void generate_begin(struct generator *g, uint64_t seed, int processes, uint32_t slab_bytes)
{
	struct model empty = {.processes = processes};
	uint32_t half = slab_bytes / 2;

	memset(g, 0, sizeof(*g));
	g->random = seed;
	g->slab_bytes = slab_bytes;
	for (int p = 0; p < processes; p++) {
		struct step *s;

		plan(g, ALLOC_PD, p, 0);
		plan(g, CREATE_CHANNEL, p, 0);
		some_cq(g, plan(g, CREATE_CQ, p, 0));
		s = plan(g, REG_MR, p, 0);
		some_region(g, s);
		s->region.pd = 0;
		s = plan(g, REG_MR, p, 1);
		some_region(g, s);
		s->region.pd = 0;
		s->region.length = half + below(g, half / 2);
		s->region.at -= s->region.at % slab_bytes;
		s->region.at += below(g, slab_bytes - s->region.length + 1);
		s = plan(g, CREATE_QP, p, 0);
		some_qp(g, s);
		s->qp.pd = s->qp.send_cq = s->qp.recv_cq = 0;
	}
	plan_connection(g, &empty, (struct name){0, 0}, (struct name){1, 0});
}

static bool is_any_connected(const struct model *m)
{
	for (int p = 0; p < m->processes; p++)
		for (int i = 0; i < QPS; i++)
			if (m->process[p].qp[i].serial && m->process[p].qp[i].state == IBV_QPS_RTS)
				return true;
	return false;
}

struct step generate_step(struct generator *g, struct model *m)
{
	struct step s;

	if (g->planned == g->taken && chance(g, is_any_connected(m) ? 8 : 60))
		connect_some(g, m);
	do {
		if (g->planned != g->taken && chance(g, 85))
			s = g->plan[g->taken++ % PLAN];
		else
			s = some_step(g, m);
	} while (!model_possible(m, &s));
	return s;
}
