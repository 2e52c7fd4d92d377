/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `test-soak [REQUESTS [SEED]]`: so many requests over several queue pairs, signaled or not, while these are
 * reset, failed, drained and destroyed with requests under way, completion queues are resized, and regions
 * are deregistered. Each signaled request completes once and in order, or is purged; a drained queue has
 * completed everything; and no byte changes once a deregistration has returned. This runs once with the card
 * in this process, where the seed decides all that happens, and once with a card in another process.
 */
#include "../nic/ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "courier.h"
#include "nic/cq.h"
#include "nic/mr.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "pool/clock.h"
#include "pool/sge.h"
#include "process.h"
#include "transport/registry.h"

#define PAIRS	    6u
#define QUEUES	    2u
#define DEPTH	    16u
#define MEMORY	    65536u
#define MOST_BYTES  50000u
#define FEW_BYTES   3000u
#define CQE	    (2 * PAIRS * DEPTH)
#define PATIENCE_NS 60000000000ull

static struct pair {
	struct end near, peer;
	uint8_t number, generation; /* both are in each wr_id */
	uint64_t posted, told;	    /* positions before `told` have completed, or need not */
	uint64_t signaled;	    /* the position behind the last signaled request */
	bool is_signaled[2 * DEPTH];
	bool failed;
	enum weft_wc_status may_fail; /* the status that the first failing request must have */
} pairs[PAIRS];

static struct weft_cq cqs[QUEUES];
static struct courier courier;
static struct card_process card;
static bool is_here; /* whether the card is in this process */
static uint64_t requests = 20000, seed = 1, random_state;
static uint64_t done[8]; /* how often each kind of disturbance was made */

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

/* ---- Completions ---- */

static void check_told(const struct weft_wc *wc)
{
	struct pair *p = &pairs[wc->wr_id >> 56];
	uint64_t position = wc->wr_id & 0xffffffffffff;

	assert_int_equal(wc->wr_id >> 48 & 0xff, p->generation);
	assert_in_range(position, p->told, p->posted - 1);
	for (; p->told < position; p->told++)
		assert_false(p->failed || p->is_signaled[p->told % (2 * DEPTH)]);
	p->told++;
	if (p->failed) {
		assert_int_equal(wc->status, WEFT_WC_WR_FLUSH_ERR);
	} else if (wc->status) {
		assert_int_equal(wc->status, p->may_fail);
		p->failed = true;
	} else {
		assert_true(p->is_signaled[position % (2 * DEPTH)]);
	}
}

static void take_all(void)
{
	struct weft_wc wc;

	for (uint32_t i = 0; i < QUEUES; i++)
		while (weft_cq_poll(&cqs[i], 1, &wc, 0))
			check_told(&wc);
}

static bool all_told(const struct pair *p)
{
	return p->told >= (p->failed ? p->posted : p->signaled);
}

/* The card makes some steps; a card in another process has the time to. */
static void turn(uint64_t steps)
{
	world.now_ns = weft_clock_now_ns();
	for (uint64_t i = 0; is_here && i < steps; i++)
		courier_step(&courier, world.now_ns);
	if (!is_here)
		usleep(draw(50));
	world_look();
}

static void await_told(struct pair *p)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;

	for (take_all(); !all_told(p); take_all()) {
		assert_true(weft_clock_now_ns() < until_ns);
		turn(1);
	}
}

/* ---- Making ---- */

