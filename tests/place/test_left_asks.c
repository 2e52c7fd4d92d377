/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A thread that waits for the helper of another member gives up while that helper is in the middle of what it
 * was asked: the thread's next ask leaves the helper's bytes alone. All of libibverbs in one program.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "late.h"
#include "pool/format_ask.h"
#include "pool/format_qp.h"
#include "pool/format_region.h"
#include "process/process.h"

#define BYTES	    1000u
#define HOLD_US	    200000
#define PATIENCE_US 1000000ul /* after which an ask is given up (process/ask.c) */

static struct weft_grant grant;

/* The owner's memory from there on, with the grant of its end 3. */
static struct weft_in_place memory_at(uint32_t at)
{
	uint32_t qp = owner_meeting->theirs[3] & (WEFT_QPS - 1);
	struct weft_pool *pool = weft_process.pool;

	assert_int_equal(weft_pool_see_qp(pool, qp), 0);
	assert_int_equal(weft_pool_see_mr(pool, owner_meeting->rkey >> WEFT_KEY_BITS), 0);
	grant = (struct weft_grant){&pool->qps[qp].conn, atomic_load(&pool->qps[qp].conn),
				    pool->qps[qp].owner, 0};
	return (struct weft_in_place){.grant = &grant,
				      .va = (uintptr_t)owner_meeting->memory + at,
				      .id = pool->mrs[owner_meeting->rkey >> WEFT_KEY_BITS].id};
}

static int put(uint32_t at, uint8_t fill)
{
	struct weft_in_place memory = memory_at(at);
	uint8_t here[BYTES];

	memset(here, fill, sizeof(here));
	return weft_reach(&weft_process, weft_caller(), &memory, here, sizeof(here), true);
}

static int add(uint32_t at, uint64_t *old)
{
	struct weft_in_place memory = memory_at(at);

	return weft_reach_atomic(&weft_process, weft_caller(), &memory, true, 5, 0, old);
}

static void is_all(uint32_t from, uint8_t byte)
{
	for (uint32_t i = from; i < from + BYTES; i++)
		if (owner_meeting->memory[i] != byte)
			fail_msg("byte %u is %02x, not %02x", i, owner_meeting->memory[i], byte);
}

static void *let_go_soon(void *later_us)
{
	usleep(HOLD_US + (useconds_t)(uintptr_t)later_us);
	owner_let_go();
	return NULL;
}

static void give_up_a_write(uint8_t fill)
{
	memset(owner_meeting->memory, 0, OWNER_BYTES);
	assert_int_equal(put(4096, fill), 0);
	owner_hold(OWNER_ANSWERING);
	assert_int_equal(put(0, fill), -ETIMEDOUT);
	owner_await_held();
}

/* The next ask waits for the helper, and then is carried out as usual. */
static void next_waits(void **state)
{
	uint64_t old = 1;
	pthread_t thread;

	for (int atomic = 0; atomic < 2; atomic++) {
		give_up_a_write(0xaa);
		assert_int_equal(pthread_create(&thread, NULL, let_go_soon, NULL), 0);
		assert_int_equal(atomic ? add(8192, &old) : put(8192, 0xbb), 0);
		pthread_join(thread, NULL);
		is_all(0, 0xaa);
		if (!atomic)
			is_all(8192, 0xbb);
	}
	assert_int_equal(old, 0);
	assert_int_equal(owner_meeting->memory[8192], 5);
}

/* An ask that waits in vain asks nothing, and changes nothing of what was asked before. */
static void next_gives_up(void **state)
{
	struct weft_pool_ask before;
	uint64_t old;

	give_up_a_write(0xaa);
	before = *weft_caller()->ask;
	assert_int_equal(put(8192, 0xbb), -ETIMEDOUT);
	assert_int_equal(add(8192, &old), -ETIMEDOUT);
	assert_memory_equal(&before, weft_caller()->ask, sizeof(before));
	owner_let_go();
	assert_int_equal(put(4096, 0xcc), 0);
	is_all(0, 0xaa);
	is_all(4096, 0xcc);
	is_all(8192, 0);
}

/* An atomic whose helper is late is not given up while that is in the middle of it: it would be carried out again. */
static void atomic_waits(void **state)
{
	static const enum owner_place steps[] = {OWNER_ANSWERING, OWNER_APPLIED};
	pthread_t thread;

	memset(owner_meeting->memory, 0, OWNER_BYTES);
	for (size_t i = 0; i < COUNT(steps); i++) {
		uint64_t old = 1;

		owner_hold(steps[i]);
		assert_int_equal(pthread_create(&thread, NULL, let_go_soon, (void *)PATIENCE_US),
				 0);
		assert_int_equal(add(0, &old), 0);
		pthread_join(thread, NULL);
		assert_int_equal(old, 5 * i);
		assert_int_equal(owner_meeting->memory[0], 5 * (i + 1));
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(next_waits),
		CASE(next_gives_up),
		CASE(atomic_waits),
	};

	if (owner_prepare())
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("left-asks", tests, make_pool, remove_pool);
}
