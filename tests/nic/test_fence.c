/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A producer fences between storing a completion and looking whether it is awaited, and a consumer fences
 * between arming and looking at the queue once more: at least one of the two sees the other. That the
 * producer's fence stands between its store and its look is shown by one thread. What it is good for is shown
 * by two threads on two cores, with nothing between the store and the look but what the product has there;
 * before the store come stores to lines that the other core holds, behind which the completion waits in the
 * store buffer. Without the producer's fence they lose arming after arming, if the two run at the same time;
 * the test prints how many.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../abi/pool.h"
#include "../random.h"
#include "nic/complete.h"
#include "nic/cq.h"
#include "nic/nic.h"
#include "nic/source.h"
#include "pool/clock.h"
#include "pool/completed.h"

#define RECEIVES 256u
#define COLD	 100u  /* cache lines: at least as many as the store buffer has entries */
#define DELAY	 1024u /* at most, in turns of an empty loop, while the completion is on its way */
#define SPINS	 2000u
#define ROUNDS	 500000u
/* rounds that take longer are on a machine that has much other work */
#define RIGHT_NS 4000000000ull
#define WRONG_NS 20000000000ull /* a lost arming mostly comes within the first second */

static struct {
	struct weft_pool *pool;
	struct weft_nic nic;
	struct weft_cq cq;
	struct weft_pool_ring *ring;
	struct weft_cq_ring *r;
	bool mutated, ends;
	void (*meanwhile)(void); /* called in the middle of the producer's fence; NULL: nothing */
	cpu_set_t cores;	 /* those that this process may use */
	_Alignas(WEFT_LINE) _Atomic uint64_t begun;
	_Alignas(WEFT_LINE) _Atomic uint64_t completed;
	struct {
		_Alignas(WEFT_LINE) _Atomic uint64_t word;
	} cold[COLD];
} w;

/* The producer's fence (see above). */
void test_fence(void);
void test_fence(void)
{
	if (w.meanwhile)
		w.meanwhile();
	if (w.mutated)
		atomic_signal_fence(memory_order_seq_cst);
	else
		atomic_thread_fence(memory_order_seq_cst);
}

static void await(const _Atomic uint64_t *word, uint64_t value)
{
	for (uint32_t n = 1; atomic_load_explicit(word, memory_order_acquire) != value; n++)
		if (n % SPINS == 0)
			sched_yield();
}

static void dawdle(uint64_t *seed)
{
	for (uint64_t n = splitmix64(seed) % DELAY; n; n--)
		atomic_signal_fence(memory_order_seq_cst);
}

static void pin(uint32_t index)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &w.cores) && !index--)
			CPU_SET(core, &set);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
}

/* ---- The producer ---- */

/* The end of weft_responder_complete, without its lock and its counts. */
static void complete(uint64_t position)
{
	struct weft_pool_cqe *cqe = &w.ring->cqe[position & (w.r->size - 1)];

	for (uint32_t i = 0; i < COLD; i++)
		atomic_store_explicit(&w.cold[i].word, position, memory_order_relaxed);
	/* release: pairs with the acquire in weft_cq_entry_at */
	atomic_store_explicit(&cqe->lap, (uint32_t)(position >> w.r->size_bits) + 1,
			      memory_order_release);
	weft_pool_completed(w.pool, w.ring, w.pool->me, false);
}

static void *produce(void *unused)
{
	pin(1);
	for (uint64_t round = 1;; round++) {
		await(&w.begun, round);
		if (w.ends)
			return NULL;
		complete(round - 1);
		/* release: pairs with the acquire in await */
		atomic_store_explicit(&w.completed, round, memory_order_release);
	}
}

/* ---- The consumer ---- */

/* True: the arming was lost. The completion's queue pair number is that of none, so polling discards it. */
static bool arm_and_look(uint64_t round)
{
	struct weft_wc wc;
	bool found, claimed;

	assert_int_equal(weft_cq_arm(&w.cq, false, 0), 0);
	weft_cq_poll(&w.cq, 1, &wc, 0);
	found = weft_cq_consumed(w.r) == round;
	await(&w.completed, round);
	claimed = weft_cq_take_event(&w.cq);
	if (!found)
		weft_cq_poll(&w.cq, 1, &wc, 0);
	assert_int_equal(weft_cq_consumed(w.r), round);
	return !found && !claimed;
}

/* Returns how many armings were lost, of at most that many rounds; with `first`, it stops at the first
 * one. */
