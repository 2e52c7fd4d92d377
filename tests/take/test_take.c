/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Several takers of one shared receive queue, beside a list of what became of each receive. At each labelled
 * turn of a taker others act, and at their turns again others, to some depth: so one thread gets every
 * interleaving that several processes could have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../abi/pool.h"
#include "../random.h"
#include "nic/machine.h"
#include "nic/nic.h"
#include "nic/source.h"
#include "nic/srq.h"
#include "pool/step.h"
#include "pool/format_ring.h"
#include "pool/pool.h"
#include "pool/sge.h"
#include "nic/take.h"
#include "nic/types.h"

#define TAKERS	 5u
#define RECEIVES (1u << 16)
#define ACTIONS	 200000u
#define DEPTH	 4u

enum fate {
	POSTED,
	COMPLETED,
	POLLED,
};

struct taker {
	struct weft_take take;
	struct weft_pool_slot *slot; /* NULL: it has no receive */
	bool acts;
};

static struct {
	struct weft_pool *pool;
	struct weft_nic nic;
	struct weft_srq queue;
	struct weft_cq cq;
	struct taker taker[TAKERS];
	enum fate fate[RECEIVES]; /* by wr_id */
	uint64_t posted, completed, polled;
	uint64_t seed;
	uint32_t depth;
	uint32_t acting; /* the taker that completes its receive now */
	uint32_t out_of_turn;
} w;

static uint32_t draw(uint32_t bound)
{
	return (uint32_t)(splitmix64(&w.seed) % bound);
}

static void *zeroed(void *context, size_t bytes)
{
	return calloc(1, bytes);
}

static void free_it(void *context, void *at)
{
	free(at);
}

static void post(void)
{
	struct weft_pool_sge sge = {w.posted, 8, 0};

	if (!weft_srq_post(&w.queue, w.posted, &sge, 1, 1))
		w.fate[w.posted++ % RECEIVES] = POSTED;
}

/* Polls once: a completed receive is found if there is one, and each only once. */
static void poll_one(void)
{
	uint64_t completed = w.completed;
	struct weft_cqe cqe;
	bool news;

	if (weft_srq_stirs(&w.queue) && weft_srq_take(&w.queue, &w.cq, &cqe, &news, 1)) {
		assert_int_equal(w.fate[cqe.wr_id % RECEIVES], COMPLETED);
		assert_int_equal(cqe.byte_len, (uint32_t)cqe.wr_id);
		w.fate[cqe.wr_id % RECEIVES] = POLLED;
		w.polled++;
		return;
	}
	assert_int_equal(completed, w.polled);
}

static void take(struct taker *t)
{
	struct weft_pool_slot *slot = weft_take_first(w.pool, &t->take);

	if (slot && !weft_take_claim(w.pool, &t->take)) {
		t->slot = slot;
		assert_int_equal(w.fate[slot->recv.wr_id % RECEIVES], POSTED);
	}
}

static void complete(struct taker *t)
{
	uint32_t before = w.acting;

	w.acting = (uint32_t)(t - w.taker);
	t->slot->taken =
		(struct weft_pool_taken){.tag = 1, .byte_len = (uint32_t)t->slot->recv.wr_id};
	weft_take_complete(&w.nic, &t->take);
	t->slot = NULL;
	w.acting = before;
}

/* The taker dies with a receive in hand. */
static void let_go(struct taker *t)
{
	weft_take_let_go(w.pool, &t->take);
	t->slot = NULL;
	weft_srq_recover(&w.nic);
}

static void act(void)
{
	struct taker *t = &w.taker[draw(TAKERS)];
	uint32_t what = draw(16);

	if (what < 4) {
		post();
	} else if (what < 8) {
		poll_one();
	} else if (!t->acts) {
		t->acts = true;
		if (!t->slot)
			take(t);
		else if (what == 8)
			let_go(t);
		else if (what < 12)
			complete(t);
		t->acts = false;
	}
}

void weft_turn(const char *name)
{
	uint32_t more = draw(4);

	if (!strcmp(name, "take_completed")) {
		const struct taker *t = &w.taker[w.acting];

		w.fate[t->slot->taken.byte_len % RECEIVES] = COMPLETED;
		w.completed++;
	}
	w.out_of_turn += !strcmp(name, "take_late");
	if (w.depth == DEPTH)
		return;
	w.depth++;
	while (more--)
		act();
	w.depth--;
}

static void completion(struct weft_cq *cq)
{
}

static void limit_reached(struct weft_srq *q)
{
}

/* Every thread here is the same to the nic's locks, which need not know their owners. */
static uint32_t self(void *context)
{
	return 0;
}

static void open_queue(uint32_t depth)
{
	static const struct weft_machine machine = {.alloc = zeroed, .free = free_it, .self = self};
	static const struct weft_nic_api api = {.completion = completion,
						.limit_reached = limit_reached};
	uint64_t wake_off;

	memset(&w.queue, 0, sizeof(w.queue));
	memset(w.taker, 0, sizeof(w.taker));
	w.nic.pool = w.pool;
	w.nic.machine = &machine;
	w.nic.api = &api;
	w.posted = w.completed = w.polled = w.out_of_turn = 0;
	assert_int_equal(weft_srq_create(&w.nic, &w.queue, 1, depth, 1), 0);
	/* all completions go to one queue, whichever queue pair they are of */
	w.queue.cq = &w.cq;
	assert_int_equal(weft_pool_alloc(w.pool, weft_pool_ring_bytes(0, false), &wake_off), 0);
	for (uint32_t i = 0; i < TAKERS; i++)
		assert_true(weft_take_map(w.pool, &w.taker[i].take, w.pool->me, w.queue.first.off,
					  wake_off));
}

static void run(uint32_t depth, uint64_t seed, bool grows)
{
	open_queue(depth);
	w.seed = seed;
	w.depth = 0;
	for (uint32_t i = 0; i < ACTIONS; i++) {
		act();
		if (grows && i % (ACTIONS / 8) == 0)
			assert_int_equal(weft_srq_resize(&w.queue, depth += depth + 1), 0);
	}
	w.depth = DEPTH;
	for (uint32_t i = 0; i < TAKERS; i++)
		if (w.taker[i].slot)
			complete(&w.taker[i]);
	while (w.polled < w.completed)
		poll_one();
	poll_one();
	print_message("depth %u: %lu posted, %lu polled, %u out of turn\n", depth,
		      (unsigned long)w.posted, (unsigned long)w.polled, w.out_of_turn);
	assert_in_range(w.out_of_turn, 1, UINT32_MAX);
	assert_in_range(w.polled, ACTIONS / 50, UINT32_MAX);
	weft_srq_destroy(&w.queue, true);
}

static void interleaved(void **state)
{
	for (uint32_t depth = 1; depth <= 64; depth = depth * 2 + depth % 2)
		run(depth, depth, false);
}

static void growing(void **state)
{
	run(1, 7, true);
	run(3, 8, true);
}

static int attach(void **state)
{
	static char where[4096];
	const char *why;

	return make_pool(state) || weft_pool_get(NULL, &w.pool, where, &why) ? -1 : 0;
}

static int detach(void **state)
{
	weft_pool_put(w.pool);
	return remove_pool(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interleaved),
		cmocka_unit_test(growing),
	};

	return cmocka_run_group_tests(tests, attach, detach);
}
