/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A peer dies, and another process, to which this one connects as well, has its number in the pool at
 * once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ends.h"
#include "world.h"

#define TABLE 512u /* how many lists of connections the agent has */

/* A request whose connection is in the same list as `other`, in front of it. */
static struct rdma_cm_id *request_in_front_of(const struct weft_mad *other)
{
	struct weft_mad req;
	struct rdma_cm_id *id = request(&req);

	while (req.local_id % TABLE != other->local_id % TABLE) {
		assert_int_equal(rdma_destroy_id(id), 0);
		expect_sent(WEFT_MAD_REJ);
		id = request(&req);
	}
	return id;
}

/* The death is noticed although the process that now has the number lives. */
static void is_missed(void **state)
{
	struct rdma_cm_id *to_the_dead, *to_the_next;
	struct weft_mad req;

	to_the_dead = open_active(&req);
	world.before[WORLD_PEER]++;
	to_the_next = request_in_front_of(&req);
	world_pass(101 * MSECOND);
	expect_event(RDMA_CM_EVENT_DISCONNECTED, 0);
	world_pass(1000 * MSECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_no_event();
	assert_int_equal(rdma_destroy_id(to_the_dead), 0);
	assert_int_equal(rdma_destroy_id(to_the_next), 0);
}

/* The death does not end the connection to the process that now has the number. */
static void takes_none_along(void **state)
{
	struct rdma_cm_id *to_the_dead, *to_the_next;
	struct weft_mad req, next;

	to_the_dead = open_active(&req);
	world.before[WORLD_PEER]++;
	to_the_next = open_active(&next);
	world_pass(101 * MSECOND);
	expect_event(RDMA_CM_EVENT_DISCONNECTED, 0);
	world_pass(1000 * MSECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_no_event();
	assert_int_equal(rdma_disconnect(to_the_next), 0);
	assert_int_equal(expect_sent(WEFT_MAD_DREQ).local_id, next.local_id);
	assert_int_equal(rdma_destroy_id(to_the_dead), 0);
	assert_int_equal(rdma_destroy_id(to_the_next), 0);
}

static int end(void **state)
{
	assert_int_equal(world.ports, 0);
	rdma_destroy_event_channel(channel);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(is_missed, ends_begin, end),
		cmocka_unit_test_setup_teardown(takes_none_along, ends_begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
