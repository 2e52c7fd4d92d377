/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Revoking rights that another host may use, a host that is silent, and one that is started again: by two
 * processes of this kernel, with a home each. The kernel's barrier reaches both, so missing barriers between
 * hosts do not show here.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "other.h"
#include "pool/clock.h"
#include "pool/format.h"
#include "pool/format_host.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"

#define MS	   1000000ull
#define SILENCE_MS 2000u
/* as a helper that gets no processor in time does not answer within the second */
#define TRIES 5

static struct weft_pool *pool;
static struct other other;

static int begin(void **state)
{
	pool = other_pool(2, SILENCE_MS);
	other = other_start(1);
	return 0;
}

static int end(void **state)
{
	other_kill(&other);
	other_end(pool);
	return 0;
}

static uint64_t end_rights(int expected)
{
	uint64_t begun_ns = weft_clock_now_ns();

	assert_int_equal(weft_pool_quiesce(pool, 0, weft_pool_age(pool)), expected);
	return weft_clock_now_ns() - begun_ns;
}

/* Rights that another host may use, and that none of its executors uses now: that host answers within the
 * second, if its helper gets a processor then. */
static uint64_t end_used_rights(uint32_t qp)
{
	uint64_t begun_ns = 0;
	int err = -ETIMEDOUT;

	for (int i = 0; err && i < TRIES; i++) {
		begun_ns = weft_clock_now_ns();
		err = weft_pool_quiesce(pool, qp, weft_pool_age(pool));
	}
	assert_int_equal(err, 0);
	return weft_clock_now_ns() - begun_ns;
}

static bool lives(void)
{
	return weft_pool_alive(pool, other.page->member, other.page->incarnation);
}

static void await(bool (*is_so)(void), uint64_t most_ms)
{
	uint64_t begun_ns = weft_clock_now_ns();

	while (!is_so()) {
		assert_in_range(weft_clock_now_ns() - begun_ns, 0, most_ms * MS);
		other_tick(pool);
	}
}

/* Rights that no other host has used are revoked without asking that host, which may stand still. */
static void test_unused(void **state)
{
	other_stop(&other);
	for (int i = 0; i < 20; i++)
		assert_in_range(end_rights(0), 0, 900 * MS);
	kill(other.pid, SIGCONT);
}

/* The other host is asked, and answers; also when it was idle for long. */
static void test_used(void **state)
{
	uint64_t least_ns = UINT64_MAX, idle_ns, took_ns;

	other_tell(&other, OTHER_USES);
	usleep(300000);
	idle_ns = end_used_rights(0);
	for (int i = 0; i < 50; i++) {
		took_ns = end_used_rights(0);
		least_ns = took_ns < least_ns ? took_ns : least_ns;
	}
	print_message("revoked in %ju us from idle, then in %ju us\n", (uintmax_t)(idle_ns / 1000),
		      (uintmax_t)(least_ns / 1000));
	assert_in_range(least_ns, 0, 200 * MS);
	/* the host was asked: questions are numbered */
	assert_true(WEFT_QUIESCE_SEQUENCE(atomic_load(&pool->self->quiesce)) >= 51);
}

/* An executor of the other host is waited for; one at another queue pair is not. */
static void test_executor(void **state)
{
	other_tell(&other, OTHER_EXECUTES);
	end_used_rights(9);
	assert_true(end_rights(-ETIMEDOUT) >= 900 * MS);
	other_tell(&other, OTHER_USES);
	end_used_rights(0);
}

static bool is_all_free(void)
{
	return !atomic_load(&pool->nretired);
}

static bool is_silent(void)
{
	return !lives();
}

