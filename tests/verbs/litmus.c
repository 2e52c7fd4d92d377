/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "litmus.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define PATIENCE_NS 10000000000ull
#define SOURCE_AT   600000u /* offset in pooled memory, away from what the peer writes */
#define FLAG_AT	    16384u
#define STOP	    255u
#define NOTHING	    (-2)
#define VERB	    (-3)
#define RECEIVES    16

struct player {
	struct end *end;
	const struct litmus *game;
	uint8_t *source;
	const uint8_t *target;
	const _Atomic uint64_t *flag;
	uint64_t written, flags_seen;
	unsigned int unsignaled, to_poll;
	int64_t wrong_at;
};

/* ---- Writing ---- */

static struct ibv_send_wr request(const struct player *p, enum ibv_wr_opcode opcode,
				  struct ibv_sge *sge, uint32_t at)
{
	const struct buffer *peer = &p->end->peer[p->game->kind];
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = sge ? 1 : 0};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = peer->at + at;
		wr.wr.atomic.rkey = peer->key;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = peer->at + at;
		wr.wr.rdma.rkey = peer->key;
	}
	return wr;
}

static enum ibv_wr_opcode second_of(enum litmus_way way)
{
	return way == LITMUS_IMM     ? IBV_WR_RDMA_WRITE_WITH_IMM
	       : way == LITMUS_WRITE ? IBV_WR_RDMA_WRITE
	       : way == LITMUS_ADD   ? IBV_WR_ATOMIC_FETCH_AND_ADD
				     : IBV_WR_SEND;
}

static bool write_round(struct player *p, uint8_t value)
{
	const struct buffer *mine = &p->end->buffer[KIND_POOLED];
	uint64_t from = (uintptr_t)p->source, number = ++p->written;
	struct ibv_sge data = {from, p->game->bytes, mine->key};
	struct ibv_sge word = {from + FLAG_AT, 8, mine->key};
	struct ibv_send_wr wr[2], *last = wr, *bad;

	memset(p->source, value, p->game->bytes);
	memcpy(p->source + FLAG_AT, &number, 8);
	wr[0] = request(p, IBV_WR_RDMA_WRITE, &data, p->game->at);
	if (p->game->way != LITMUS_LAST_BYTE) {
		bool bare = p->game->way == LITMUS_SEND;

		/* the flag lies at an address that is a multiple of 8, wherever the memory of this kind
		 * begins */
		wr[1] = request(p, second_of(p->game->way), bare ? NULL : &word,
				FLAG_AT + (uint32_t)(-p->end->peer[p->game->kind].at & 7));
		wr[0].next = last = &wr[1];
	}
	if (++p->unsignaled == 16) {
		last->send_flags = IBV_SEND_SIGNALED;
		p->unsignaled = 0;
	}
	return !ibv_post_send(p->end->qp, wr, &bad);
}

/* ---- Reading ---- */

static bool post_receive(struct player *p)
{
	return !rig_receive(p->end->qp, 0, NULL, NULL, 0);
}

/* Whether a receive has completed. Other completions only free their slots. */
static bool received(struct player *p)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(p->end->cq, 1, &wc) == 1) {
		if (wc.status) {
			p->wrong_at = VERB - (int64_t)wc.status;
			return true;
		}
		if (wc.opcode & IBV_WC_RECV) {
			if (!post_receive(p))
				p->wrong_at = VERB;
			return true;
		}
	}
	return false;
}

static bool arrived(struct player *p, uint8_t value)
{
	const _Atomic uint8_t *last = (const _Atomic uint8_t *)&p->target[p->game->bytes - 1];
	uint8_t seen;

	switch (p->game->way) {
	case LITMUS_LAST_BYTE:
		if (++p->to_poll % 8 == 0)
			/* polled, so that the send queue has room for the next requests */
			received(p);
		seen = atomic_load_explicit(last, memory_order_acquire);
		return seen == value || seen == STOP;
	case LITMUS_SEND:
	case LITMUS_IMM:
		return received(p);
	case LITMUS_WRITE:
	case LITMUS_ADD:
		if (++p->to_poll % 8 == 0)
			received(p);
		return atomic_load_explicit(p->flag, memory_order_acquire) > p->flags_seen;
	case LITMUS_WAYS:
		break;
	}
	return true;
}

