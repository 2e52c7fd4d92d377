/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "drive.h"

#include <stdarg.h>
#include <string.h>

#include "fleet.h"
#include "memory.h"

#define NO_QPN 0xfffffeu

/* A sequence that is being played. */
struct play {
	struct fleet *f;
	struct model m;
	bool asleep;
	/* a bit for each queue pair that had a waiting request before the step */
	unsigned int waited;
	char *why;
	size_t why_bytes;
};

static bool __attribute__((format(printf, 2, 3))) differ(struct play *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->why, p->why_bytes, format, args);
	va_end(args);
	return false;
}

/* ---- Completions and events ---- */

static bool same_completion(struct play *p, struct name cq, const struct ibv_wc *wc)
{
	uint32_t qpn;
	struct completion c;
	const struct qp *qp;

	if (!model_poll(&p->m, cq, wc->wr_id, &c))
		return differ(p, "completion #%lu (%s) should not come now",
			      (unsigned long)wc->wr_id, ibv_wc_status_str(wc->status));
	p->f->tally.status[c.of_receive][c.status]++;
	qp = model_qp(&p->m, c.qp);
	qpn = p->f->board->qpn[qp->name.process][qp->name.slot];
	if (wc->status != c.status)
		return differ(p, "completion #%lu: %s, should be %s", (unsigned long)c.wr_id,
			      ibv_wc_status_str(wc->status), ibv_wc_status_str(c.status));
	if (wc->qp_num != qpn)
		return differ(p, "completion #%lu: queue pair %#x, should be %#x",
			      (unsigned long)c.wr_id, wc->qp_num, qpn);
	if (c.status)
		/* for a completion in error the other fields are undefined (ibv_poll_cq(3)) */
		return true;
	if (wc->opcode != c.opcode)
		return differ(p, "completion #%lu: opcode %d, should be %d", (unsigned long)c.wr_id,
			      wc->opcode, c.opcode);
	if (!c.of_receive)
		return true;
	if (wc->byte_len != c.byte_len)
		return differ(p, "completion #%lu: %u bytes, should be %u", (unsigned long)c.wr_id,
			      wc->byte_len, c.byte_len);
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != c.with_imm ||
	    (c.with_imm && wc->imm_data != c.imm))
		return differ(p, "completion #%lu: immediate %d %#x, should be %d %#x",
			      (unsigned long)c.wr_id, !!(wc->wc_flags & IBV_WC_WITH_IMM),
			      wc->imm_data, c.with_imm, c.imm);
	return true;
}

static bool same_completions(struct play *p, const struct step *s, int wanted,
			     const struct report *r)
{
	for (unsigned int i = 0; i < r->n; i++)
		if (!same_completion(p, (struct name){s->process, s->slot}, &r->wc[i]))
			return false;
	if ((int)r->n != wanted)
		return differ(p, "%u completions, should be %d", r->n, wanted);
	return true;
}

static bool same_cq_events(struct play *p, const struct step *s, const struct report *r)
{
	for (int i = 0; i < CQS; i++) {
		struct cq *cq = &p->m.process[s->process].cq[i];
		unsigned int wanted = cq->serial ? cq->events : 0;

		if (r->cq_events[i] != wanted)
			return differ(p, "%u events of completion queue %d, should be %u",
				      r->cq_events[i], i, wanted);
		p->f->tally.cq_events += wanted;
		cq->events = 0;
	}
	return true;
}

static bool same_async(struct play *p, const struct step *s, const struct report *r)
{
	for (unsigned int i = 0; i < r->n; i++) {
		const struct async *a = &r->async[i];
		enum ibv_event_type type;

		if (!model_get_async(&p->m, (struct name){s->process, a->qp}, &type))
			return differ(p, "queue pair %d: event %s should not come", a->qp,
				      ibv_event_type_str(a->type));
		if (type != a->type)
			return differ(p, "queue pair %d: event %s, should be %s", a->qp,
				      ibv_event_type_str(a->type), ibv_event_type_str(type));
		p->f->tally.events[type]++;
	}
	for (unsigned int i = 0; i < p->m.process[s->process].nasync; i++) {
		const struct async *a = &p->m.process[s->process].async[i];

		return differ(p, "process %d: no event %s of queue pair %d", s->process,
			      ibv_event_type_str(a->type), a->qp);
	}
	return true;
}

/* ---- Steps ---- */

static struct order *order_for(struct play *p, int process, unsigned int kinds)
{
	struct order *o = &p->f->board->desk[process].order;
	const struct process *is = &p->m.process[process];

	memset(o, 0, sizeof(*o));
	o->kinds = kinds;
	o->asleep = p->asleep;
	o->async = is->nasync;
	for (int i = 0; i < CQS; i++)
		o->cq_events[i] = is->cq[i].serial ? is->cq[i].events : 0;
	for (int i = 0; i < QPS; i++) {
		const struct qp *qp = &is->qp[i];

		o->qp[i] = (struct expected_qp){.live = qp->serial,
						.waited = model_waits(qp) ||
							  p->waited & 1u << (process * QPS + i),
						.state = (uint8_t)qp->state,
						.attr = qp->attr};
	}
	return o;
}

static bool ask(struct play *p, int process)
{
	fleet_ask(p->f, process);
	return fleet_await(p->f, process, p->why, p->why_bytes);
}

static bool no_trouble(struct play *p, int process)
{
	const char *trouble = p->f->board->desk[process].report.trouble;

	return !trouble[0] || differ(p, "process %d: %s", process, trouble);
}

