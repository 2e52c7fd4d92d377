/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that a suspect may still touch is not used again until the suspect has gone on or died. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "subject.h"
#include "pool/format_home.h"
#include "pool/format_line.h"
#include "pool/format_member.h"

#define EXTENT (3ull << 20)
#define AT_QP  77u

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A subject that is in the middle of an execution at member value[0], until it may go on. */
static void execute(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);
	struct weft_caller caller;

	weft_pool_caller_get(pool, &caller);
	subject_ready(s);
	for (;;) {
		subject_wait(s);
		caller.line->busy +=
			(1ull << WEFT_BUSY_BITS) + weft_busy_at(s->page->value[0], AT_QP);
		subject_ready(s);
		subject_wait(s);
		caller.line->busy = caller.line->busy >> WEFT_BUSY_BITS << WEFT_BUSY_BITS;
		subject_ready(s);
	}
}

/* Starts a subject, which is in the middle of an execution at this process's memory. */
static struct subject begin(struct weft_pool **pool)
{
	struct subject s = subject_start(execute);

	subject_await(&s, 1);
	*pool = subject_watch();
	s.page->value[0] = (*pool)->me;
	subject_go(&s);
	subject_await(&s, 2);
	return s;
}

static uint64_t extent(struct weft_pool *pool)
{
	uint64_t off;

	assert_int_equal(weft_pool_extent_alloc(pool, EXTENT, &off), 0);
	return off;
}

static void test_goes_on(void **state)
{
	uint64_t old = extent(subject_watch()), begun, later;
	struct weft_pool *pool;
	struct subject s = begin(&pool);

	begun = now_ms();
	assert_int_equal(weft_pool_quiesce(pool, 0, 0), -ETIMEDOUT);
	assert_in_range(now_ms() - begun, 900, 5000);
	assert_int_equal(weft_pool_age(pool), 1);
	/* a known suspect is not waited for again */
	begun = now_ms();
	assert_int_equal(weft_pool_quiesce(pool, 0, 0), -ETIMEDOUT);
	/* the suspect is at one queue pair, and delays the revocation of no other */
	assert_int_equal(weft_pool_quiesce(pool, AT_QP, 0), -ETIMEDOUT);
	assert_int_equal(weft_pool_quiesce(pool, AT_QP + 1, 0), 0);
	assert_int_equal(weft_pool_suspects_at(pool, AT_QP), 1);
	assert_int_equal(weft_pool_suspects_at(pool, AT_QP + 1), 0);
	/* memory that was made after the suspect is out of its reach */
	assert_int_equal(weft_pool_quiesce(pool, 0, 1), 0);
	assert_in_range(now_ms() - begun, 0, 500);
	weft_pool_retire(pool, WEFT_RETIRE_EXTENT, old, EXTENT);
	weft_pool_sweep(pool);
	assert_int_equal(pool->nretired, 1);
	for (int i = 0; i < 8; i++) {
		later = extent(pool);
		assert_true(later != old);
		weft_pool_extent_free(pool, later, EXTENT);
	}
	subject_go(&s);
	subject_await(&s, 3);
	assert_int_equal(weft_pool_suspects_at(pool, AT_QP), 0);
	weft_pool_sweep(pool);
	assert_int_equal(pool->nretired, 0);
	assert_int_equal(weft_pool_quiesce(pool, 0, 0), 0);
	subject_end(&s);
	weft_pool_put(pool);
	weft_pool_put(pool);
}

static void test_dies(void **state)
{
	struct weft_pool *pool = subject_watch();
	uint64_t old = extent(pool), piece;
	struct subject s = begin(&pool);
	uint32_t qp, mr;

	assert_int_equal(weft_pool_alloc(pool, 100, &piece), 0);
	assert_int_equal(weft_pool_take_qp(pool, &qp), 0);
	assert_int_equal(weft_pool_take_mr(pool, &mr), 0);
	kill(s.pid, SIGSTOP);
	assert_int_equal(weft_pool_quiesce(pool, 0, 0), -ETIMEDOUT);
	weft_pool_retire(pool, WEFT_RETIRE_EXTENT, old, EXTENT);
	weft_pool_retire(pool, WEFT_RETIRE_PIECE, piece, 100);
	weft_pool_retire(pool, WEFT_RETIRE_QP, qp, 0);
	weft_pool_retire(pool, WEFT_RETIRE_MR, mr, 0);
	assert_int_equal(weft_pool_watch(pool), 0);
	assert_int_equal(pool->nretired, 4);
	kill(s.pid, SIGKILL);
	subject_await_death(pool, &s);
	assert_int_equal(weft_pool_watch(pool), 1);
	assert_int_equal(pool->nretired, 0);
	subject_end(&s);
	weft_pool_put(pool);
	weft_pool_put(pool);
}

