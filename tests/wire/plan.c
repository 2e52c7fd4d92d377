/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The model. Requests are carried out in their order; what has ended well is done, once, by then. READs
 * take from the lower half of memory, and what is written there behind them has a fence, so that the order
 * decides all bytes.
 */
#include "host.h"

#include <stdlib.h>
#include <string.h>

#include "../random.h"

static uint64_t below(uint64_t *seed, uint64_t limit)
{
	return splitmix64(seed) % limit;
}

/* ---- Making up ---- */

static enum weft_opcode some_opcode(uint64_t *seed)
{
	static const uint8_t opcodes[] = {
		WEFT_OP_WRITE,	      WEFT_OP_WRITE,	WEFT_OP_WRITE_IMM, WEFT_OP_SEND,
		WEFT_OP_SEND,	      WEFT_OP_READ,	WEFT_OP_READ,	   WEFT_OP_SEND_IMM,
		WEFT_OP_SEND_INV,     WEFT_OP_CMP_SWAP, WEFT_OP_READ,	   WEFT_OP_FETCH_ADD,
		WEFT_OP_ATOMIC_WRITE,
	};

	return opcodes[below(seed, sizeof(opcodes))];
}

/* Up to what a receive has room for. */
static uint64_t some_length(const struct game *g, uint64_t *seed)
{
	switch (below(seed, 6)) {
	case 0:
		return below(seed, 3);
	case 1:
		return below(seed, 40);
	case 2:
		return g->mtu * (1 + below(seed, g->receive_bytes / g->mtu - 1)) + below(seed, 5) -
		       2;
	case 3:
		return below(seed, g->receive_bytes + 1);
	default:
		return 1 + below(seed, g->mtu);
	}
}

static bool is_eight(enum weft_opcode opcode)
{
	return weft_op_is_atomic(opcode) || opcode == WEFT_OP_ATOMIC_WRITE;
}

static bool changes_memory(enum weft_opcode opcode)
{
	return opcode == WEFT_OP_WRITE || opcode == WEFT_OP_WRITE_IMM || is_eight(opcode);
}

/* Makes one thing of the request wrong. */
static void spoil(struct side *s, struct plan *p, uint64_t *seed)
{
	struct weft_roce_request *r = &p->request;
	bool remote = r->opcode == WEFT_OP_READ || changes_memory(r->opcode);

	if (!below(seed, 4)) {
		p->expect = WEFT_CAUSE_LOCAL_KEY;
	} else if (remote && r->length) {
		p->expect = WEFT_CAUSE_REMOTE_KEY;
		if (below(seed, 2))
			r->rkey ^= 1u << below(seed, 32);
		else
			r->remote_addr =
				TARGET_VA + TARGET_BYTES - r->length + 1 + below(seed, 100);
		if (is_eight(r->opcode) && r->rkey == TARGET_KEY && below(seed, 2)) {
			p->expect = WEFT_CAUSE_REMOTE_RIGHT;
			r->remote_addr = TARGET_VA + 1 + below(seed, 7);
		}
	} else if (r->opcode == WEFT_OP_SEND_INV) {
		p->expect = WEFT_CAUSE_REMOTE_KEY;
		r->imm++;
	}
}

static void make_up(struct side *s, uint64_t *seed, bool *read)
{
	struct plan *p = &s->plan[s->planned++];
	struct weft_roce_request *r = &p->request;
	uint32_t room;

	r->opcode = some_opcode(seed);
	r->length = is_eight(r->opcode) ? 8 : some_length(s->game, seed);
	r->solicited = below(seed, 2);
	r->imm = (uint32_t)splitmix64(seed);
	if (r->opcode == WEFT_OP_SEND_INV)
		r->imm = TARGET_KEY + 1;
	r->compare_add = below(seed, 3);
	r->swap = below(seed, 3);
	r->rkey = TARGET_KEY;
	room = (r->opcode == WEFT_OP_READ ? TARGET_BYTES / 2 : TARGET_BYTES) - (uint32_t)r->length;
	r->remote_addr =
		TARGET_VA + (is_eight(r->opcode) ? 8 * below(seed, room / 8) : below(seed, room));
	p->from = (uint32_t)below(seed, SOURCE_BYTES - r->length);
	p->consumes = !changes_memory(r->opcode) && r->opcode != WEFT_OP_READ;
	p->consumes |= r->opcode == WEFT_OP_WRITE_IMM;
	*read |= r->opcode == WEFT_OP_READ;
	r->fence = !below(seed, 10);
	if (changes_memory(r->opcode) && *read && r->remote_addr < TARGET_VA + TARGET_BYTES / 2)
		r->fence = true;
	if (r->fence && r->opcode != WEFT_OP_READ)
		*read = false;
	if (weft_op_fetches(r->opcode))
		p->land = calloc(1, r->length + 1);
	if (!below(seed, 200))
		spoil(s, p, seed);
}

void plan_fill(struct side *s, uint64_t *seed)
{
	uint64_t count = 1 + below(seed, REQUESTS);
	bool read = false;

	for (uint32_t i = 0; i < SOURCE_BYTES; i += 8)
		memcpy(s->bytes + i, (uint64_t[]){splitmix64(seed)}, 8);
	for (uint32_t i = 0; i < TARGET_BYTES; i += 8)
		memcpy(s->target + i, (uint64_t[]){splitmix64(seed) & 3}, 8);
	memcpy(s->expected, s->target, TARGET_BYTES);
	s->short_receive = below(seed, 40) ? RECEIVES : (uint32_t)below(seed, 10);
	while (count-- && s->planned < s->game->most)
		make_up(s, seed, &read);
}