static uint64_t run(uint64_t rounds, uint64_t most_ns, bool first, uint64_t *done)
{
	uint64_t begun_ns = weft_clock_now_ns(), lost = 0, seed = 1, round;
	pthread_t producer;

	w.ends = false;
	atomic_store(&w.begun, 0);
	atomic_store(&w.completed, 0);
	assert_int_equal(pthread_create(&producer, NULL, produce, NULL), 0);
	for (round = 1; round <= rounds && !(first && lost); round++) {
		if (round % 1024 == 0 && weft_clock_now_ns() - begun_ns > most_ns)
			break;
		for (uint32_t i = 0; i < COLD; i++)
			atomic_store_explicit(&w.cold[i].word, round, memory_order_relaxed);
		/* release: pairs with the acquire in await */
		atomic_store_explicit(&w.begun, round, memory_order_release);
		dawdle(&seed);
		lost += arm_and_look(round);
	}
	*done = round - 1;
	w.ends = true;
	atomic_store(&w.begun, round);
	pthread_join(producer, NULL);
	return lost;
}

/* ---- Cases ---- */

static void completion(struct weft_cq *cq)
{
}

static void kick(void *context)
{
}

static uint32_t self(void *context)
{
	return 0;
}

static void *zeroed(void *context, size_t bytes)
{
	return calloc(1, bytes);
}

static void free_it(void *context, void *memory)
{
	free(memory);
}

static void open_queue(void)
{
	static const struct weft_machine machine = {
		.alloc = zeroed, .free = free_it, .kick = kick, .self = self};
	static const struct weft_nic_api api = {.completion = completion};
	struct weft_wc wc;
	uint64_t off;

	memset(&w.nic, 0, sizeof(w.nic));
	memset(&w.cq, 0, sizeof(w.cq));
	w.nic.pool = w.pool;
	w.nic.machine = &machine;
	w.nic.api = &api;
	w.nic.qps = calloc(WEFT_QPS, sizeof(*w.nic.qps));
	assert_non_null(w.nic.qps);
	assert_int_equal(weft_cq_create(&w.nic, &w.cq, RECEIVES), 0);
	assert_int_equal(weft_cq_ring_get(&w.cq, &w.cq.rings, w.pool->me, RECEIVES, &off), 0);
	w.r = weft_cq_first_ring(&w.cq);
	w.ring = w.r->ring;
	/* the first arming has all other threads pass a barrier: only those that follow are counted */
	assert_int_equal(weft_cq_arm(&w.cq, false, 0), 0);
	assert_int_equal(weft_cq_poll(&w.cq, 1, &wc, 0), 0);
}

static void close_queue(void)
{
	weft_cq_destroy(&w.cq);
	free(w.nic.qps);
}

static void arm_as_it_fences(void)
{
	struct weft_wc wc;

	w.meanwhile = NULL;
	assert_int_equal(weft_cq_arm(&w.cq, false, 0), 0);
	weft_cq_poll(&w.cq, 1, &wc, 0);
	/* the arming's look finds the completion, as it was stored before the fence */
	assert_int_equal(weft_cq_consumed(w.r), 2);
	assert_false(weft_cq_take_event(&w.cq));
}

static void the_fence_is_between_store_and_look(void **state)
{
	struct weft_wc wc;

	w.mutated = false;
	open_queue();
	complete(0);
	assert_true(weft_cq_take_event(&w.cq));
	weft_cq_poll(&w.cq, 1, &wc, 0);
	assert_int_equal(weft_cq_consumed(w.r), 1);
	w.meanwhile = arm_as_it_fences;
	complete(1);
	assert_null(w.meanwhile);
	assert_true(weft_cq_take_event(&w.cq));
	close_queue();
}

static void need_two_cores(void)
{
	if (CPU_COUNT(&w.cores) > 1)
		return;
	print_message("needs two cores\n");
	skip();
}

static void no_arming_is_lost(void **state)
{
	uint64_t done, lost;

	need_two_cores();
	w.mutated = false;
	open_queue();
	lost = run(ROUNDS, RIGHT_NS, false, &done);
	print_message("%lu armings, %lu lost\n", (unsigned long)done, (unsigned long)lost);
	assert_int_equal(lost, 0);
	close_queue();
}

static void without_the_fence_some_are(void **state)
{
	uint64_t done, lost;

#ifdef WITH_SANITIZER
	print_message("the sanitizer's own code between the store and the look is a fence\n");
	skip();
#endif
	need_two_cores();
	w.mutated = true;
	open_queue();
	lost = run(UINT64_MAX, WRONG_NS, true, &done);
	print_message("without the producer's fence: %lu of %lu armings lost\n",
		      (unsigned long)lost, (unsigned long)done);
	close_queue();
	if (!lost) {
		print_message("so that no_arming_is_lost has shown nothing on this machine now\n");
		skip();
	}
}

static int attach(void **state)
{
	static char where[4096];
	const char *why;

	if (sched_getaffinity(0, sizeof(w.cores), &w.cores))
		return -1;
	pin(0);
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
		cmocka_unit_test(the_fence_is_between_store_and_look),
		cmocka_unit_test(no_arming_is_lost),
		cmocka_unit_test(without_the_fence_some_are),
	};

	return cmocka_run_group_tests(tests, attach, detach);
}
