/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whole connections between two ends over a channel that loses, doubles, delays and reorders datagrams, each
 * by a seed: whatever is lost, both ends are told what has become of the connection, and nothing is left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cm/conn.h"

#define MSECOND	    1000000ull
#define ANSWER_CODE 14u /* 67 ms */
#define CM_RETRIES  15u
#define GAMES	    20000u
#define FLYING	    256u

struct flying {
	uint64_t at_ns; /* when it arrives; 0: the entry is free */
	int to;
	uint8_t wire[WEFT_MAD_BYTES];
};

struct end {
	struct weft_conn conn;
	bool listens; /* a passive end that has had no request yet */
	enum weft_conn_event told[8];
	uint32_t ntold;
	uint64_t acts_ns; /* when its program acts on the last event; 0: it has nothing to do */
	uint64_t quits_ns;
};

static struct game {
	uint32_t seed, random;
	uint32_t loss, doubling; /* percent */
	uint64_t now_ns;
	struct end end[2]; /* 0 is the active end, 1 the passive one */
	struct flying air[FLYING];
} game;

#define HOLD(what)                                                                                 \
	do {                                                                                       \
		if (!(what))                                                                       \
			fail_msg("seed %u: %s", game.seed, #what);                                 \
	} while (0)

static uint32_t random_below(uint32_t limit)
{
	game.random = game.random * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)game.random * limit >> 32);
}

static uint64_t soon(uint64_t most_ms)
{
	return game.now_ns + 1 + random_below((uint32_t)(most_ms * 1000)) * 1000ull;
}

static void launch(int to, const uint8_t wire[WEFT_MAD_BYTES])
{
	uint32_t copies = random_below(100) < game.loss ? 0 : 1;

	if (random_below(100) < game.doubling)
		copies++;
	for (struct flying *f = game.air; copies && f < game.air + FLYING; f++)
		if (!f->at_ns) {
			f->at_ns = soon(random_below(10) ? 2 : 200);
			f->to = to;
			memcpy(f->wire, wire, WEFT_MAD_BYTES);
			copies--;
		}
	HOLD(!copies);
}

/* What an end's program does about an event: it acts some time later, or, as a busy server may, too late for
 * the request. */
static void handle(int side, const struct weft_conn_out *out)
{
	struct end *e = &game.end[side];

	if (out->send)
		launch(!side, out->wire);
	if (out->event == WEFT_CONN_QUIET)
		return;
	HOLD(e->ntold < 8);
	e->told[e->ntold++] = out->event;
	if (out->event == WEFT_CONN_RESPONDED || out->event == WEFT_CONN_CLOSED)
		e->acts_ns = soon(100);
}

static void act(int side)
{
	struct weft_conn *c = &game.end[side].conn;
	struct weft_conn_out out = {.send = false};
	struct weft_mad mad = {.kind = WEFT_MAD_REP, .rep.qpn = 2};

	game.end[side].acts_ns = 0;
	if (c->state == WEFT_CONN_REQ_RCVD || c->state == WEFT_CONN_MRA_REQ_SENT) {
		if (random_below(10)) {
			HOLD(!weft_conn_accept(c, &mad, game.now_ns, &out));
		} else {
			mad = (struct weft_mad){.kind = WEFT_MAD_REJ};
			HOLD(!weft_conn_reject(c, &mad, game.now_ns, &out));
		}
	} else if (c->state == WEFT_CONN_REP_RCVD || c->state == WEFT_CONN_MRA_REP_SENT) {
		HOLD(!weft_conn_establish(c, &out));
		game.end[side].quits_ns = soon(300);
	} else if (c->state == WEFT_CONN_DREQ_RCVD) {
		HOLD(!weft_conn_disconnect(c, game.now_ns, &out));
	}
	handle(side, &out);
}

static void quit(int side)
{
	struct weft_conn_out out;

	game.end[side].quits_ns = 0;
	if (!weft_conn_disconnect(&game.end[side].conn, game.now_ns, &out))
		handle(side, &out);
}

/* A datagram arrives, at the end that it is for, as the agent would find it. */
static void arrive(struct flying *f)
{
	struct end *e = &game.end[f->to];
	struct weft_conn_out out;
	struct weft_mad mad;
	bool mine;

	f->at_ns = 0;
	HOLD(!weft_mad_decode(f->wire, WEFT_MAD_BYTES, &mad));
	if (mad.kind == WEFT_MAD_REQ && e->listens) {
		e->listens = false;
		HOLD(!weft_conn_requested(&e->conn, &mad));
		e->acts_ns = soon(100);
		return;
	}
	mine = e->conn.state != WEFT_CONN_IDLE &&
	       (mad.kind == WEFT_MAD_REQ || !mad.remote_id || mad.remote_id == e->conn.local_id);
	if (mine) {
		weft_conn_receive(&e->conn, &mad, game.now_ns, &out);
		handle(f->to, &out);
	} else if (weft_conn_answer_stray(&mad, &out)) {
		launch(!f->to, out.wire);
	}
}

/* ---- Time ---- */

static void sooner(uint64_t *next_ns, uint64_t at_ns)
{
	if (at_ns && at_ns < *next_ns)
		*next_ns = at_ns;
}

