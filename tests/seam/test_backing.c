/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The pool over another backing than its file: several pools in one process, and what each asks of its own
 * backing. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "plain.h"
#include "migrate/region.h"
#include "pool/format_home.h"
#include "pool/format_object.h"

static struct weft_pool *join(const char *path)
{
	struct weft_attachment *a;
	const char *why;

	assert_int_equal(weft_open_attach(&plain, path, true, &a, &why), 0);
	return &a->pool;
}

static int end(void **state)
{
	plain_end();
	return 0;
}

static uint32_t leased(const struct weft_pool *pool)
{
	uint32_t count = 0;

	for (uint32_t at = 0; weft_lease_next(pool, &at);)
		count++;
	return count;
}

static void test_apart(void **state)
{
	struct weft_pool *a = join("one"), *b = join("one"), *other = join("another");
	uint64_t off[3];

	assert_int_equal(a->me, 0);
	assert_int_equal(b->me, 1);
	assert_int_equal(other->me, 0);
	assert_int_equal(weft_pool_extent_alloc(a, 4096, &off[0]), 0);
	assert_int_equal(weft_pool_extent_alloc(b, 4096, &off[1]), 0);
	assert_int_equal(weft_pool_extent_alloc(other, 4096, &off[2]), 0);
	assert_int_not_equal(off[0], off[1]);
	assert_int_equal(off[0], off[2]);
	memset(weft_pool_window(a, off[0], 4096), 1, 4096);
	memset(weft_pool_window(other, off[2], 4096), 2, 4096);
	assert_int_equal(*(uint8_t *)weft_pool_window(b, off[0], 1), 1);
	assert_int_equal(leased(a), 2);
	weft_pool_put(a);
	assert_int_equal(leased(b), 1);
	assert_int_equal(leased(other), 1);
	weft_pool_put(b);
	weft_pool_put(other);
}

static void test_death(void **state)
{
	struct weft_pool *a = join("one"), *b = join("one");
	uint64_t incarnation = a->incarnation, off;

	assert_int_equal(weft_pool_extent_alloc(a, 4096, &off), 0);
	memset(weft_pool_window(a, off, 4096), 1, 4096);
	assert_int_equal(weft_pool_recover(b), 0);
	assert_true(weft_pool_alive(b, a->me, incarnation));
	plain_kill(weft_attachment(a));
	assert_false(weft_pool_alive(b, a->me, incarnation));
	assert_int_equal(weft_pool_recover(b), 1);
	assert_int_equal(leased(b), 0);
	/* released pages are zero when they are used again */
	assert_int_equal(*(uint8_t *)weft_pool_window(b, off, 1), 0);
	weft_pool_put(b);
	weft_pool_put(a);
}

static void ring_back(_Atomic uint32_t *word)
{
	assert_int_equal(*word, 0);
}

static void test_sleep(void **state)
{
	struct weft_pool *a = join("one"), *b = join("one");
	uint32_t barriers = told.barriers;

	told.asleep = ring_back;
	weft_pool_signal(a, b->me, WEFT_SIGNAL_WORK);
	assert_int_equal(told.wakes, 0); /* the member is not asleep */
	weft_pool_sleep(b, 5);
	assert_int_equal(told.sleeps, 0); /* it was signalled before */
	assert_int_equal(told.barriers, barriers + 1);
	assert_true(weft_pool_signalled(b, WEFT_SIGNAL_WORK));
	weft_pool_sleep(b, 5);
	assert_int_equal(told.sleeps, 1);
	assert_int_equal(told.timeout_ns, 5);
	atomic_store(&b->own->asleep, 1);
	weft_pool_signal(a, b->me, WEFT_SIGNAL_WORK);
	assert_int_equal(told.wakes, 1);
	assert_int_equal(weft_pool_quiesce(a, 0, weft_pool_age(a)), 0);
	assert_int_equal(told.barriers, barriers + 3);
	weft_pool_put(a);
	weft_pool_put(b);
}

static void test_room(void **state)
{
	struct weft_pool *a = join("one");
	struct weft_extent_source source = weft_pool_extent_source(a);
	uint64_t off;

	told.reserves_left = 0;
	assert_int_equal(weft_pool_extent_alloc(a, 4096, &off), -ENOSPC);
	told.reserves_left = 1;
	assert_int_equal(weft_pool_extent_alloc(a, 4096, &off), 0);
	/* this backing has no file into which a program's pages could migrate */
	assert_int_equal(source.fd(source.arg), -EOPNOTSUPP);
	weft_pool_put(a);
}

