/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "ends.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct rdma_event_channel *channel;
struct rdma_conn_param param = {.qp_num = 0x99, .retry_count = 7, .rnr_retry_count = 7};

struct sockaddr *loopback(uint16_t port)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){.sin_family = AF_INET,
				  .sin_port = htobe16(port),
				  .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
	return (struct sockaddr *)&in;
}

/* ---- Events and datagrams ---- */

struct rdma_cm_event *next_event(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	assert_int_equal(event->status, status);
	return event;
}

void expect_event(enum rdma_cm_event_type type, int status)
{
	rdma_ack_cm_event(next_event(type, status));
}

void expect_no_event(void)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

struct weft_mad expect_sent(enum weft_mad_kind kind)
{
	uint8_t wire[WEFT_MAD_BYTES];
	struct weft_mad mad;
	uint16_t to;

	assert_true(world_posted(&to, wire));
	assert_int_equal(to, WORLD_PEER);
	assert_int_equal(weft_mad_decode(wire, sizeof(wire), &mad), 0);
	assert_int_equal(mad.kind, kind);
	return mad;
}

void expect_silence(void)
{
	uint8_t wire[WEFT_MAD_BYTES];
	uint16_t to;

	assert_false(world_posted(&to, wire));
}

void arrive(const struct weft_mad *mad)
{
	uint8_t wire[WEFT_MAD_BYTES];

	weft_mad_encode(mad, wire);
	world_arrive(WORLD_PEER, wire);
}

struct weft_mad answer(enum weft_mad_kind kind, const struct weft_mad *to)
{
	return (struct weft_mad){
		.kind = kind, .tid = to->tid, .local_id = 0x77, .remote_id = to->local_id};
}

void arrive_answer(enum weft_mad_kind kind, const struct weft_mad *to)
{
	struct weft_mad mad = answer(kind, to);

	if (kind == WEFT_MAD_REP)
		mad.rep = (struct weft_mad_rep){.qpn = QPN, .psn = 1, .rnr_retries = 7};
	if (kind == WEFT_MAD_DREQ)
		mad.dreq_qpn = param.qp_num;
	if (kind == WEFT_MAD_REJ)
		mad.rej = (struct weft_mad_rej){WEFT_ABOUT_REQ, WEFT_REJ_CONSUMER};
	arrive(&mad);
}

struct rdma_cm_id *make_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, &world, ps), 0);
	return id;
}

struct rdma_cm_id *resolve(enum rdma_port_space ps)
{
	struct rdma_cm_id *id = make_id(ps);

	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(PORT), 1000), 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

struct rdma_cm_id *request(struct weft_mad *req)
{
	struct rdma_cm_id *id = resolve(RDMA_PS_TCP);

	assert_int_equal(rdma_connect(id, &param), 0);
	*req = expect_sent(WEFT_MAD_REQ);
	return id;
}

struct rdma_cm_id *open_active(struct weft_mad *req)
{
	struct rdma_cm_id *id = request(req);

	arrive_answer(WEFT_MAD_REP, req);
	expect_event(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(rdma_establish(id), 0);
	expect_sent(WEFT_MAD_RTU);
	return id;
}

int ends_begin(void **state)
{
	world_reset();
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	return fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}
