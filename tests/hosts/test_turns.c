/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * First use, revocation and answer in every order that their steps can have: a thread that executes at another host's
 * member, the revoker there, and helpers that answer, as coroutines of one thread that change at labelled turns. Each
 * order is played from the beginning; a revoker or a helper that waits goes on when something has changed. Where there
 * are too many orders, those are played in which few actors stop although they could go on. The one thread reorders
 * nothing: whether the barriers are right is not seen here. `test-hosts-turns [MORE]`: so many more stops.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "backing/backing.h"
#include "nic/busy.h"
#include "pool/clock.h"
#include "pool/format.h"
#include "pool/format_host.h"
#include "pool/format_member.h"
#include "pool/host.h"
#include "pool/internal.h"
#include "pool/step.h"

#define HOSTS	   2u
#define MEMBERS	   3u /* one of host 0, two of host 1 */
#define BYTES	   (1ull << 30)
#define SILENCE_MS 60000u
#define RIGHTS	   2u
#define ACTORS	   5u
#define STEPS	   512u
#define STACK	   (256ul << 10)
#define PAUSE_NS   2000000u
#define ALL	   UINT32_MAX

/* What keeps an actor from going on. */
enum waits {
	NOTHING,
	A_CHANGE, /* of what the hosts have told each other, or of a line */
	A_QUESTION,
	FOR_GOOD,
};

struct actor {
	void (*act)(struct actor *self);
	struct weft_attachment *of;
	ucontext_t context;
	enum waits waits;
	uint64_t seen; /* the state when it last looked */
};

/* Which actors there are, and as which members; how many rights end; how often an actor stops that could go on. */
struct scene {
	uint32_t rights, stops;
	uint32_t actors;
	struct {
		void (*act)(struct actor *self);
		uint32_t member;
	} actor[ACTORS];
};

static struct {
	struct weft_attachment *member[MEMBERS];
	struct weft_caller caller;
	struct actor actor[ACTORS];
	const struct scene *scene;
	struct actor *now;
	ucontext_t rest;
	char path[64];
	/* the order that is played: which of those that can go on does, and how many can */
	uint8_t choice[STEPS], choices[STEPS];
	uint32_t steps, stops, more_stops;
	/* by right: whether it stands, and whether the revoker has been told that no executor is at it */
	bool stands[RIGHTS], over[RIGHTS];
	uint32_t revokers; /* that have not ended */
	uint64_t orders, stored, refused;
} w;

static uint64_t clock_ns = 1;
static bool pauses_for_answers;

uint64_t weft_clock_now_ns(void)
{
	return ++clock_ns;
}

uint64_t weft_clock_wall_ns(void)
{
	return weft_clock_now_ns();
}

/* A helper waits for an executor as long as it may, and none goes on meanwhile; one that waits for answers has had its turn. */
void __wrap_weft_pause(uint64_t waited_ns);
void __wrap_weft_pause(uint64_t waited_ns)
{
	clock_ns += pauses_for_answers ? 0 : PAUSE_NS;
	pauses_for_answers = false;
}

static void no_barrier(struct weft_backed *b)
{
}

/* ---- Turns ---- */

static uint64_t mix(uint64_t sum, uint64_t word)
{
	return (sum ^ word) * 0x9e3779b97f4a7c15ull + (sum >> 29);
}

/* Of all that a revoker or a helper may wait for. */
static uint64_t state(void)
{
	uint64_t sum = atomic_load(&w.caller.line->busy);

	for (uint32_t i = 0; i < MEMBERS; i++) {
		const struct weft_pool *pool = &w.member[i]->pool;

		sum = mix(sum, atomic_load(&pool->self->quiesce));
		for (uint32_t k = 0; k < HOSTS; k++) {
			const struct weft_pool_host *h = &w.member[0]->hosts->at[k];

			sum = mix(sum, atomic_load(&h->answered[pool->me]));
			sum = mix(sum, atomic_load(&h->answered_qp[pool->me]));
		}
	}
	return sum;
}

static void wait_for(enum waits what)
{
	struct actor *self = w.now;

	if (!self)
		return;
	self->waits = what;
	swapcontext(&self->context, &w.rest);
}

void weft_turn(const char *name)
{
	wait_for(NOTHING);
}

