/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static struct weft_roce_icrc icrc;

static struct side *side_of(struct weft_roce_qp *qp)
{
	return (struct side *)qp;
}

void host_wrong(struct game *g, const struct side *s, const char *what)
{
	if (g->wrong)
		return;
	g->wrong = what;
	snprintf(g->where, sizeof(g->where), "QP %#x at %.3f ms: %s", s->qp.config.qpn,
		 (double)g->sim.now_ns / 1e6, what);
}

/* Whether the world answers now, as it does now and then, that nothing can be done at the moment. */
static bool later(struct side *s)
{
	return s->game->later && !weft_sim_below(&s->game->sim, 50);
}

static struct memory memory_of(struct side *s)
{
	const uint8_t all =
		WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_ATOMIC;

	return (struct memory){s->target, TARGET_BYTES, TARGET_VA, TARGET_KEY, all, all};
}

/* ---- Sending ---- */

static int gather(struct side *s, const struct weft_roce_bytes *bytes, uint8_t *to, uint32_t n)
{
	const struct memory memory = memory_of(s);
	const struct plan *p;

	switch (bytes->from) {
	case WEFT_ROCE_NO_BYTES:
		if (n)
			host_wrong(s->game, s, "bytes of nowhere");
		return 0;
	case WEFT_ROCE_OF_REQUEST:
		p = &s->plan[bytes->position];
		if (bytes->position >= s->posted || bytes->offset + n > p->request.length) {
			host_wrong(s->game, s, "bytes behind a request's");
			return 0;
		}
		memcpy(to, s->bytes + p->from + bytes->offset, n);
		return 0;
	case WEFT_ROCE_OF_MEMORY:
		return memory_gather(&memory, bytes->rkey, bytes->va, to, n);
	}
	return 0;
}

static int send(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		const struct weft_roce_bytes *bytes)
{
	struct side *s = side_of(qp);
	uint8_t at[SEALED_BYTES];
	int answer;
	uint32_t crc;
	size_t n;

	if (later(s))
		return WEFT_ROCE_LATER;
	answer = gather(s, bytes, seal_begin(packet, at), packet->payload_bytes);
	if (answer)
		return answer;
	if (s->game->counts)
		s->id++;
	n = seal_end(&icrc, &qp->config.route, s->id, packet, at, &crc);
	s->game->trace = s->game->trace * 1099511628211ull + (s->game->sim.now_ns ^ crc);
	if (s->game->tap)
		s->game->tap(s->game, s, s->id, at, n);
	weft_sim_wire_send(s->out, at, n);
	return 0;
}

/* ---- The requester's side ---- */

static int check(struct weft_roce_qp *qp, uint64_t position)
{
	enum weft_cause cause = side_of(qp)->plan[position].expect;

	return cause == WEFT_CAUSE_LOCAL_KEY ? cause : 0;
}

static int fetched(struct weft_roce_qp *qp, uint64_t position, uint64_t offset, const uint8_t *from,
		   uint32_t bytes)
{
	struct side *s = side_of(qp);
	struct plan *p = &s->plan[position];

	if (later(s))
		return WEFT_ROCE_LATER;
	if (offset != p->landed || offset + bytes > p->request.length || !p->land) {
		host_wrong(s->game, s, "fetched bytes out of place");
		return 0;
	}
	memcpy(p->land + offset, from, bytes);
	p->landed += bytes;
	return 0;
}

static void ended(struct weft_roce_qp *qp, uint64_t position, enum weft_cause cause)
{
	struct side *s = side_of(qp);

	plan_ended(s, (uint32_t)position, cause);
	if (cause) {
		s->failed = s->dead = true;
		s->cause = cause;
		s->failed_ns = s->game->sim.now_ns;
	}
}

/* ---- The responder's side ---- */

static int allows(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, uint64_t bytes,
		  uint8_t access)
{
	const struct memory memory = memory_of(side_of(qp));

	return memory_allows(&memory, rkey, va, bytes, access);
}

static int place(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *from,
		 uint32_t bytes)
{
	const struct memory memory = memory_of(side_of(qp));

	return later(side_of(qp)) ? WEFT_ROCE_LATER : memory_place(&memory, rkey, va, from, bytes);
}

static int atomic(struct weft_roce_qp *qp, const struct weft_roce_packet *request, uint64_t *old)
{
	const struct memory memory = memory_of(side_of(qp));

	if (later(side_of(qp)))
		return WEFT_ROCE_LATER;
	memory_atomic(&memory, request, old);
	return 0;
}

static int take(struct weft_roce_qp *qp)
{
	struct side *s = side_of(qp);

	if (s->taken == s->receives)
		return WEFT_ROCE_NO_RECEIVE;
	if (s->taken != s->completed)
		host_wrong(s->game, s, "two receives taken at once");
	s->taken++;
	s->filled = 0;
	return 0;
}

static int fill(struct weft_roce_qp *qp, uint64_t offset, const uint8_t *from, uint32_t bytes)
{
	struct side *s = side_of(qp);
	uint64_t room = s->completed == s->short_receive ? 0 : s->game->receive_bytes;

	if (later(s))
		return WEFT_ROCE_LATER;
	if (offset + bytes > room)
		return WEFT_CAUSE_RECEIVE_LENGTH;
	memcpy(s->receive[s->completed] + offset, from, bytes);
	return 0;
}

static int end_key(struct weft_roce_qp *qp, uint32_t key)
{
	return key == TARGET_KEY + 1 ? 0 : WEFT_CAUSE_REMOTE_INVALIDATE;
}