/* The value that has arrived, in all bytes. 0: a byte is wrong, or nothing has arrived in time. */
static uint8_t read_round(struct player *p, uint8_t value)
{
	uint64_t deadline = 0;

	for (unsigned int spins = 1; !arrived(p, value); spins++) {
		if (spins % 4096)
			continue;
		sched_yield();
		deadline = deadline ? deadline : rig_now_ns() + PATIENCE_NS;
		if (rig_now_ns() > deadline) {
			p->wrong_at = NOTHING;
			return 0;
		}
	}
	p->flags_seen++;
	if (p->wrong_at != -1)
		return 0;
	if (p->target[p->game->bytes - 1] == STOP)
		value = STOP;
	for (uint32_t i = 0; i < p->game->bytes; i++)
		if (p->target[i] != value) {
			p->wrong_at = i;
			return 0;
		}
	return value;
}

static void begin(struct player *p, struct end *end, const struct litmus *game)
{
	uint8_t *at = (uint8_t *)(uintptr_t)end->buffer[game->kind].at;

	*p = (struct player){.end = end, .game = game, .wrong_at = -1};
	/* the first round's completion frees the slots that an earlier game has left */
	p->unsignaled = 15;
	p->source = (uint8_t *)(uintptr_t)end->buffer[KIND_POOLED].at + SOURCE_AT;
	p->target = at + game->at;
	p->flag = (const _Atomic uint64_t *)(at + FLAG_AT + (-(uintptr_t)at & 7));
}

struct litmus_result litmus_play(struct end *end, const struct litmus *game, bool serves)
{
	uint64_t end_ns = rig_now_ns() + game->budget_ns, round = 0;
	struct player p;
	uint8_t value = 0, got;

	begin(&p, end, game);
	do {
		round++;
		value = (uint8_t)(1 + round % 250);
		if (serves && round % 64 == 0 && rig_now_ns() > end_ns)
			value = STOP;
		if (serves && !write_round(&p, value))
			p.wrong_at = VERB;
		got = value;
		if (!serves || value != STOP)
			got = read_round(&p, value);
		if (got && !serves && got != STOP && !write_round(&p, got))
			p.wrong_at = VERB;
	} while (got && got != STOP && p.wrong_at == -1);
	return (struct litmus_result){round, p.wrong_at};
}

/* ---- Both ends ---- */

struct other {
	struct end *end;
	const struct litmus *game;
	struct litmus_result result;
};

static void *play_other(void *other)
{
	struct other *o = other;

	o->result = litmus_play(o->end, o->game, false);
	return NULL;
}

static void clean_memory(struct end *near, struct peer *peer, enum kind kind)
{
	static const uint8_t zeroes[FLAG_AT + 64];

	memset((void *)(uintptr_t)near->buffer[kind].at, 0, sizeof(zeroes));
	peer_put(peer, peer->buffer[kind].at, zeroes, sizeof(zeroes));
}

void litmus_receives(struct end *near, struct peer *peer)
{
	struct ibv_sge none = {0};

	for (int i = 0; i < RECEIVES; i++) {
		assert_int_equal(rig_receive(near->qp, 0, NULL, NULL, 0), 0);
		peer_receive(peer, 0, &none, 0);
	}
}

uint64_t litmus_run(struct end *near, struct peer *peer, const struct litmus *game)
{
	struct other other = {peer->here, game, {0}};
	struct litmus_result result;
	pthread_t thread = pthread_self();

	clean_memory(near, peer, game->kind);
	if (peer->here)
		assert_int_equal(pthread_create(&thread, NULL, play_other, &other), 0);
	else
		peer_begin_litmus(peer, game);
	result = litmus_play(near, game, true);
	if (peer->here)
		pthread_join(thread, NULL);
	else
		other.result = peer_end_litmus(peer);
	if (result.wrong_at != -1 || other.result.wrong_at != -1)
		fail_msg("way %d, %s, %u bytes at %u, round %lu: wrong at %ld here, %ld there",
			 game->way, kind_name[game->kind], game->bytes, game->at,
			 (unsigned long)result.rounds, (long)result.wrong_at,
			 (long)other.result.wrong_at);
	return result.rounds;
}
