/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process's connection manager against a world that the test plays: which datagrams it sends, which
 * events it makes, and that it leaves nothing behind.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ends.h"
#include "world.h"

/* ---- Ends ---- */

static struct rdma_cm_id *listen_at(uint16_t port, enum rdma_port_space ps, int backlog)
{
	struct rdma_cm_id *id = make_id(ps);

	assert_int_equal(rdma_bind_addr(id, loopback(port)), 0);
	assert_int_equal(rdma_listen(id, backlog), 0);
	return id;
}

/* A request of the peer, number n. */
static struct weft_mad make_request(uint32_t n, uint16_t port)
{
	struct weft_mad req = {.kind = WEFT_MAD_REQ,
			       .tid = n,
			       .local_id = 0x7000 + n,
			       .req = {.service_id = (uint64_t)RDMA_PS_TCP << 16 | port,
				       .qpn = QPN,
				       .responder_resources = 4,
				       .initiator_depth = 3,
				       .remote_timeout = 20,
				       .local_timeout = 20,
				       .retries = 7,
				       .rnr_retries = 7,
				       .cm_retries = 15,
				       .mtu = 5,
				       .path.ack_timeout = 17}};
	struct weft_mad_ip ip = {.port = 5555,
				 .src = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1},
				 .dst = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

	weft_mad_put_ip(req.private_data, &ip);
	memcpy(req.private_data + WEFT_MAD_IP_BYTES, "hello", 6);
	return req;
}

static struct rdma_cm_id *take_request(struct rdma_cm_id *listener)
{
	struct rdma_cm_event *event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = event->id;

	assert_ptr_equal(event->listen_id, listener);
	assert_ptr_equal(id->context, listener->context);
	rdma_ack_cm_event(event);
	return id;
}