static void make(struct pair *p, struct end *e)
{
	struct weft_qp_cap cap = {
		.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
	struct weft_cq *cq = &cqs[p->number % QUEUES];

	memset(&e->qp, 0, sizeof(e->qp));
	assert_int_equal(
		weft_qp_create(&world.nic, &e->qp, WEFT_QPT_RC, ENDS_PD, cq, cq, NULL, &cap, false),
		0);
}

static void connect_both(struct pair *p)
{
	ends_connect(&p->near, &p->peer);
	ends_connect(&p->peer, &p->near);
	assert_string_equal(p->near.qp.transport->name, "handed");
	p->generation++;
	p->posted = p->told = p->signaled = 0;
	p->failed = false;
	p->may_fail = WEFT_WC_SUCCESS;
}

static void reset_both(struct pair *p)
{
	ends_modify(&p->near, WEFT_QPS_RESET, &p->peer);
	ends_modify(&p->peer, WEFT_QPS_RESET, &p->near);
}

/* ---- Requests, and what disturbs them ---- */

static bool post_of(struct pair *p, uint64_t most_bytes)
{
	static const enum weft_opcode opcodes[] = {WEFT_OP_WRITE, WEFT_OP_WRITE, WEFT_OP_READ,
						   WEFT_OP_FETCH_ADD};
	enum weft_opcode opcode = opcodes[draw(4)];
	bool atomic = opcode == WEFT_OP_FETCH_ADD;
	struct weft_wqe *wqe = weft_sq_next(&p->near.qp);
	bool signaled = draw(2) || p->posted - p->signaled >= DEPTH / 2;
	uint64_t at = draw(MEMORY - MOST_BYTES) & ~7ull;

	if (!wqe)
		return false;
	*wqe = (struct weft_wqe){.wr_id = (uint64_t)p->number << 56 |
					  (uint64_t)p->generation << 48 | p->posted,
				 .opcode = (uint8_t)opcode,
				 .flags = signaled ? WEFT_SEND_SIGNALED : 0,
				 .num_sge = 1,
				 .remote_addr = (uintptr_t)p->peer.memory + at,
				 .rkey = p->peer.mr.key,
				 .compare_add = 1};
	wqe->sge[0] =
		(struct weft_pool_sge){(uintptr_t)p->near.memory + at,
				       atomic ? 8 : 1 + (uint32_t)draw(most_bytes), p->near.mr.key};
	p->is_signaled[p->posted++ % (2 * DEPTH)] = signaled;
	if (signaled)
		p->signaled = p->posted;
	weft_sq_submit(&p->near.qp, wqe, &world.caller);
	return true;
}

static bool post(struct pair *p)
{
	return post_of(p, draw(16) ? FEW_BYTES : MOST_BYTES);
}

static void reset_in_flight(struct pair *p)
{
	reset_both(p);
	connect_both(p);
}

static void fail_in_flight(struct pair *p)
{
	p->may_fail = WEFT_WC_WR_FLUSH_ERR;
	take_all();
	ends_modify(&p->near, WEFT_QPS_ERR, &p->peer);
	/* requests that have not ended complete soon, signaled or not */
	await_told(p);
	reset_in_flight(p);
}

static void destroy_in_flight(struct pair *p)
{
	weft_qp_destroy(&p->near.qp);
	make(p, &p->near);
	ends_modify(&p->peer, WEFT_QPS_RESET, &p->near);
	connect_both(p);
}

/* When the event comes all requests have ended and their completions can be polled: nothing is done between
 * the event and the look. */
static void drain_in_flight(struct pair *p)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;

	world.drained_events = 0;
	ends_modify(&p->near, WEFT_QPS_SQD, &p->peer);
	while (!world.drained_events) {
		assert_true(weft_clock_now_ns() < until_ns);
		turn(1);
	}
	assert_int_equal(p->near.qp.under_way, 0);
	take_all();
	assert_true(all_told(p));
	ends_modify(&p->near, WEFT_QPS_RTS, &p->peer);
	turn(1);
	assert_int_equal(world.drained_events, 1);
}

static void resize(struct pair *p)
{
	assert_int_equal(weft_cq_resize(&cqs[p->number % QUEUES], CQE + (uint32_t)draw(CQE)), 0);
}

static void make_region(struct end *e)
{
	struct weft_mr_piece piece = {(uintptr_t)e->memory, MEMORY, e->off};

	memset(&e->mr, 0, sizeof(e->mr));
	e->mr.nic = &world.nic;
	assert_int_equal(weft_mr_create(&world.nic, &e->mr,
					&(struct weft_mr_drawing){.pd = ENDS_PD,
								  .access = 15,
								  .iova = piece.va,
								  .va = piece.va,
								  .len_bytes = MEMORY,
								  .pieces = &piece,
								  .npieces = 1}),
			 0);
}

static void make_memory(struct end *e)
{
	assert_int_equal(weft_pool_extent_alloc(world.pool, MEMORY, &e->off), 0);
	e->memory = weft_pool_populate(world.pool, e->off, MEMORY);
	assert_non_null(e->memory);
	make_region(e);
}

/* Posts requests and waits until the card is probably in the midst of the second. */
static void be_caught_there(struct pair *p)
{
	uint64_t until_ns = weft_clock_now_ns() + 2000000, before = p->posted;

	for (int i = 0; i < 4; i++)
		post_of(p, MOST_BYTES);
	if (is_here)
		turn(draw(8));
	while (!is_here && p->told <= before && weft_clock_now_ns() < until_ns)
		take_all();
	for (until_ns = weft_clock_now_ns() + draw(5000); weft_clock_now_ns() < until_ns;)
		;
}

