/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A peer that dies, and whose number in the pool another process has at once, which is asked, too. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "world.h"

#define MSECOND 1000000ull
#define TABLE	512u /* as many lists of connections as the agent has */

static struct rdma_event_channel *channel;

static void expect_event(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	rdma_ack_cm_event(event);
}

static void expect_no_event(void)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static struct weft_mad expect_sent(enum weft_mad_kind kind)
{
	uint8_t wire[WEFT_MAD_BYTES];
	struct weft_mad mad;
	uint16_t to;

	assert_true(world_posted(&to, wire));
	assert_int_equal(weft_mad_decode(wire, sizeof(wire), &mad), 0);
	assert_int_equal(mad.kind, kind);
	return mad;
}

static struct rdma_cm_id *request(struct weft_mad *req)
{
	struct rdma_conn_param param = {.qp_num = 0x99};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htobe16(7471),
				 .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(id, &param), 0);
	*req = expect_sent(WEFT_MAD_REQ);
	return id;
}

static struct rdma_cm_id *connection(struct weft_mad *req)
{
	struct rdma_cm_id *id = request(req);
	struct weft_mad rep = {.kind = WEFT_MAD_REP,
			       .tid = req->tid,
			       .local_id = 0x77,
			       .remote_id = req->local_id,
			       .rep = {.qpn = 0x1234, .psn = 1, .rnr_retries = 7}};
	uint8_t wire[WEFT_MAD_BYTES];

	weft_mad_encode(&rep, wire);
	world_arrive(WORLD_PEER, wire);
	expect_event(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_establish(id), 0);
	expect_sent(WEFT_MAD_RTU);
	return id;
}

/* One that stands in the same list as `other`, and so in front of it. */
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

/* That the next one lives does not hide it. */
static void is_missed(void **state)
{
	struct rdma_cm_id *to_the_dead, *to_the_next;
	struct weft_mad req;

	to_the_dead = connection(&req);
	world.before[WORLD_PEER]++;
	to_the_next = request_in_front_of(&req);
	world_pass(101 * MSECOND);
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
	world_pass(1000 * MSECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT);
	expect_no_event();
	assert_int_equal(rdma_destroy_id(to_the_dead), 0);
	assert_int_equal(rdma_destroy_id(to_the_next), 0);
}

/* Nor does its death end what the next one has begun. */
static void takes_none_along(void **state)
{
	struct rdma_cm_id *to_the_dead, *to_the_next;
	struct weft_mad req, next;

	to_the_dead = connection(&req);
	world.before[WORLD_PEER]++;
	to_the_next = connection(&next);
	world_pass(101 * MSECOND);
	expect_event(RDMA_CM_EVENT_DISCONNECTED);
	world_pass(1000 * MSECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT);
	expect_no_event();
	assert_int_equal(rdma_disconnect(to_the_next), 0);
	assert_int_equal(expect_sent(WEFT_MAD_DREQ).local_id, next.local_id);
	assert_int_equal(rdma_destroy_id(to_the_dead), 0);
	assert_int_equal(rdma_destroy_id(to_the_next), 0);
}

static int begin(void **state)
{
	world_reset();
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	return fcntl(channel->fd, F_SETFL, O_NONBLOCK);
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
		cmocka_unit_test_setup_teardown(is_missed, begin, end),
		cmocka_unit_test_setup_teardown(takes_none_along, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