/* Where a revoker waits; then it looks for answers. A member that leaves at the end waits as long as it may. */
static void meanwhile(struct weft_pool *pool)
{
	if (!w.now)
		return;
	wait_for(A_CHANGE);
	w.now->seen = state();
	pauses_for_answers = true;
}

static bool can_go_on(const struct actor *actor)
{
	const struct weft_hosts *hosts = actor->of->hosts;
	bool asked = atomic_load(&hosts->at[actor->of->pool.host].asked);

	switch (actor->waits) {
	case NOTHING:
		return true;
	case A_CHANGE:
		return state() != actor->seen || asked;
	case A_QUESTION:
		return !w.revokers || asked ||
		       (atomic_load(&hosts->owes) && state() != actor->seen);
	case FOR_GOOD:
		break;
	}
	return false;
}

/* ---- What they do ---- */

/* A thread of host 1 that executes at host 0, which it has not used before, by the right that ends last. */
static void execute(struct actor *self)
{
	const struct weft_pool *there = &w.member[0]->pool;
	uint32_t right = w.scene->rights - 1;
	uint64_t busy;

	weft_pool_use(&self->of->pool, there->me);
	weft_turn("begins");
	busy = weft_busy_begin(&w.caller, weft_busy_at(there->me, 0));
	weft_turn("busy");
	if (w.stands[right]) {
		weft_turn("stores");
		if (w.over[right])
			fail_msg("order %lu: a store after its right was over",
				 (unsigned long)w.orders);
		w.stored++;
	} else {
		w.refused++;
	}
	weft_busy_end(&w.caller, busy);
}

static void end_rights(struct actor *self)
{
	for (uint32_t i = 0; i < w.scene->rights; i++) {
		struct weft_pool *pool = &self->of->pool;

		weft_turn("ends");
		w.stands[i] = false;
		assert_int_equal(weft_pool_quiesce(pool, 0, weft_pool_age(pool)), 0);
		w.over[i] = true;
	}
	w.revokers--;
}

/* The other member of host 1 ends a right that host 0 may use, and does not. */
static void end_rights_there(struct actor *self)
{
	struct weft_pool *pool = &self->of->pool;

	assert_int_equal(weft_pool_quiesce(pool, 0, weft_pool_age(pool)), 0);
	w.revokers--;
}

static void help(struct actor *self)
{
	while (w.revokers) {
		weft_host_tick(self->of);
		self->seen = state();
		wait_for(A_QUESTION);
	}
}

/* ---- Orders ---- */

static void run(void)
{
	w.now->act(w.now);
	wait_for(FOR_GOOD);
}

static void begin_actor(struct actor *actor)
{
	static uint8_t stack[ACTORS][STACK];

	getcontext(&actor->context);
	actor->context.uc_stack.ss_sp = stack[actor - w.actor];
	actor->context.uc_stack.ss_size = STACK;
	actor->waits = NOTHING;
	actor->seen = 0;
	makecontext(&actor->context, run, 0);
}

/* As before the first use by host 1. */
static void begin_order(void)
{
	w.revokers = w.steps = w.stops = 0;
	for (uint32_t i = 0; i < w.scene->actors; i++) {
		begin_actor(&w.actor[i]);
		w.revokers += w.actor[i].act == end_rights || w.actor[i].act == end_rights_there;
	}
	for (uint32_t i = 0; i < w.scene->rights; i++) {
		w.stands[i] = true;
		w.over[i] = false;
	}
	for (uint32_t i = 0; i < MEMBERS; i++) {
		const struct weft_pool *pool = &w.member[i]->pool;

		atomic_store(&w.member[i]->hosts->at[pool->host].asked, 0);
		atomic_store(&w.member[i]->hosts->at[1 - pool->host].uses[pool->me], 0);
		atomic_store(&w.member[i]->hosts->owes, false);
	}
	weft_pool_use(&w.member[0]->pool, w.member[2]->pool.me);
}

/* The one that goes on, of those that can. NULL: none can. */
static struct actor *choose(struct actor *last)
{
	struct actor *can[ACTORS];
	bool stops = last && can_go_on(last);
	bool may_stop = !stops || w.scene->stops == ALL || w.stops < w.scene->stops + w.more_stops;
	uint8_t n = 0, chosen;