static void destroy(struct rdma_cm_id *id)
{
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- The side that connects ---- */

/* The fields of the request that a kernel on the other side reads. */
static void request_says(void **state)
{
	struct weft_mad_ip ip;
	struct weft_mad req;
	struct rdma_cm_id *id;

	param.private_data = "private";
	param.private_data_len = 7;
	id = request(&req);
	param.private_data_len = 0;
	assert_int_equal(req.req.service_id, 0x01060000 | PORT);
	assert_int_equal(req.req.qpn, param.qp_num);
	assert_int_equal(req.req.pkey, 0xffff);
	assert_int_equal(weft_mad_get_ip(req.private_data, &ip), 0);
	assert_int_equal(ip.port, be16toh(rdma_get_src_port(id)));
	assert_int_equal(ip.dst[12], 127);
	assert_memory_equal(req.private_data + WEFT_MAD_IP_BYTES, "private", 8);
	destroy(id);
	assert_int_equal(expect_sent(WEFT_MAD_REJ).rej.reason, WEFT_REJ_TIMEOUT);
}

static void whole_life(void **state)
{
	struct weft_mad req;
	struct rdma_cm_id *id = open_active(&req);

	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(expect_sent(WEFT_MAD_DREQ).dreq_qpn, QPN);
	expect_no_event();
	arrive_answer(WEFT_MAD_DREP, &req);
	expect_event(RDMA_CM_EVENT_DISCONNECTED, 0);
	world_pass(SECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy(id);
	expect_silence();
}

static void peer_disconnects(void **state)
{
	struct weft_mad req;
	struct rdma_cm_id *id = open_active(&req);

	arrive_answer(WEFT_MAD_DREQ, &req);
	expect_event(RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_silence();
	assert_int_equal(rdma_disconnect(id), 0);
	expect_sent(WEFT_MAD_DREP);
	/* the peer has not got the DREP, and sends its DREQ again */
	arrive_answer(WEFT_MAD_DREQ, &req);
	expect_sent(WEFT_MAD_DREP);
	world_pass(SECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_no_event();
	destroy(id);
}

static void rejected(void **state)
{
	struct weft_mad req, rej;
	struct rdma_cm_id *id = request(&req);
	struct rdma_cm_event *event;

	rej = answer(WEFT_MAD_REJ, &req);
	rej.rej = (struct weft_mad_rej){WEFT_ABOUT_REQ, WEFT_REJ_CONSUMER};
	memcpy(rej.private_data, "no", 3);
	arrive(&rej);
	event = next_event(RDMA_CM_EVENT_REJECTED, WEFT_REJ_CONSUMER);
	assert_int_equal(event->param.conn.private_data_len, 148);
	assert_string_equal(event->param.conn.private_data, "no");
	rdma_ack_cm_event(event);
	destroy(id);
	expect_silence();
}

/* The request is sent again as long as the kernel does it: 16 times in all, 9.1 s apart. */
static void never_answered(void **state)
{
	struct weft_mad req;
	struct rdma_cm_id *id = request(&req);

	for (int i = 0; i < 15; i++) {
		world_pass(9000 * MSECOND);
		expect_silence();
		world_pass(127 * MSECOND);
		expect_sent(WEFT_MAD_REQ);
		expect_no_event();
	}
	world_pass(10 * SECOND);
	expect_sent(WEFT_MAD_REJ);
	expect_event(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	destroy(id);
	expect_silence();
}

/* Without a listener the event is a rejection; when the listener cannot be looked for, it is not, as no peer
 * has answered. */
static void nobody_listens(void **state)
{
	static const struct {
		int found, status, event;
	} cases[] = {{-ECONNREFUSED, WEFT_REJ_INVALID_SERVICE_ID, RDMA_CM_EVENT_REJECTED},
		     {-EMFILE, -EMFILE, RDMA_CM_EVENT_UNREACHABLE}};

	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *id = resolve(RDMA_PS_TCP);

		world.found = cases[i].found;
		assert_int_equal(rdma_connect(id, &param), 0);
		expect_silence();
		expect_event((enum rdma_cm_event_type)cases[i].event, cases[i].status);
		destroy(id);
	}
}

/* The listener was found for the first request, but cannot be looked for when it is sent again. */
static void nobody_can_be_asked_again(void **state)
{
	struct weft_mad req;
	struct rdma_cm_id *id = request(&req);

	world.found = -ENOMEM;
	world_pass(10 * SECOND);
	expect_event(RDMA_CM_EVENT_UNREACHABLE, -ENOMEM);
	destroy(id);
}

/* The port is bound, but its owner does not listen yet: the request is sent once it does. */
static void listens_late(void **state)
{
	struct rdma_cm_id *id = resolve(RDMA_PS_TCP);

	world.found = -EAGAIN;
	assert_int_equal(rdma_connect(id, &param), 0);
	world_pass(50 * MSECOND);
	expect_silence();
	expect_no_event();
	world.found = 0;
	world_pass(2 * MSECOND);
	expect_sent(WEFT_MAD_REQ);
	destroy(id);
	expect_sent(WEFT_MAD_REJ);
}

static void listens_never(void **state)
{
	struct rdma_cm_id *id = resolve(RDMA_PS_TCP);

	world.found = -EAGAIN;
	assert_int_equal(rdma_connect(id, &param), 0);
	world_pass(WEFT_PORT_HELD_NS - 10 * MSECOND);
	expect_no_event();
	world_pass(20 * MSECOND);
	expect_event(RDMA_CM_EVENT_REJECTED, WEFT_REJ_INVALID_SERVICE_ID);
	destroy(id);
}

/* ---- The side that listens ---- */

/* An accept that fails refuses the request, as the kernel does. */
static void fails_to_accept(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 4), *id;
	struct rdma_conn_param too_much = param;
	struct weft_mad req = make_request(1, PORT);
	struct rdma_cm_event *event;
	uint8_t data[197] = {0};

	arrive(&req);
	event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = event->id;
	rdma_ack_cm_event(event);
	too_much.private_data = data;
	too_much.private_data_len = sizeof(data);
	assert_int_equal(rdma_accept(id, &too_much), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(expect_sent(WEFT_MAD_REJ).rej.reason, WEFT_REJ_CONSUMER);
	assert_int_equal(rdma_accept(id, &param), -1);
	destroy(id);
	destroy(listener);
}

static void accepts(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 4), *id;
	struct weft_mad req = make_request(1, PORT), rep, mad;
	struct rdma_cm_event *event;

	arrive(&req);
	event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = event->id;
	assert_string_equal(event->param.conn.private_data, "hello");
	assert_int_equal(event->param.conn.private_data_len, 56);
	assert_int_equal(event->param.conn.responder_resources, 3);
	assert_int_equal(event->param.conn.initiator_depth, 4);
	assert_int_equal(event->param.conn.qp_num, QPN);
	rdma_ack_cm_event(event);
	assert_int_equal(be16toh(rdma_get_dst_port(id)), 5555);
	assert_int_equal(be16toh(rdma_get_src_port(id)), PORT);
	arrive(&req); /* the request comes again */
	expect_sent(WEFT_MAD_MRA);
	assert_int_equal(rdma_accept(id, &param), 0);
	rep = expect_sent(WEFT_MAD_REP);
	assert_int_equal(rep.rep.qpn, param.qp_num);
	assert_int_equal(rep.remote_id, req.local_id);
	arrive(&req); /* the request comes once more, after the answer to it */
	expect_sent(WEFT_MAD_REP);
	expect_no_event();
	mad = answer(WEFT_MAD_RTU, &rep);
	arrive(&mad);
	expect_event(RDMA_CM_EVENT_ESTABLISHED, 0);
	arrive(&mad);
	expect_no_event();
	destroy(id);
	expect_sent(WEFT_MAD_DREQ);
	destroy(listener);
	expect_silence();
}

/* The RTU is lost, but the program tells that its queue pair has received (rdma_notify). */
static void notified(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 4), *id;
	struct weft_mad req = make_request(1, PORT);

	arrive(&req);
	id = take_request(listener);
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), 0);
	expect_no_event();
	assert_int_equal(rdma_accept(id, &param), 0);
	expect_sent(WEFT_MAD_REP);
	assert_int_equal(rdma_notify(id, IBV_EVENT_COMM_EST), 0);
	expect_event(RDMA_CM_EVENT_ESTABLISHED, 0);
	destroy(id);
	expect_sent(WEFT_MAD_DREQ);
	destroy(listener);
}