static void test_lock(void **state)
{
	struct weft_pool *a = join("one"), *b = join("one");
	int key = weft_enter(weft_attachment(a));
	uint32_t index;

	assert_true(key >= 0);
	assert_int_equal(weft_pool_take_qp(b, &index), -ETIMEDOUT);
	weft_leave(weft_attachment(a), key);
	assert_int_equal(weft_pool_take_qp(b, &index), 0);
	weft_pool_put(a);
	weft_pool_put(b);
}

/* Two hosts in one memory: nothing that one leases is the other's, and neither recovers the other's dead
 * members. */
static void test_slices(void **state)
{
	struct weft_pool *pool[2];
	uint32_t qp[2], mr[2], index;
	uint64_t off[2];

	for (uint32_t i = 0; i < 2; i++) {
		told.hosts = 2;
		told.host = i;
		pool[i] = join("one");
		assert_int_equal(pool[i]->me, i * WEFT_MEMBERS / 2);
		assert_int_equal(weft_pool_take_qp(pool[i], &qp[i]), 0);
		assert_int_equal(qp[i] / (WEFT_QPS / 2), i);
		assert_int_equal(weft_pool_take_mr(pool[i], &mr[i]), 0);
		assert_int_equal(mr[i] / (WEFT_MRS / 2), i);
		assert_int_equal(weft_pool_take_object(pool[i], &index), 0);
		assert_int_equal(index / (WEFT_OBJECTS / 2), i);
		assert_int_equal(weft_pool_extent_alloc(pool[i], 4096, &off[i]), 0);
	}
	assert_in_range(off[0], WEFT_FIRST_SEGMENT * WEFT_SEGMENT, (2ull << 30) - 1);
	assert_in_range(off[1], 2ull << 30, (4ull << 30) - 1);
	assert_int_equal(weft_pool_next(pool[0], 0), 0);
	assert_int_equal(weft_pool_next(pool[0], 1), WEFT_MEMBERS / 2);
	assert_int_equal(weft_pool_next(pool[0], WEFT_MEMBERS / 2 + 1), WEFT_MEMBERS);
	assert_non_null(weft_pool_member(pool[0], pool[1]->me));
	assert_null(weft_pool_near(pool[0], pool[1]->me));
	plain_kill(weft_attachment(pool[1]));
	assert_int_equal(weft_pool_recover(pool[0]), 0);
	assert_int_equal(leased(pool[0]), 8);
	weft_pool_put(pool[0]);
	weft_pool_put(pool[1]);
}

/* A host's slice is full although the other host's is empty. */
static void test_slice_is_full(void **state)
{
	struct weft_pool *pool[2];
	uint64_t off;

	for (uint32_t i = 0; i < 2; i++) {
		told.hosts = 2;
		told.host = i;
		pool[i] = join("one");
	}
	assert_int_equal(weft_pool_extent_alloc(pool[0], 3ull << 30, &off), -ENOSPC);
	assert_int_equal(weft_pool_extent_alloc(pool[0], 1800ull << 20, &off), 0);
	assert_int_equal(weft_pool_extent_alloc(pool[0], 1000ull << 20, &off), -ENOSPC);
	assert_int_equal(weft_pool_extent_alloc(pool[1], 1000ull << 20, &off), 0);
	weft_pool_put(pool[0]);
	weft_pool_put(pool[1]);
}

/* Numbers of hosts as a damaged header could have them. */
static void test_no_such_host(void **state)
{
	static const uint32_t bad[][2] = {{0, 0}, {3, 0}, {128, 0}, {2, 2}, {1, 1}};
	struct weft_attachment *a;
	const char *why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		told.hosts = bad[i][0];
		told.host = bad[i][1];
		assert_int_equal(weft_open_attach(&plain, "one", true, &a, &why), -EPROTO);
		assert_non_null(strstr(why, "host"));
	}
}

static void test_lacking(void **state)
{
	static const uint32_t needed[] = {WEFT_BACKING_ATOMICS, WEFT_BACKING_COHERENT,
					  WEFT_BACKING_REACHES_ALL};
	struct weft_attachment *a;
	const char *why;

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		struct weft_backing lacking = plain;

		lacking.can &= ~needed[i];
		why = NULL;
		assert_int_equal(weft_open_attach(&lacking, "one", true, &a, &why), -EOPNOTSUPP);
		assert_non_null(strstr(why, "stands on"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_apart, end),
		cmocka_unit_test_teardown(test_death, end),
		cmocka_unit_test_teardown(test_sleep, end),
		cmocka_unit_test_teardown(test_room, end),
		cmocka_unit_test_teardown(test_lock, end),
		cmocka_unit_test_teardown(test_slices, end),
		cmocka_unit_test_teardown(test_slice_is_full, end),
		cmocka_unit_test_teardown(test_no_such_host, end),
		cmocka_unit_test(test_lacking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