static bool check(struct play *p, unsigned int processes)
{
	for (int i = 0; i < p->m.processes; i++)
		if (processes & 1u << i) {
			order_for(p, i, ORDER_CHECK);
			fleet_ask(p->f, i);
		}
	for (int i = 0; i < p->m.processes; i++)
		if (processes & 1u << i &&
		    (!fleet_await(p->f, i, p->why, p->why_bytes) || !no_trouble(p, i)))
			return false;
	return true;
}

static bool same_answer(struct play *p, const struct step *s, const struct answer *a,
			const struct report *r)
{
	if (r->error != a->error)
		return differ(p, "%s: %s, should be %s", step_verb(s->verb),
			      strerrorname_np(r->error), strerrorname_np(a->error));
	p->f->tally.accepted[s->verb] += !a->error;
	p->f->tally.refused[s->verb] += !!a->error;
	switch ((enum verb)s->verb) {
	case POST_SEND:
	case POST_RECV:
		if (r->done != a->done)
			return differ(p, "%d requests posted, should be %d", r->done, a->done);
		return true;
	case CREATE_QP:
		return a->error || model_grant(&p->m, s, &r->cap) ||
		       differ(p, "create_qp grants too little, or too much");
	case POLL_CQ:
		return same_completions(p, s, a->done, r);
	case GET_CQ_EVENTS:
		return same_cq_events(p, s, r);
	case GET_ASYNC_EVENTS:
		return same_async(p, s, r);
	default:
		return true;
	}
}

static unsigned int waiting(const struct model *m)
{
	unsigned int bits = 0;

	for (int i = 0; i < m->processes; i++)
		for (int k = 0; k < QPS; k++)
			bits |= (unsigned int)model_waits(&m->process[i].qp[k]) << (i * QPS + k);
	return bits;
}

/* Has everything that is late carried out before the next step, as the model has done: by a card, or by the processes. */
static bool settle(struct play *p)
{
	if (!worker_memory.is_settled)
		return fleet_settle(p->f, p->why, p->why_bytes);
	for (int i = 0; i < p->m.processes; i++) {
		order_for(p, i, ORDER_SETTLE);
		fleet_ask(p->f, i);
	}
	for (int i = 0; i < p->m.processes; i++)
		if (!fleet_await(p->f, i, p->why, p->why_bytes) || !no_trouble(p, i))
			return false;
	return true;
}

static bool step(struct play *p, const struct step *s)
{
	struct desk *desk = &p->f->board->desk[s->process];
	struct answer answer;
	struct order *o;
	bool alone;

	if (p->f->verbose)
		step_print(stderr, s);
	p->f->tally.steps++;
	p->waited = waiting(&p->m);
	answer = model_apply(&p->m, s);
	alone = p->m.touched == 1u << s->process;
	o = order_for(p, s->process, ORDER_STEP | (alone ? ORDER_CHECK : 0));
	o->step = *s;
	o->completions = s->verb == POLL_CQ ? (unsigned int)answer.done : 0;
	return ask(p, s->process) && same_answer(p, s, &answer, &desk->report) &&
	       (alone ? no_trouble(p, s->process) : check(p, p->m.touched)) && settle(p);
}

/* ---- Sequences ---- */

static bool begin(struct play *p, const struct sequence *s)
{
	struct board *b = p->f->board;

	model_init(&p->m, s->processes, worker_memory.slab_bytes, b->memory);
	p->m.carried = p->f->card_program;
	for (int i = 0; i < PROCESSES; i++) {
		for (int k = 0; k < QPS; k++)
			b->qpn[i][k] = NO_QPN;
		for (int k = 0; k < REGIONS; k++) {
			b->region[i][k].lkey = b->region[i][k].rkey = 0;
			b->region[i][k].base = (intptr_t)b->arena;
		}
	}
	if (!fleet_man(p->f, s->processes))
		return differ(p, "fork failed");
	for (int i = 0; i < s->processes; i++) {
		step_pattern(b->memory[i], ARENA_BYTES, (uint32_t)s->seed + (uint32_t)i);
		order_for(p, i, ORDER_BEGIN);
		if (!ask(p, i))
			return false;
	}
	return settle(p);
}

/* Destroys all objects, users before what they use. */
static bool end(struct play *p)
{
	static const struct {
		enum verb verb;
		int slots;
	} last[] = {
		{POLL_CQ, CQS},	     {GET_CQ_EVENTS, 1}, {GET_ASYNC_EVENTS, 1}, {DESTROY_QP, QPS},
		{DEREG_MR, REGIONS}, {DESTROY_CQ, CQS},	 {DESTROY_CHANNEL, 1},	{DEALLOC_PD, PDS},
	};

	if (!check(p, (1u << p->m.processes) - 1))
		return false;
	for (size_t i = 0; i < sizeof(last) / sizeof(*last); i++)
		for (int k = 0; k < last[i].slots * p->m.processes; k++) {
			struct step s = {.process = (uint8_t)(k % p->m.processes),
					 .verb = (uint8_t)last[i].verb,
					 .slot = (uint8_t)(k / p->m.processes),
					 .count = POLLS};

			if (model_possible(&p->m, &s) && !step(p, &s))
				return false;
		}
	return true;
}

bool drive_play(struct fleet *f, struct sequence *s, struct generator *g, int steps, char *why,
		size_t why_bytes, int *at)
{
	static struct play p;

	p.f = f;
	p.asleep = s->asleep;
	p.waited = 0;
	p.why = why;
	p.why_bytes = why_bytes;
	*at = 0;
	if (g)
		s->n = 0;
	if (!begin(&p, s))
		return false;
	for (; g ? *at < steps : *at < s->n; ++*at) {
		if (g)
			s->step[s->n++] = generate_step(g, &p.m);
		if (model_possible(&p.m, &s->step[*at]) && !step(&p, &s->step[*at]))
			return false;
	}
	f->played++;
	return end(&p);
}
