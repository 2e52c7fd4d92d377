/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/verbs.h"

/* One that finds no room asks again when a quarter of the ring is free, and of those that may wait, three quarters. */
#define WORTH	    (WEFT_APE_VERBS_RING * 3 / 4)
#define WORTH_AHEAD (WEFT_APE_VERBS_AHEAD / 4)

static uint8_t *payload_at(const struct weft_ape_ni *c, const struct weft_ape_peer *p,
			   uint32_t number)
{
	size_t at = (size_t)(p - c->peer) * WEFT_APE_VERBS_RING + number % WEFT_APE_VERBS_RING;

	return c->verbs_memory + at * WEFT_APE_PAYLOAD_BYTES;
}

static uint32_t filled(const struct weft_ape_verbs *v)
{
	return v->written - v->done;
}

/* What was written and is not in the flow yet. */
static uint32_t ahead(const struct weft_ape_verbs *v)
{
	return v->written - v->cut;
}

static void let_ask_again(struct weft_ape_ni *c, struct weft_ape_verbs *v)
{
	if (!v->full || filled(v) > WORTH || ahead(v) > WORTH_AHEAD)
		return;
	v->full = false;
	c->verbs_room = true;
}

void weft_ape_verbs_begin(struct weft_ape_ni *c, uint8_t *memory)
{
	c->verbs_memory = memory;
}

/* ---- Acknowledgements that wait ---- */

static void enlist(struct weft_ape_ni *c, const struct weft_ape_verbs *v)
{
	c->verbs_waiting += ahead(v);
	c->quiet = false;
}

static void let_acks_go(struct weft_ape_ni *c, struct weft_ape_verbs *v)
{
	if (v->late.due_ns)
		enlist(c, v);
	v->late.due_ns = 0;
}

static bool may_wait(const struct weft_ape_ni *c, const struct weft_ape_verbs *v)
{
	return c->config.times.late_ns && weft_ape_late_may_wait(&v->late) &&
	       (v->late.due_ns || v->written == v->cut);
}

static void hold_ack(struct weft_ape_ni *c, struct weft_ape_verbs *v)
{
	if (!v->late.due_ns)
		v->late.due_ns = c->now_ns + c->config.times.late_ns;
	weft_ape_ni_wake(c, v->late.due_ns);
}

void weft_ape_verbs_came(struct weft_ape_ni *c, struct weft_ape_peer *p)
{
	p->verbs.late.came_ns = c->now_ns;
}

void weft_ape_verbs_timer(struct weft_ape_ni *c, struct weft_ape_peer *p)
{
	struct weft_ape_verbs *v = &p->verbs;

	if (weft_ape_late_is_over(&v->late, c->now_ns))
		enlist(c, v);
	else if (v->late.due_ns)
		weft_ape_ni_wake(c, v->late.due_ns);
}

/* ---- The ring ---- */

uint8_t *weft_ape_verbs_room(struct weft_ape_ni *c, struct weft_ape_coord to)
{
	struct weft_ape_peer *p;

	if (!c->verbs_memory || !weft_ape_lattice_has(&c->config.node.lattice, to))
		return NULL;
	p = weft_ape_ni_peer(c, to);
	if (!p)
		return NULL;
	if (filled(&p->verbs) < WEFT_APE_VERBS_RING && ahead(&p->verbs) < WEFT_APE_VERBS_AHEAD)
		return payload_at(c, p, p->verbs.written);
	let_acks_go(c, &p->verbs);
	/* until it is told: one that finds room meanwhile does not speak for those that found none */
	p->verbs.full = true;
	return NULL;
}

void weft_ape_verbs_put(struct weft_ape_ni *c, struct weft_ape_coord to, uint16_t bytes,
			enum weft_ape_verbs_kind kind, uint64_t now_ns)
{
	struct weft_ape_peer *p = weft_ape_ni_peer(c, to);
	struct weft_ape_verbs *v = &p->verbs;
	uint32_t number = v->written;
	bool waits;

	c->now_ns = now_ns;
	waits = kind == WEFT_APE_VERBS_ACK && may_wait(c, v);
	if (kind == WEFT_APE_VERBS_REQUEST)
		weft_ape_late_answer(&v->late, c->config.times.soon_ns, now_ns);
	if (!waits)
		let_acks_go(c, v);
	__builtin_memset(payload_at(c, p, number) + bytes, 0,
			 (WEFT_APE_WORD_BYTES - bytes % WEFT_APE_WORD_BYTES) % WEFT_APE_WORD_BYTES);
	v->bytes[number % WEFT_APE_VERBS_RING] = bytes;
	v->written++;
	if (waits) {
		hold_ack(c, v);
		return;
	}
	c->verbs_waiting++;
	c->quiet = false;
}

/* Pushes a packet into the flow; its channel says whether another is known to follow, for which the acknowledgement can wait. */
static void push(struct weft_ape_ni *c, struct weft_ape_peer *p)
{
	struct weft_ape_verbs *v = &p->verbs;
	struct weft_ape_slot slot = {
		.type = WEFT_APE_VERBS,
		.channel = ahead(v) == 1,
		.bytes = v->bytes[v->cut % WEFT_APE_VERBS_RING],
		.message = WEFT_APE_NO_MESSAGE,
		.from = v->cut % WEFT_APE_VERBS_RING,
	};

	weft_ape_flow_push(&p->flow[WEFT_APE_REQUESTS], &slot, c->now_ns);
	v->cut++;
	c->verbs_waiting--;
	let_ask_again(c, v);
}

bool weft_ape_verbs_cut(struct weft_ape_ni *c)
{
	unsigned int first = c->next_verbs % WEFT_APE_PEERS;

	for (uint64_t left = weft_ape_turned(c->peers, first); left && c->verbs_waiting;) {
		unsigned int which = (first + weft_ape_next_bit(&left)) % WEFT_APE_PEERS;
		struct weft_ape_peer *p = &c->peer[which];

		if (p->verbs.written == p->verbs.cut || p->verbs.late.due_ns ||
		    !weft_ape_flow_takes(&p->flow[WEFT_APE_REQUESTS]))
			continue;
		push(c, p);
		c->next_verbs = p - c->peer + 1;
		return true;
	}
	return false;
}

const uint8_t *weft_ape_verbs_payload(const struct weft_ape_ni *c, const struct weft_ape_peer *p,
				      const struct weft_ape_slot *slot)
{
	return payload_at(c, p, slot->from);
}

void weft_ape_verbs_acked(struct weft_ape_ni *c, struct weft_ape_peer *p, uint32_t from,
			  uint32_t count)
{
	struct weft_ape_flow *f = &p->flow[WEFT_APE_REQUESTS];

	/* one of them may just be on its way once more */
	weft_ape_node_keep(&c->node, p->port);
	for (uint32_t i = 0; i < count; i++)
		p->verbs.done +=
			weft_ape_flow_slot(f, weft_ape_seq_add(from, i))->type == WEFT_APE_VERBS;
	let_ask_again(c, &p->verbs);
}

void weft_ape_verbs_lost(struct weft_ape_ni *c, struct weft_ape_peer *p)
{
	struct weft_ape_verbs *v = &p->verbs;

	weft_ape_node_keep(&c->node, p->port);
	let_acks_go(c, v);
	c->verbs_waiting -= ahead(v);
	v->cut = v->done = v->written;
	let_ask_again(c, v);
}