static void received(struct weft_roce_qp *qp, const struct weft_roce_received *what)
{
	struct side *s = side_of(qp);

	plan_received(s, what);
	s->completed++;
	s->taken = s->completed;
}

static void event(struct weft_roce_qp *qp, enum weft_event event)
{
	if (event != WEFT_EVENT_COMM_EST)
		side_of(qp)->dead = true;
}

const struct weft_roce_world host_world = {
	.send = send,
	.check = check,
	.fetched = fetched,
	.ended = ended,
	.allows = allows,
	.place = place,
	.atomic = atomic,
	.take = take,
	.fill = fill,
	.end_key = end_key,
	.received = received,
	.event = event,
};

/* ---- Events ---- */

static void timer(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct side *s = (struct side *)((uint8_t *)event - offsetof(struct side, timer));

	if (!s->dead)
		weft_roce_timer(&s->qp, sim->now_ns);
	host_stir(s);
}

static void run(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct side *s = (struct side *)((uint8_t *)event - offsetof(struct side, run));
	bool more = !s->dead &&
		    weft_roce_run(&s->qp, 1 + (uint32_t)weft_sim_below(sim, 16), sim->now_ns);

	if (s->dead)
		return;
	if (more || s->game->later)
		weft_sim_at(sim, &s->run, sim->now_ns + (more ? 100 : 20000));
	weft_sim_cancel(sim, &s->timer);
	if (s->qp.deadline_ns)
		weft_sim_at(sim, &s->timer, s->qp.deadline_ns);
}

void host_stir(struct side *s)
{
	if (s->dead)
		return;
	if (!weft_sim_is_set(&s->run) || s->run.at_ns > s->game->sim.now_ns + 200)
		weft_sim_at(&s->game->sim, &s->run, s->game->sim.now_ns + 200);
}

static void post(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct side *s = (struct side *)((uint8_t *)event - offsetof(struct side, post));
	uint64_t batch = 1 + weft_sim_below(sim, 4);

	while (batch-- && s->posted < s->planned && !s->dead &&
	       !weft_roce_post(&s->qp, &s->plan[s->posted].request))
		s->posted++;
	host_stir(s);
	if (s->posted < s->planned && !s->dead)
		weft_sim_at(sim, &s->post, sim->now_ns + weft_sim_below(sim, 30000));
}

static void give(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct side *s = (struct side *)((uint8_t *)event - offsetof(struct side, give));
	uint64_t batch = 1 + weft_sim_below(sim, 6);

	while (batch-- && s->receives < RECEIVES && !s->game->starving)
		s->receives++;
	if (s->receives < RECEIVES)
		weft_sim_at(sim, &s->give, sim->now_ns + weft_sim_below(sim, 100000));
}

static void deliver(struct weft_sim_wire *wire, uint8_t *at, size_t bytes)
{
	struct game *g = wire->user;
	struct side *sides = g->side[wire == &g->wire[0]];
	struct weft_roce_arrival arrival = {.udp_bytes = (uint16_t)bytes};
	struct weft_roce_packet packet;

	if (weft_roce_parse(at, bytes, &packet))
		return;
	for (uint32_t i = 0; i < g->pairs; i++) {
		struct side *s = &sides[i];

		if (s->qp.config.qpn != packet.dest_qpn)
			continue;
		arrival.route = s->peer->qp.config.route;
		if (weft_roce_icrc_check(&icrc, &s->source, &arrival.route, at, bytes, 0,
					 g->sim.now_ns, g->sim.now_ns,
					 &arrival.id) == WEFT_ROCE_ICRC_WRONG ||
		    s->dead)
			return;
		weft_roce_receive(&s->qp, &arrival, &packet, g->sim.now_ns);
		host_stir(s);
	}
}

/* ---- Beginning and end ---- */

void host_begin(struct game *g)
{
	if (!icrc.math)
		weft_roce_icrc_init(&icrc, &plain_math);
	for (int i = 0; i < 2; i++) {
		g->wire[i].sim = &g->sim;
		g->wire[i].deliver = deliver;
		g->wire[i].user = g;
	}
}

void host_connect(struct game *g, uint32_t pair, const struct weft_roce_config *config)
{
	for (int i = 0; i < 2; i++) {
		struct side *s = &g->side[i][pair];

		s->qp.world = &host_world;
		s->qp.config = config[i];
		s->game = g;
		s->peer = &g->side[!i][pair];
		s->out = &g->wire[i];
		s->timer.happen = timer;
		s->run.happen = run;
		s->post.happen = post;
		s->give.happen = give;
		for (uint32_t r = 0; r < RECEIVES; r++)
			s->receive[r] = malloc(g->receive_bytes);
		weft_roce_open(&s->qp, s->ring, RING);
		weft_sim_at(&g->sim, &s->post, weft_sim_below(&g->sim, 20000));
		weft_sim_at(&g->sim, &s->give, weft_sim_below(&g->sim, 20000));
	}
}

void host_end(struct game *g)
{
	for (int i = 0; i < 2; i++) {
		weft_sim_wire_end(&g->wire[i]);
		for (uint32_t p = 0; p < g->pairs; p++) {
			for (uint32_t r = 0; r < RECEIVES; r++)
				free(g->side[i][p].receive[r]);
			for (uint32_t n = 0; n < g->side[i][p].planned; n++)
				free(g->side[i][p].plan[n].land);
		}
	}
	weft_sim_end(&g->sim);
}