/* ---- What must be ---- */

static uint32_t at_of(const struct plan *p)
{
	return (uint32_t)(p->request.remote_addr - TARGET_VA);
}

static void do_atomic(struct side *s, struct plan *p)
{
	uint8_t *at = s->peer->expected + at_of(p);
	uint64_t old, landed, new;

	memcpy(&old, at, 8);
	memcpy(&landed, p->land, 8);
	if (p->landed != 8 || landed != old)
		host_wrong(s->game, s, "an atomic operation brought a wrong value");
	new = p->request.opcode == WEFT_OP_FETCH_ADD ? old + p->request.compare_add
	      : old == p->request.compare_add	     ? p->request.swap
						     : old;
	memcpy(at, &new, 8);
}

static uint32_t consumers(const struct side *s, uint32_t below_position)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < below_position; i++)
		n += s->plan[i].consumes;
	return n;
}

static void done(struct side *s, struct plan *p)
{
	const struct weft_roce_request *r = &p->request;

	if (p->expect)
		host_wrong(s->game, s, "a request has ended well that must not");
	if (weft_op_is_atomic(r->opcode))
		do_atomic(s, p);
	else if (changes_memory(r->opcode))
		memcpy(s->peer->expected + at_of(p), s->bytes + p->from, r->length);
	if (r->opcode == WEFT_OP_READ &&
	    (p->landed != r->length || memcmp(p->land, s->peer->expected + at_of(p), r->length)))
		host_wrong(s->game, s, "a READ brought wrong bytes");
	if (consumers(s, s->ended + 1) > s->peer->completed)
		host_wrong(s->game, s, "a request has ended whose receive has not");
	s->ended++;
}

void plan_ended(struct side *s, uint32_t position, enum weft_cause cause)
{
	struct game *g = s->game;
	struct plan *p = &s->plan[position];
	bool may_be_silent = g->harsh || g->stops || s->peer->dead;

	if (position != s->ended || position >= s->posted || s->failed) {
		host_wrong(g, s, "requests end out of order");
		return;
	}
	if (!cause)
		done(s, p);
	else if (cause == WEFT_CAUSE_NO_ANSWER ? !may_be_silent
		 : cause == WEFT_CAUSE_NO_RECEIVE
			 ? !g->starving || !p->consumes
			 : p->expect != cause &&
				   !(cause == WEFT_CAUSE_REMOTE_RIGHT && p->consumes &&
				     consumers(s, position) == s->peer->short_receive))
		host_wrong(g, s, "a request has ended with a wrong cause");
}

static struct plan *consumer(struct side *s, uint32_t n)
{
	for (uint32_t i = 0; i < s->posted; i++)
		if (s->plan[i].consumes && !n--)
			return &s->plan[i];
	return NULL;
}

void plan_received(struct side *s, const struct weft_roce_received *what)
{
	struct plan *p = consumer(s->peer, s->completed);
	const struct weft_roce_request *r;
	bool by_write, inv;

	if (!p || s->completed >= s->receives) {
		host_wrong(s->game, s, "a message that nobody has sent");
		return;
	}
	r = &p->request;
	by_write = r->opcode == WEFT_OP_WRITE_IMM;
	inv = r->opcode == WEFT_OP_SEND_INV;
	if (what->cause) {
		if (what->cause != WEFT_CAUSE_OWN_RECEIVE_LENGTH ||
		    s->completed != s->short_receive)
			host_wrong(s->game, s, "a receive failed that must not");
		return;
	}
	if (what->bytes != r->length || what->by_write != by_write || what->with_inv != inv ||
	    what->with_imm != (by_write || r->opcode == WEFT_OP_SEND_IMM) ||
	    ((what->with_imm || inv) && what->imm != r->imm) || what->solicited != r->solicited)
		host_wrong(s->game, s, "a receive's completion is wrong");
	else if (memcmp(by_write ? s->target + at_of(p) : s->receive[s->completed],
			s->peer->bytes + p->from, r->length))
		host_wrong(s->game, s, "a message's bytes are wrong");
}

/* Bytes of requests that the responder may have carried out or not, since no answer came, are not compared. */
void plan_compare(struct side *s)
{
	const struct side *a = s->peer;
	bool refused = a->failed && a->cause != WEFT_CAUSE_NO_ANSWER;
	/* the bytes of a WRITE with immediate are placed before a receive is asked for */
	uint32_t end = !refused ? a->posted : a->ended + (a->cause == WEFT_CAUSE_NO_RECEIVE);

	for (uint32_t i = a->ended; i < end; i++)
		if (changes_memory(a->plan[i].request.opcode) && !a->plan[i].expect)
			memset(s->unknown + at_of(&a->plan[i]), 1, a->plan[i].request.length);
	for (uint32_t i = 0; i < TARGET_BYTES; i++)
		if (!s->unknown[i] && s->target[i] != s->expected[i]) {
			host_wrong(s->game, s, "memory is not what it must be");
			return;
		}
}