/* Memory that was retired before another executor stopped does not wait for that one. */
static void test_order(void **state)
{
	struct weft_pool *pool;
	struct subject first = begin(&pool), second;
	uint64_t one = extent(pool), two = extent(pool);

	assert_int_equal(weft_pool_quiesce(pool, 0, 0), -ETIMEDOUT);
	weft_pool_retire(pool, WEFT_RETIRE_EXTENT, one, EXTENT);
	second = begin(&pool);
	assert_int_equal(weft_pool_quiesce(pool, 0, 0), -ETIMEDOUT);
	assert_int_equal(weft_pool_age(pool), 2);
	weft_pool_retire(pool, WEFT_RETIRE_EXTENT, two, EXTENT);
	subject_go(&first);
	subject_await(&first, 3);
	weft_pool_sweep(pool);
	assert_int_equal(pool->nretired, 1);
	subject_end(&second);
	weft_pool_sweep(pool);
	assert_int_equal(pool->nretired, 0);
	subject_end(&first);
	weft_pool_put(pool);
	weft_pool_put(pool);
}

static void execute_by_all_lines(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);

	subject_ready(s);
	subject_wait(s);
	for (int i = 0; i < (int)WEFT_MEMBER_LINES; i++)
		pool->own->line[i].busy =
			(1ull << WEFT_BUSY_BITS) + weft_busy_at(s->page->value[0], AT_QP);
	pool->self->lines = WEFT_MEMBER_LINES;
	subject_ready(s);
	pause();
}

#define CROWD 6

/* However many executors are stopped, the revoker waits one second for all together, not one for each batch
 * of them. */
static void test_crowd(void **state)
{
	struct subject s[CROWD];
	struct weft_pool *pool;
	uint64_t begun;

	for (int i = 0; i < CROWD; i++) {
		s[i] = subject_start(execute_by_all_lines);
		subject_await(&s[i], 1);
	}
	pool = subject_watch();
	for (int i = 0; i < CROWD; i++) {
		s[i].page->value[0] = pool->me;
		subject_go(&s[i]);
		subject_await(&s[i], 2);
	}
	begun = now_ms();
	assert_int_equal(weft_pool_quiesce(pool, 0, 0), -ETIMEDOUT);
	assert_in_range(now_ms() - begun, 900, CROWD * 1000 / 2);
	assert_int_equal(weft_pool_age(pool), CROWD * WEFT_MEMBER_LINES);
	for (int i = 0; i < CROWD; i++)
		subject_end(&s[i]);
	assert_int_equal(weft_pool_watch(pool), CROWD);
	assert_int_equal(weft_pool_quiesce(pool, 0, 0), 0);
	weft_pool_put(pool);
}

static void leaves(struct subject *s)
{
	struct weft_pool *pool = subject_attach(s);

	extent(pool);
	subject_ready(s);
	subject_wait(s);
	weft_pool_put(pool);
	subject_ready(s);
	pause();
}

/* A member leaves while a suspect is in its memory: that memory is left behind, to be recovered. */
static void test_leaves(void **state)
{
	struct subject owner = subject_start(leaves), s = subject_start(execute);
	struct weft_pool *pool;

	subject_await(&owner, 1);
	subject_await(&s, 1);
	pool = subject_watch();
	s.page->value[0] = owner.page->member;
	subject_go(&s);
	subject_await(&s, 2);
	subject_go(&owner);
	subject_await(&owner, 2);
	assert_false(subject_alive(pool, &owner));
	assert_int_equal(subject_leases(pool, &owner), 1);
	assert_int_equal(weft_pool_watch(pool), 0);
	assert_int_equal(subject_leases(pool, &owner), 1);
	subject_go(&s);
	subject_await(&s, 3);
	assert_int_equal(weft_pool_watch(pool), 1);
	assert_int_equal(subject_leases(pool, &owner), 0);
	subject_end(&owner);
	subject_end(&s);
	weft_pool_put(pool);
}

/* Two members die, each in the middle of the other's memory: neither keeps the other's memory from
 * recovery. */
static void test_die_together(void **state)
{
	struct subject a = subject_start(execute), b = subject_start(execute);
	struct weft_pool *pool;

	subject_await(&a, 1);
	subject_await(&b, 1);
	a.page->value[0] = b.page->member;
	b.page->value[0] = a.page->member;
	subject_go(&a);
	subject_go(&b);
	subject_await(&a, 2);
	subject_await(&b, 2);
	pool = subject_watch();
	kill(a.pid, SIGKILL);
	kill(b.pid, SIGKILL);
	subject_await_death(pool, &a);
	subject_await_death(pool, &b);
	assert_int_equal(weft_pool_watch(pool), 2);
	subject_end(&a);
	subject_end(&b);
	weft_pool_put(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goes_on),	     cmocka_unit_test(test_dies),
		cmocka_unit_test(test_order),	     cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_die_together), cmocka_unit_test(test_crowd),
	};

	return cmocka_run_group_tests_name("quarantine", tests, NULL, NULL);
}