static uint8_t timeout_of(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	int mask = 0;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_true(mask & IBV_QP_TIMEOUT);
	return attr.timeout;
}

static void set_ack_timeout(struct rdma_cm_id *id, uint8_t code)
{
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &code, 1),
			 0);
}

/* Of the passive end the queue pair's time-out is what REQ says, of the active one what REP makes of the path's; of both what the program
 * has set, if it has. */
static void ack_timeout(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 4), *id;
	struct weft_mad req = make_request(1, PORT), rep;

	arrive(&req);
	id = take_request(listener);
	assert_int_equal(timeout_of(id), req.req.path.ack_timeout);
	set_ack_timeout(id, 12);
	assert_int_equal(timeout_of(id), 12);
	destroy(id);
	expect_sent(WEFT_MAD_REJ);
	destroy(listener);

	id = request(&req);
	assert_int_equal(req.req.path.ack_timeout, 17);
	rep = answer(WEFT_MAD_REP, &req);
	rep.rep = (struct weft_mad_rep){.qpn = QPN, .psn = 1, .ack_delay = 16};
	arrive(&rep);
	expect_event(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(timeout_of(id), 18);
	destroy(id);
	expect_sent(WEFT_MAD_REJ);

	id = resolve(RDMA_PS_TCP);
	set_ack_timeout(id, 14);
	assert_int_equal(rdma_connect(id, &param), 0);
	req = expect_sent(WEFT_MAD_REQ);
	assert_int_equal(req.req.path.ack_timeout, 16);
	arrive_answer(WEFT_MAD_REP, &req);
	expect_event(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(timeout_of(id), 14);
	destroy(id);
	expect_sent(WEFT_MAD_REJ);
}

static void backlog(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 2), *ids[3];
	struct weft_mad req;

	for (uint32_t n = 0; n < 3; n++) {
		req = make_request(n, PORT);
		arrive(&req);
	}
	expect_silence(); /* the third is dropped, as the backlog is full, and comes again */
	ids[0] = take_request(listener);
	arrive(&req);
	ids[1] = take_request(listener);
	ids[2] = take_request(listener);
	expect_no_event();
	for (int i = 0; i < 3; i++) {
		destroy(ids[i]);
		assert_int_equal(expect_sent(WEFT_MAD_REJ).rej.reason, WEFT_REJ_CONSUMER);
	}
	destroy(listener);
}

/* Requests that were not read end with their listener. */
static void listener_ends(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 0);
	struct weft_mad req;

	for (uint32_t n = 0; n < 3; n++) {
		req = make_request(n, PORT);
		arrive(&req);
	}
	destroy(listener);
	for (uint32_t n = 0; n < 3; n++)
		assert_int_equal(expect_sent(WEFT_MAD_REJ).remote_id, 0x7000 + n);
	expect_no_event();
	arrive(&req);
	assert_int_equal(expect_sent(WEFT_MAD_REJ).rej.reason, WEFT_REJ_INVALID_SERVICE_ID);
}