static void step(void)
{
	struct weft_conn_out out;

	for (struct flying *f = game.air; f < game.air + FLYING; f++)
		if (f->at_ns && f->at_ns <= game.now_ns)
			arrive(f);
	for (int side = 0; side < 2; side++) {
		struct end *e = &game.end[side];

		if (e->acts_ns && e->acts_ns <= game.now_ns)
			act(side);
		if (e->quits_ns && e->quits_ns <= game.now_ns)
			quit(side);
		if (e->conn.deadline_ns && e->conn.deadline_ns <= game.now_ns) {
			weft_conn_timer(&e->conn, game.now_ns, &out);
			handle(side, &out);
		}
	}
}

/* Lets the next thing happen. False: nothing is left to happen. */
static bool advance(void)
{
	uint64_t next_ns = UINT64_MAX;

	for (struct flying *f = game.air; f < game.air + FLYING; f++)
		sooner(&next_ns, f->at_ns);
	for (int side = 0; side < 2; side++) {
		sooner(&next_ns, game.end[side].acts_ns);
		sooner(&next_ns, game.end[side].quits_ns);
		sooner(&next_ns, game.end[side].conn.deadline_ns);
	}
	if (next_ns == UINT64_MAX)
		return false;
	if (next_ns > game.now_ns)
		game.now_ns = next_ns;
	return true;
}

static void play(uint32_t seed, uint32_t loss, uint32_t doubling)
{
	struct weft_mad mad = {.kind = WEFT_MAD_REQ,
			       .req = {.qpn = 1,
				       .remote_timeout = ANSWER_CODE,
				       .local_timeout = ANSWER_CODE,
				       .cm_retries = CM_RETRIES,
				       .path.ack_timeout = ANSWER_CODE}};
	struct weft_conn_out out;
	uint32_t steps = 0;

	memset(&game, 0, sizeof(game));
	game.seed = seed;
	game.random = seed * 2654435761u + 1;
	game.loss = loss;
	game.doubling = doubling;
	game.now_ns = 1000 * MSECOND;
	game.end[0].conn.local_id = 0x100;
	game.end[1].conn.local_id = 0x200;
	game.end[1].listens = true;
	HOLD(!weft_conn_connect(&game.end[0].conn, &mad, game.now_ns, &out));
	handle(0, &out);
	while (advance()) {
		step();
		HOLD(++steps < 10000);
	}
}

/* ---- The events that both ends got ---- */

static bool told(int side, const enum weft_conn_event *events, uint32_t n)
{
	return game.end[side].ntold == n &&
	       !memcmp(game.end[side].told, events, n * sizeof(*events));
}

#define TOLD(side, ...)                                                                            \
	told(side, (const enum weft_conn_event[]){__VA_ARGS__},                                    \
	     sizeof((const enum weft_conn_event[]){__VA_ARGS__}) / sizeof(enum weft_conn_event))

#define E(x) WEFT_CONN_##x

static void check_whole(void)
{
	HOLD(game.end[0].conn.state == WEFT_CONN_IDLE);
	HOLD(game.end[1].conn.state == WEFT_CONN_IDLE);
	if (TOLD(0, E(REJECTED))) {
		HOLD(!game.end[1].ntold);
		return;
	}
	HOLD(TOLD(0, E(RESPONDED), E(CLOSED), E(RELEASED)));
	/* the RTU may be lost, as any later message tells the same */
	HOLD(TOLD(1, E(OPEN), E(CLOSED), E(RELEASED)) || TOLD(1, E(CLOSED), E(RELEASED)));
}

/* The passive end may get no message any more, and not be told of the disconnection: then only the active end
 * knows of it. */
static bool is_left_alone(void)
{
	return game.end[1].conn.state == WEFT_CONN_ESTABLISHED &&
	       TOLD(0, E(RESPONDED), E(CLOSED), E(RELEASED));
}

static void check_broken(void)
{
	HOLD(game.end[0].conn.state == WEFT_CONN_IDLE && game.end[0].ntold);
	HOLD(game.end[1].conn.state == WEFT_CONN_IDLE || is_left_alone());
	for (int side = 0; side < 2; side++) {
		struct end *e = &game.end[side];
		enum weft_conn_event last = e->ntold ? e->told[e->ntold - 1] : WEFT_CONN_QUIET;

		HOLD(!e->conn.deadline_ns);
		/* the last event of an end is never one that asks its program to act, and only an end that is
		 * left alone stays open */
		HOLD(last != WEFT_CONN_RESPONDED && last != WEFT_CONN_CLOSED);
		HOLD(last != WEFT_CONN_OPEN || is_left_alone());
	}
}

static void rarely_lost(void **state)
{
	for (uint32_t seed = 0; seed < GAMES; seed++) {
		play(seed, 20, 20);
		check_whole();
	}
}

static void mostly_lost(void **state)
{
	for (uint32_t seed = 0; seed < GAMES; seed++) {
		play(seed, 85, 5);
		check_broken();
	}
}

static void never_lost(void **state)
{
	for (uint32_t seed = 0; seed < GAMES; seed++) {
		play(seed, 0, 0);
		check_whole();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_lost),
		cmocka_unit_test(rarely_lost),
		cmocka_unit_test(mostly_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