	if (stops)
		can[n++] = last;
	for (uint32_t i = 0; i < w.scene->actors && may_stop; i++)
		if (&w.actor[i] != last && can_go_on(&w.actor[i]))
			can[n++] = &w.actor[i];
	if (!n)
		return NULL;
	assert_in_range(w.steps, 0, STEPS - 1);
	chosen = w.choice[w.steps];
	w.choices[w.steps++] = n;
	w.stops += stops && chosen;
	return can[chosen];
}

static void play(void)
{
	struct actor *last = NULL;

	begin_order();
	while ((w.now = choose(last))) {
		last = w.now;
		swapcontext(&w.rest, &w.now->context);
	}
	for (uint32_t i = 0; i < w.scene->actors; i++)
		if (w.actor[i].waits != FOR_GOOD)
			fail_msg("order %lu: actor %u waits for ever", (unsigned long)w.orders, i);
	w.orders++;
}

/* Whether there is another order. */
static bool next_order(void)
{
	while (w.steps && w.choice[w.steps - 1] + 1 >= w.choices[w.steps - 1])
		w.choice[--w.steps] = 0;
	if (!w.steps)
		return false;
	w.choice[w.steps - 1]++;
	return true;
}

static void play_all(const struct scene *scene)
{
	w.scene = scene;
	for (uint32_t i = 0; i < scene->actors; i++)
		w.actor[i] = (struct actor){.act = scene->actor[i].act,
					    .of = w.member[scene->actor[i].member]};
	w.orders = w.stored = w.refused = 0;
	memset(w.choice, 0, sizeof(w.choice));
	do
		play();
	while (next_order());
	print_message("%lu orders: %lu stores, %lu refused\n", (unsigned long)w.orders,
		      (unsigned long)w.stored, (unsigned long)w.refused);
	assert_true(w.stored && w.refused);
}

/* Every order. */
static void test_one_right(void **state)
{
	play_all(&(struct scene){1, ALL, 3, {{execute, 1}, {end_rights, 0}, {help, 1}}});
}

/* An answer to the first question is none to the second. */
static void test_two_rights(void **state)
{
	play_all(&(struct scene){2, 3, 3, {{execute, 1}, {end_rights, 0}, {help, 1}}});
}

/* Of two processes: the one that has taken the question answers it. */
static void test_two_helpers(void **state)
{
	play_all(&(struct scene){1, 2, 4, {{execute, 1}, {end_rights, 0}, {help, 1}, {help, 2}}});
}

/* Each answers while it waits; what it owes as it ends is its helper's. */
static void test_both(void **state)
{
	play_all(&(struct scene){
		1,
		0,
		5,
		{{execute, 1}, {end_rights, 0}, {end_rights_there, 2}, {help, 0}, {help, 2}}});
}

/* ---- The pool ---- */

static struct weft_attachment *join_as(const char *host)
{
	static struct weft_backing backing;
	struct weft_attachment *a;
	const char *why;

	backing = weft_backing_shm;
	backing.barrier = no_barrier;
	setenv("WEFT_HOST", host, 1);
	if (weft_open_attach(&backing, w.path, false, &a, &why))
		fail_msg("host %s: %s", host, why);
	a->pool.meanwhile = meanwhile;
	return a;
}

static int begin(void **state)
{
	const char *why;

	snprintf(w.path, sizeof(w.path), "shm:/dev/shm/weft-test-turns-%d", getpid());
	assert_int_equal(
		weft_pool_create(w.path, HOSTS, BYTES, SILENCE_MS, WEFT_POOL_ATOMICS, &why), 0);
	for (uint32_t i = 0; i < MEMBERS; i++)
		w.member[i] = join_as(i ? "1" : "0");
	weft_pool_caller_get(&w.member[1]->pool, &w.caller);
	return 0;
}

static int end(void **state)
{
	const char *why;

	for (uint32_t i = MEMBERS; i--;)
		weft_pool_put(&w.member[i]->pool);
	return weft_pool_remove(w.path, &why);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_right),
		cmocka_unit_test(test_two_rights),
		cmocka_unit_test(test_two_helpers),
		cmocka_unit_test(test_both),
	};

	w.more_stops = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	return cmocka_run_group_tests_name("turns", tests, begin, end);
}