static void wrong_door(void **state)
{
	struct rdma_cm_id *tcp = listen_at(PORT, RDMA_PS_TCP, 0),
			  *udp = listen_at(PORT + 1, RDMA_PS_UDP, 0);
	struct weft_mad mad = make_request(1, PORT + 2);

	arrive(&mad); /* to a port on which nothing listens */
	assert_int_equal(expect_sent(WEFT_MAD_REJ).rej.reason, WEFT_REJ_INVALID_SERVICE_ID);
	mad.req.service_id = (uint64_t)RDMA_PS_UDP << 16 | (PORT + 1);
	arrive(&mad); /* to a service of datagrams */
	assert_int_equal(expect_sent(WEFT_MAD_REJ).rej.reason, WEFT_REJ_INVALID_SERVICE_ID);
	mad.req.service_id = 1ull << 32 | (uint64_t)RDMA_PS_TCP << 16 | PORT;
	arrive(&mad); /* of another service than rdma_cm's */
	expect_sent(WEFT_MAD_REJ);
	mad = make_request(1, PORT);
	mad.private_data[0] = 9;
	arrive(&mad); /* private data without the IP addresses */
	expect_sent(WEFT_MAD_REJ);
	mad.kind = WEFT_MAD_SIDR_REQ;
	mad.sidr_req.service_id = (uint64_t)RDMA_PS_TCP << 16 | PORT;
	mad.private_data[0] = 0;
	arrive(&mad);
	assert_int_equal(expect_sent(WEFT_MAD_SIDR_REP).sidr_rep.status, WEFT_SIDR_UNSUPPORTED);
	expect_no_event();
	destroy(tcp);
	destroy(udp);
}

/* The service of datagrams, without a connection: one side asks for a queue pair's number and Q_Key, the
 * other tells them. */
static void datagram_service(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_UDP, 0), *active, *id;
	struct weft_mad req, rep;
	struct rdma_cm_event *event;

	active = resolve(RDMA_PS_UDP);
	assert_int_equal(rdma_connect(active, &param), 0);
	req = expect_sent(WEFT_MAD_SIDR_REQ);
	assert_int_equal(req.sidr_req.service_id, 0x01110000 | PORT);
	arrive(&req); /* this process plays both sides */
	id = take_request(listener);
	assert_int_equal(rdma_accept(id, &param), 0);
	rep = expect_sent(WEFT_MAD_SIDR_REP);
	assert_int_equal(rep.local_id, req.local_id);
	arrive(&rep);
	event = next_event(RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(event->param.ud.qp_num, param.qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	rdma_ack_cm_event(event);
	destroy(active);
	destroy(id);
	destroy(listener);
	expect_silence();
}

static void datagram_service_refused(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_UDP, 0), *active, *id;
	struct weft_mad mad;

	active = resolve(RDMA_PS_UDP);
	assert_int_equal(rdma_connect(active, &param), 0);
	mad = expect_sent(WEFT_MAD_SIDR_REQ);
	arrive(&mad);
	id = take_request(listener);
	assert_int_equal(rdma_reject(id, "no", 2), 0);
	mad = expect_sent(WEFT_MAD_SIDR_REP);
	arrive(&mad);
	expect_event(RDMA_CM_EVENT_UNREACHABLE, WEFT_SIDR_REJECTED);
	destroy(active);
	destroy(id);
	destroy(listener);
}

static struct sockaddr *group(void)
{
	static struct sockaddr_in in = {.sin_family = AF_INET};

	in.sin_addr.s_addr = htobe32(0xefff0001);
	return (struct sockaddr *)&in;
}

static void groups(void **state)
{
	static const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, 239, 255, 0, 1};
	struct rdma_cm_join_mc_attr_ex attr = {.addr = group()};
	struct rdma_cm_id *id = make_id(RDMA_PS_UDP), *tcp = resolve(RDMA_PS_TCP);
	struct rdma_cm_event *event;

	/* the identifier has no device yet */
	assert_int_equal(rdma_join_multicast(id, group(), NULL), -1);
	assert_int_equal(rdma_join_multicast(tcp, group(), NULL), -1);
	assert_int_equal(rdma_resolve_addr(id, loopback(0), group(), 1000), 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	/* attributes without a field that is set */
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(rdma_join_multicast(id, group(), &world), 0);
	event = next_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_ptr_equal(event->param.ud.private_data, &world);
	assert_int_equal(event->param.ud.qp_num, 0xffffff);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(&event->param.ud.ah_attr.grh.dgid, gid, sizeof(gid));
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	assert_int_equal(rdma_leave_multicast(id, group()), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_join_multicast(id, group(), NULL), 0);
	expect_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	destroy(id);
	destroy(tcp);
}

