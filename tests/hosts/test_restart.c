/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Deaths of hosts: one whose last process is killed, one that comes again with a new life, ghosts (what it held before, and
 * another host that is silent may still write), and hosts that are evicted. Host 0 is the test's own, host 1
 * dies, and host 2 stands still in the middle of a copy into it.
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
#include "pool/format_region.h"
#include "pool/slice.h"

#define MS	   1000000ull
#define SILENCE_MS 800u
#define SLACK_MS   5000u /* for a machine that has other work */

static struct weft_pool *pool;
static struct other dies, stands;
static const char *why;

static int begin(void **state)
{
	pool = other_pool(4, SILENCE_MS);
	dies = other_start(1);
	stands = other_start(2);
	return 0;
}

static int end(void **state)
{
	other_kill(&dies);
	other_kill(&stands);
	other_end(pool);
	return 0;
}

static bool lives(const struct other *o)
{
	return weft_pool_alive(pool, o->page->member, o->page->incarnation);
}

static bool is_dead(void)
{
	return !lives(&dies);
}

static bool is_slice_empty(void)
{
	return !other_leased_bytes(pool, 1);
}

static bool is_one_left(void)
{
	return other_leased_bytes(pool, 1) == weft_segment_bytes(pool);
}

static bool is_all_free(void)
{
	return !atomic_load(&pool->nretired);
}

static bool is_displaced(void)
{
	return atomic_load(&stands.page->displaced);
}

/* Returns how long it took. */
static uint64_t await(bool (*is_so)(void), uint64_t most_ms)
{
	uint64_t begun_ns = weft_clock_now_ns();

	while (!is_so()) {
		assert_in_range(weft_clock_now_ns() - begun_ns, 0, most_ms * MS);
		other_tick(pool);
	}
	return (weft_clock_now_ns() - begun_ns) / MS;
}

/* The host comes again, as after a reboot: its home is new. */
static void reboot(void)
{
	other_kill(&dies);
	other_delete_home(1);
	dies = other_start(1);
}

/* ---- Death, and another life ---- */

/* Of the last process of a host others hear by its silence, and do nothing but hear. */
static void test_last_process(void **state)
{
	uint64_t took_ms;

	other_tell(&dies, OTHER_LEASES);
	assert_true(lives(&dies));
	kill(dies.pid, SIGKILL);
	took_ms = await(is_dead, SILENCE_MS + 1000 + SLACK_MS);
	assert_true(took_ms + 100 >= SILENCE_MS);
	assert_int_equal(weft_pool_recover(pool), 0);
	assert_true(is_one_left());
}

/* Of one of several they hear from those that are left, as soon as these have buried it: it is not there for others any more,
 * even where its memory waits for a host that is silent. */
static void test_one_of_several(void **state)
{
	struct other second = other_start(1);
	uint64_t took_ms;

	other_tell(&dies, OTHER_LEASES);
	stands.page->at = dies.page->member;
	other_tell(&stands, OTHER_EXECUTES);
	other_stop(&stands);
	kill(dies.pid, SIGKILL);
	other_tell(&second, OTHER_BURIES);
	took_ms = await(is_dead, 1000 + SLACK_MS);
	print_message("another host heard of a death after %ju ms\n", (uintmax_t)took_ms);
	assert_true(is_one_left());
	kill(stands.pid, SIGCONT);
	other_tell(&stands, OTHER_USES);
	await(is_slice_empty, SLACK_MS);
	other_kill(&second);
}

/* A queue pair's entry, a key and the number of a member, all of the life before. */
static void test_new_life(void **state)
{
	uint64_t incarnation, conn, id;
	uint32_t qp, mr;
	uint16_t member;

	other_tell(&dies, OTHER_LEASES);
	other_tell(&dies, OTHER_OPENS);
	qp = dies.page->qp;
	mr = dies.page->mr;
	incarnation = dies.page->incarnation;
	member = dies.page->member;
	assert_int_equal(weft_pool_see_qp(pool, qp), 0);
	assert_int_equal(weft_pool_see_mr(pool, mr), 0);
	conn = atomic_load(&pool->qps[qp].conn);
	id = atomic_load(&pool->mrs[mr].id);
	assert_int_not_equal(atomic_load(&pool->qps[qp].qpn), 0);
	reboot();
	await(is_slice_empty, SILENCE_MS + 2000 + SLACK_MS);
	assert_false(weft_pool_alive(pool, member, incarnation));
	assert_true(dies.page->incarnation > incarnation);
	assert_true(atomic_load(&pool->qps[qp].conn) > conn);
	assert_int_equal(atomic_load(&pool->qps[qp].qpn), 0);
	assert_int_equal(atomic_load(&pool->mrs[mr].id) & UINT32_MAX, 0);
	assert_true(atomic_load(&pool->mrs[mr].id) >> 32 >= id >> 32);
}