/* The other host stands still in the middle of a copy: memory into which it may store is not used again. */
static void test_stopped(void **state)
{
	uint64_t off;
	uint32_t qp;

	assert_int_equal(weft_pool_extent_alloc(pool, WEFT_PAGE, &off), 0);
	other_tell(&other, OTHER_EXECUTES);
	other_stop(&other);
	end_rights(-ETIMEDOUT);
	weft_pool_retire(pool, WEFT_RETIRE_EXTENT, off, WEFT_PAGE);
	/* once the host counts as silent, it is not waited for again; but memory that was made since then is
	 * out of its reach */
	await(is_silent, 20000);
	assert_in_range(end_rights(-ETIMEDOUT), 0, 900 * MS);
	assert_int_equal(weft_pool_take_qp(pool, &qp), 0);
	assert_int_not_equal(weft_pool_suspects_at(pool, qp), 0);
	/* connected to a queue pair of that host it may be where it stands, and to one of this host not */
	atomic_store(&pool->qps[qp].conn, (WEFT_QPS >> pool->slice_bits) + 5);
	assert_int_not_equal(weft_pool_suspects_at(pool, qp), 0);
	atomic_store(&pool->qps[qp].conn, 5);
	assert_int_equal(weft_pool_suspects_at(pool, qp), 0);
	atomic_store(&pool->qps[qp].conn, 0);
	for (int i = 0; i < 50; i++)
		other_tick(pool);
	assert_false(is_all_free());
	kill(other.pid, SIGCONT);
	other_tell(&other, OTHER_USES);
	await(is_all_free, 20000);
	assert_int_equal(weft_pool_suspects_at(pool, qp), 0);
}

/* A silent host may only be slow: when it goes on it is a live member again, and has lost nothing. */
static void test_silence(void **state)
{
	uint64_t begun_ns, took_ns;

	other_tell(&other, OTHER_LEASES);
	begun_ns = weft_clock_now_ns();
	assert_true(lives());
	other_stop(&other);
	await(is_silent, 20000);
	took_ns = weft_clock_now_ns() - begun_ns;
	assert_true(took_ns > SILENCE_MS * MS);
	assert_int_equal(weft_pool_recover(pool), 0);
	kill(other.pid, SIGCONT);
	await(lives, 20000);
	assert_int_not_equal(weft_pool_member(pool, other.page->member)->incarnation, 0);
}

/* Two hosts that revoke at the same time answer each other meanwhile. */
static void test_both(void **state)
{
	uint64_t until_ns = weft_clock_now_ns() + 1000 * MS, longest_ns = 0, took_ns;

	other_tell(&other, OTHER_USES);
	weft_pool_use(pool, other.page->member);
	other_tell(&other, OTHER_REVOKES);
	while (weft_clock_now_ns() < until_ns) {
		took_ns = end_used_rights(0);
		longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
	}
	assert_false(atomic_load(&other.page->failed));
	assert_true(atomic_load(&other.page->revoked) > 5);
	print_message("at once: %ju us and %ju us at most\n", (uintmax_t)(longest_ns / 1000),
		      (uintmax_t)(atomic_load(&other.page->longest_ns) / 1000));
}

static uint32_t leased_by_others(void)
{
	uint64_t word;
	uint32_t n = 0;

	for (uint32_t at = 0; (word = weft_lease_next(pool, &at));)
		n += (word & 0xffff) != pool->me + 1u;
	return n;
}

/* What a host has left is recovered when it joins again with a new home, and by no other host. */
static void test_next_life(void **state)
{
	uint64_t incarnation = other.page->incarnation;
	uint16_t member = other.page->member;

	other_tell(&other, OTHER_LEASES);
	assert_int_equal(leased_by_others(), 1);
	other_kill(&other);
	await(is_all_free, 20000);
	assert_int_equal(weft_pool_recover(pool), 0);
	assert_int_equal(leased_by_others(), 1);
	other_delete_home(1);
	other = other_start(1);
	assert_int_equal(leased_by_others(), 0);
	assert_int_equal(other.page->member, member);
	assert_true(other.page->incarnation > incarnation);
	assert_false(weft_pool_alive(pool, member, incarnation));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unused, begin, end),
		cmocka_unit_test_setup_teardown(test_used, begin, end),
		cmocka_unit_test_setup_teardown(test_executor, begin, end),
		cmocka_unit_test_setup_teardown(test_stopped, begin, end),
		cmocka_unit_test_setup_teardown(test_silence, begin, end),
		cmocka_unit_test_setup_teardown(test_both, begin, end),
		cmocka_unit_test_setup_teardown(test_next_life, begin, end),
	};

	return cmocka_run_group_tests_name("quiesce", tests, NULL, NULL);
}