/* ---- Addresses and messages of the program's own ---- */

static void names(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_UDP};
	struct rdma_addrinfo passive = {.ai_flags = RAI_PASSIVE}, *info, *copy;
	struct rdma_cm_id *id = make_id(RDMA_PS_TCP);

	assert_int_equal(rdma_query_addrinfo(id, &info), -1);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
	expect_event(WEFT_EVENT_ADDRINFO_RESOLVED, 0);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_int_equal(info->ai_qp_type, IBV_QPT_UD);
	assert_memory_equal(info->ai_dst_addr, loopback(7471), sizeof(struct sockaddr_in));
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, info, &copy), 0);
	assert_memory_equal(copy->ai_dst_addr, info->ai_dst_addr, info->ai_dst_len);
	rdma_freeaddrinfo(copy);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7471", &passive, &info), 0);
	assert_int_equal(info->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(info->ai_port_space, RDMA_PS_TCP);
	assert_memory_equal(info->ai_src_addr, loopback(7471), sizeof(struct sockaddr_in));
	assert_null(info->ai_dst_addr);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &info), -1);
	assert_int_equal(rdma_resolve_addrinfo(id, "nobody.invalid", NULL, &hints), 0);
	expect_event(WEFT_EVENT_ADDRINFO_ERROR, -ENODATA);
	hints.ai_flags = WEFT_RAI_SA;
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, "1", &hints), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	/* the new information is freed with the identifier */
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, "7471", NULL), 0);
	expect_event(WEFT_EVENT_ADDRINFO_RESOLVED, 0);
	destroy(id);
}

/* The loopback's addresses lead to no device, as with Linux, unless one of them is the device's own. */
static void bound_to_the_loopback(void **state)
{
	struct rdma_cm_id *own = make_id(RDMA_PS_TCP), *other = make_id(RDMA_PS_TCP);
	struct sockaddr_in second = *(struct sockaddr_in *)loopback(0);

	second.sin_addr.s_addr = htobe32(INADDR_LOOPBACK + 1);
	assert_int_equal(rdma_bind_addr(own, loopback(0)), 0);
	assert_non_null(own->verbs);
	assert_int_equal(rdma_bind_addr(other, (struct sockaddr *)&second), 0);
	assert_null(other->verbs);
	assert_int_equal(other->port_num, 0);
	assert_int_equal(rdma_listen(other, 0), 0);
	destroy(own);
	destroy(other);
}

static void own_events(void **state)
{
	struct rdma_cm_id *id = make_id(RDMA_PS_IB);
	uint64_t arg = 0x55667788aabbccdd;
	struct rdma_cm_event *event;

	assert_int_equal(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), -1);
	assert_int_equal(rdma_write_cm_event(id, WEFT_EVENT_USER, 0x11223344, arg), 0);
	event = next_event(WEFT_EVENT_USER, 0x11223344);
	assert_ptr_equal(event->id, id);
	assert_memory_equal(&event->param, &arg, sizeof(arg));
	rdma_ack_cm_event(event);
	destroy(id);
}

/* ---- The peer's process dies ---- */

/* The event is that of a host that refuses for its dead process: with private data, which are zeros. */
static void dies_before_it_answers(void **state)
{
	struct weft_mad req, none = {0};
	struct rdma_cm_id *id = request(&req);
	struct rdma_cm_event *event;

	world.dead[WORLD_PEER] = true;
	world_pass(101 * MSECOND);
	event = next_event(RDMA_CM_EVENT_REJECTED, WEFT_REJ_CONSUMER);
	assert_int_equal(event->param.conn.private_data_len, 148);
	assert_memory_equal(event->param.conn.private_data, none.private_data, 148);
	rdma_ack_cm_event(event);
	destroy(id);
}