/* ---- Ghosts ---- */

/* Host 2 stands still in a copy into host 1, which dies. */
static void stand_still(void)
{
	other_tell(&dies, OTHER_LEASES);
	stands.page->at = dies.page->member;
	other_tell(&stands, OTHER_EXECUTES);
	other_stop(&stands);
}

/* What host 2 may still write stays out of use in the next life, and the rest of the slice is used; until it goes on. */
static void test_ghost(void **state)
{
	uint64_t off;

	stand_still();
	off = dies.page->off;
	reboot();
	assert_true(is_one_left());
	for (int i = 0; i < 100; i++)
		other_tick(pool);
	assert_true(is_one_left());
	other_tell(&dies, OTHER_LEASES);
	assert_false(dies.page->failed);
	assert_int_not_equal(weft_segment_of(pool, dies.page->off), weft_segment_of(pool, off));
	kill(stands.pid, SIGCONT);
	other_tell(&stands, OTHER_USES);
	other_tell(&dies, OTHER_BURIES);
	await(is_one_left, SLACK_MS);
	assert_int_not_equal(weft_segment_of(pool, dies.page->off), weft_segment_of(pool, off));
}

/* If that host dies, too, its next life gives the ghost's memory free. */
static void test_ghost_of_a_dead_host(void **state)
{
	stand_still();
	reboot();
	assert_true(is_one_left());
	other_tell(&dies, OTHER_BURIES);
	other_kill(&stands);
	other_delete_home(2);
	stands = other_start(2);
	await(is_slice_empty, SLACK_MS);
}

/* ---- Eviction ---- */

static void test_evict_refuses(void **state)
{
	assert_int_equal(weft_pool_evict(pool, 0, &why), -EINVAL);
	assert_int_equal(weft_pool_evict(pool, 3, &why), -EINVAL); /* it has never come */
	assert_int_equal(weft_pool_evict(pool, 4, &why), -EINVAL);
	assert_int_equal(weft_pool_evict(pool, 1, &why), -EBUSY);
	assert_true(lives(&dies));
}

/* What was kept for it is free, in its reach and in the ghost's; none is there for others. */
static void test_evict(void **state)
{
	uint64_t off;

	assert_int_equal(weft_pool_extent_alloc(pool, WEFT_PAGE, &off), 0);
	stand_still();
	weft_pool_use(pool, stands.page->member);
	reboot();
	assert_true(is_one_left());
	assert_int_equal(weft_pool_evict(pool, 2, &why), 0);
	assert_false(lives(&stands));
	assert_false(weft_pool_use(pool, stands.page->member));
	other_tell(&dies, OTHER_BURIES);
	await(is_slice_empty, SLACK_MS);
	/* it finds out as it goes on, and its processes take part in nothing */
	kill(stands.pid, SIGCONT);
	await(is_displaced, SLACK_MS);
	assert_false(lives(&stands));
}

/* Memory of this host that the evicted one had used is free, and revoking does not wait for it. */
static void test_evict_used_ours(void **state)
{
	uint64_t off, begun_ns;

	assert_int_equal(weft_pool_extent_alloc(pool, WEFT_PAGE, &off), 0);
	other_tell(&stands, OTHER_EXECUTES);
	other_stop(&stands);
	assert_int_equal(weft_pool_quiesce(pool, 0, weft_pool_age(pool)), -ETIMEDOUT);
	weft_pool_retire(pool, WEFT_RETIRE_EXTENT, off, WEFT_PAGE);
	other_tick(pool);
	assert_false(is_all_free());
	assert_int_equal(weft_pool_evict(pool, 2, &why), 0);
	await(is_all_free, SLACK_MS);
	begun_ns = weft_clock_now_ns();
	assert_int_equal(weft_pool_quiesce(pool, 0, weft_pool_age(pool)), 0);
	assert_in_range(weft_clock_now_ns() - begun_ns, 0, 900 * MS);
}

/* It comes again with the same home, when its last process has ended: in a new life. */
static void test_evicted_comes_again(void **state)
{
	uint64_t incarnation = stands.page->incarnation;

	other_stop(&stands);
	assert_int_equal(weft_pool_evict(pool, 2, &why), 0);
	other_kill(&stands);
	stands = other_start(2);
	assert_true(stands.page->incarnation >> 20 > incarnation >> 20);
	assert_true(lives(&stands));
	assert_true(weft_pool_use(pool, stands.page->member));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_last_process),
		TEST(test_one_of_several),
		TEST(test_new_life),
		TEST(test_ghost),
		TEST(test_evict_refuses),
		TEST(test_ghost_of_a_dead_host),
		TEST(test_evict),
		TEST(test_evict_used_ours),
		TEST(test_evicted_comes_again),
	};

	return cmocka_run_group_tests_name("restart", tests, NULL, NULL);
}