static void deregister(struct pair *p, struct end *e)
{
	be_caught_there(p);
	p->may_fail = e == &p->peer ? WEFT_WC_REM_ACCESS_ERR : WEFT_WC_LOC_PROT_ERR;
	ends_revoke(e);
	/* from the end of the memory, ahead of an executor that still writes there */
	for (uint32_t at = MEMORY; at; at -= 512)
		memset(e->memory + at - 512, 'p', 512);
	post(p);
	await_told(p);
	turn(20);
	for (uint32_t i = 0; i < MEMORY; i++)
		if (e->memory[i] != 'p')
			fail_msg("byte %u has changed", i);
	make_region(e);
	reset_in_flight(p);
}

static void act(struct pair *p)
{
	uint64_t what = draw(2000);

	if (what >= 24) {
		post(p);
		return;
	}
	done[what / 2 < 5 ? what / 2 : 5]++;
	switch (what / 2) {
	case 0:
		reset_in_flight(p);
		break;
	case 1:
		fail_in_flight(p);
		break;
	case 2:
		destroy_in_flight(p);
		break;
	case 3:
		drain_in_flight(p);
		break;
	case 4:
		resize(p);
		break;
	default:
		deregister(p, draw(2) ? &p->near : &p->peer);
		break;
	}
}

/* ---- The whole run ---- */

static void open_all(void)
{
	world.nic.transports = weft_transports;
	memset(cqs, 0, sizeof(cqs));
	memset(pairs, 0, sizeof(pairs));
	for (uint32_t i = 0; i < QUEUES; i++)
		assert_int_equal(weft_cq_create(&world.nic, &cqs[i], CQE), 0);
	for (uint8_t i = 0; i < PAIRS; i++) {
		pairs[i].number = i;
		make_memory(&pairs[i].near);
		make_memory(&pairs[i].peer);
		make(&pairs[i], &pairs[i].near);
		make(&pairs[i], &pairs[i].peer);
		connect_both(&pairs[i]);
	}
}

static void close_end(struct end *e)
{
	ends_destroy(e);
	ends_revoke(e);
	weft_pool_extent_free(world.pool, e->off, MEMORY);
}

static void close_all(void)
{
	for (uint32_t i = 0; i < PAIRS; i++) {
		await_told(&pairs[i]);
		close_end(&pairs[i].near);
		close_end(&pairs[i].peer);
	}
	for (uint32_t i = 0; i < QUEUES; i++)
		weft_cq_destroy(&cqs[i]);
}

static void soak(void)
{
	uint64_t posted = 0, before;

	memset(done, 0, sizeof(done));
	random_state = seed * 2654435761u | 1;
	open_all();
	while (posted < requests) {
		struct pair *p = &pairs[draw(PAIRS)];

		before = p->posted;
		act(p);
		posted += p->posted > before ? p->posted - before : 0;
		if (!draw(is_here ? 2 : 8))
			turn(draw(12));
		if (!draw(4))
			take_all();
	}
	close_all();
	print_message("seed %lu: %lu requests", (unsigned long)seed, (unsigned long)posted);
	for (int i = 0; i < 6; i++) {
		print_message(", %lu", (unsigned long)done[i]);
		assert_true(done[i]);
	}
	print_message(" of each disturbance\n");
}

static void with_card_here(void **state)
{
	is_here = true;
	memset(&courier, 0, sizeof(courier));
	courier.random = seed | 1;
	assert_int_equal(courier_begin(&courier, &world.nic, &world.card), 0);
	soak();
	assert_true(courier.carried > requests / 2);
	courier_end(&courier);
}

static void with_card_there(void **state)
{
	is_here = false;
	card_start(&card, "50000", NULL);
	soak();
	assert_int_equal(card_end(&card), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_card_here),
		cmocka_unit_test(with_card_there),
	};

	if (argc > 1)
		requests = strtoull(argv[1], NULL, 0);
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : weft_clock_now_ns();
	printf("seed %lu\n", (unsigned long)seed);
	fflush(stdout);
	return cmocka_run_group_tests_name("handed-soak", tests, world_attach_with_card,
					   world_detach_with_card);
}