static void dies_connected(void **state)
{
	struct weft_mad req;
	struct rdma_cm_id *id = open_active(&req);

	world.dead[WORLD_PEER] = true;
	world_pass(101 * MSECOND);
	expect_event(RDMA_CM_EVENT_DISCONNECTED, 0);
	world_pass(SECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_no_event();
	destroy(id);
	expect_silence();
}

/* The death is found out by the next datagram to the peer. */
static void dies_unnoticed(void **state)
{
	struct weft_mad req;
	struct rdma_cm_id *id = open_active(&req);

	world.dead[WORLD_PEER] = true;
	assert_int_equal(rdma_disconnect(id), 0);
	expect_event(RDMA_CM_EVENT_DISCONNECTED, 0);
	world_pass(SECOND);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	destroy(id);
}

static void dies_with_its_request(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 4), *id;
	struct weft_mad req = make_request(1, PORT);

	arrive(&req);
	id = take_request(listener);
	world.dead[WORLD_PEER] = true;
	world_pass(101 * MSECOND);
	expect_event(RDMA_CM_EVENT_REJECTED, WEFT_REJ_CONSUMER);
	assert_int_equal(rdma_accept(id, &param), -1);
	destroy(id);
	destroy(listener);
	expect_silence();
}

/* ---- The way of the datagrams ---- */

static void mailboxes_are_full(void **state)
{
	struct rdma_cm_id *a = resolve(RDMA_PS_TCP), *b = resolve(RDMA_PS_TCP);
	uint32_t first;

	world.full = true;
	assert_int_equal(rdma_connect(a, &param), 0);
	assert_int_equal(rdma_connect(b, &param), 0);
	world_pass(5 * MSECOND);
	expect_silence();
	world.full = false;
	world_pass(2 * MSECOND);
	first = expect_sent(WEFT_MAD_REQ).local_id;
	assert_int_equal(expect_sent(WEFT_MAD_REQ).local_id, first + 1);
	destroy(a);
	destroy(b);
}

/* A datagram that names this process's end, but comes from another process than its peer. */
static void from_another(void **state)
{
	uint8_t wire[WEFT_MAD_BYTES];
	struct weft_mad req, rep;
	struct rdma_cm_id *id = request(&req);
	uint16_t to;

	rep = answer(WEFT_MAD_REP, &req);
	weft_mad_encode(&rep, wire);
	world_arrive(WORLD_PEER + 1, wire);
	expect_no_event();
	assert_true(world_posted(&to, wire));
	assert_int_equal(to, WORLD_PEER + 1);
	assert_int_equal(weft_mad_decode(wire, sizeof(wire), &rep), 0);
	assert_int_equal(rep.rej.reason, WEFT_REJ_INVALID_COMM_ID);
	memset(wire, 0xff, sizeof(wire));
	world_arrive(WORLD_PEER, wire); /* no datagram of connection management */
	expect_silence();
	destroy(id);
	expect_sent(WEFT_MAD_REJ);
}

/* A peer that asks and gives up says so without this end's identifier, which it does not know yet. */
static void gives_up(void **state)
{
	struct rdma_cm_id *listener = listen_at(PORT, RDMA_PS_TCP, 4), *id;
	struct weft_mad req = make_request(1, PORT), rej;

	arrive(&req);
	id = take_request(listener);
	rej = (struct weft_mad){.kind = WEFT_MAD_REJ,
				.local_id = req.local_id,
				.rej = {WEFT_ABOUT_REQ, WEFT_REJ_TIMEOUT}};
	arrive(&rej);
	expect_event(RDMA_CM_EVENT_REJECTED, WEFT_REJ_TIMEOUT);
	destroy(id);
	destroy(listener);
}

/* ---- The program ---- */

static int end(void **state)
{
	expect_no_event();
	assert_int_equal(world.ports, 0);
	assert_true(weft_agent_run(world.now_ns) == UINT64_MAX);
	rdma_destroy_event_channel(channel);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ends_begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(request_says),
		CASE(whole_life),
		CASE(peer_disconnects),
		CASE(rejected),
		CASE(never_answered),
		CASE(nobody_listens),
		CASE(nobody_can_be_asked_again),
		CASE(listens_late),
		CASE(listens_never),
		CASE(fails_to_accept),
		CASE(accepts),
		CASE(notified),
		CASE(ack_timeout),
		CASE(backlog),
		CASE(listener_ends),
		CASE(wrong_door),
		CASE(datagram_service),
		CASE(gives_up),
		CASE(datagram_service_refused),
		CASE(groups),
		CASE(names),
		CASE(bound_to_the_loopback),
		CASE(own_events),
		CASE(from_another),
		CASE(mailboxes_are_full),
		CASE(dies_connected),
		CASE(dies_before_it_answers),
		CASE(dies_unnoticed),
		CASE(dies_with_its_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
