/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* WEFT_EXPLAIN: a call of librdmacm that fails says in one line what is wrong, with the wrong value. */
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../abi/pool.h"
#include "../verbs/told.h"

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id, *bound, *routed;

static struct sockaddr *address(uint32_t ip, uint16_t port)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htobe16(port), .sin_addr.s_addr = htobe32(ip)};
	return (struct sockaddr *)&in;
}

static void pass_event(void)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	rdma_ack_cm_event(event);
}

static int begin(void **state)
{
	channel = rdma_create_event_channel();
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(bound, address(INADDR_LOOPBACK, 0)), 0);
	assert_int_equal(rdma_create_id(channel, &routed, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(routed, NULL, address(INADDR_LOOPBACK, 7), 1000), 0);
	pass_event();
	assert_int_equal(rdma_resolve_route(routed, 1000), 0);
	pass_event();
	told_begin();
	return 0;
}

static int end(void **state)
{
	told_end();
	rdma_destroy_id(routed);
	rdma_destroy_id(bound);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return 0;
}

/* The call must have failed with that error, and one line, this one, must have said why. */
static void assert_told(int returned, int error, const char *call, const char *why)
{
	int was = errno;
	char line[256];

	told_end();
	snprintf(line, sizeof(line), "weft: %s: errno %d: %s; %s(3)", call, error, why, call);
	if (told_lines((const char *[]){line}, 1) != 1 || told_lines(NULL, 0) != 1) {
		told_show();
		fail_msg("expected: %s", line);
	}
	assert_int_equal(returned, -1);
	assert_int_equal(was, error);
	told_begin();
}

static void binding(void **state)
{
	struct sockaddr other = {.sa_family = AF_UNIX};
	char why[80];

	assert_told(rdma_bind_addr(NULL, address(INADDR_LOOPBACK, 0)), EINVAL, "rdma_bind_addr",
		    "no identifier is given");
	assert_told(rdma_bind_addr(id, NULL), EINVAL, "rdma_bind_addr", "no address is given");
	assert_told(rdma_bind_addr(id, &other), EAFNOSUPPORT, "rdma_bind_addr",
		    "address family 1 is neither IPv4 nor IPv6");
	assert_told(rdma_bind_addr(id, address(0xc6336401, 0)), EADDRNOTAVAIL, "rdma_bind_addr",
		    "::ffff:198.51.100.1 is no address of this device");
	snprintf(why, sizeof(why), "port %u of ::ffff:127.0.0.1 is another identifier's",
		 be16toh(rdma_get_src_port(bound)));
	assert_told(rdma_bind_addr(id, address(INADDR_LOOPBACK, be16toh(rdma_get_src_port(bound)))),
		    EADDRINUSE, "rdma_bind_addr", why);
	assert_told(rdma_bind_addr(bound, address(INADDR_LOOPBACK, 0)), EINVAL, "rdma_bind_addr",
		    "the identifier's state is bound: it must be new");
}

static void resolving(void **state)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	assert_told(rdma_resolve_addr(id, NULL, NULL, 1), EINVAL, "rdma_resolve_addr",
		    "no address is given");
	assert_told(rdma_resolve_addr(bound, NULL, (struct sockaddr *)&v6, 1), EINVAL,
		    "rdma_resolve_addr", "from address family 2 there is no way to family 10");
	assert_told(rdma_resolve_addr(routed, NULL, address(INADDR_LOOPBACK, 7), 1), EINVAL,
		    "rdma_resolve_addr",
		    "the identifier's state is route resolved: it must be new or bound");
}

static void listening(void **state)
{
	assert_told(rdma_listen(NULL, 1), EINVAL, "rdma_listen", "no identifier is given");
	assert_told(rdma_listen(routed, 1), EINVAL, "rdma_listen",
		    "the identifier's state is route resolved: it must be new or bound");
}

static void listening_at_a_shared_port(void **state)
{
	struct rdma_cm_id *both[2];
	uint16_t port = 0;
	char why[80];
	int yes = 1;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdma_create_id(channel, &both[i], NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_set_option(both[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
						 &yes, sizeof(yes)),
				 0);
		assert_int_equal(rdma_bind_addr(both[i], address(INADDR_LOOPBACK, port)), 0);
		port = be16toh(rdma_get_src_port(both[0]));
	}
	snprintf(why, sizeof(why),
		 "port %u is another identifier's, too: one that listens has its port alone", port);
	assert_told(rdma_listen(both[0], 1), EADDRINUSE, "rdma_listen", why);
	rdma_destroy_id(both[1]);
	rdma_destroy_id(both[0]);
}

static void connecting(void **state)
{
	struct rdma_conn_param deep = {.responder_resources = 17, .initiator_depth = 1};
	struct rdma_conn_param much = {.private_data = &deep, .private_data_len = 57};
	struct rdma_conn_param none = {.private_data_len = 3};

	assert_told(rdma_connect(bound, NULL), EINVAL, "rdma_connect",
		    "the identifier's state is bound: it must be route resolved");
	assert_told(rdma_connect(routed, &deep), EINVAL, "rdma_connect",
		    "responder_resources is 17, initiator_depth 1: each may be up to 16, or 255");
	assert_told(rdma_connect(routed, &much), EINVAL, "rdma_connect",
		    "57 bytes of private data: the message has room for 56");
	assert_told(rdma_connect(routed, &none), EINVAL, "rdma_connect",
		    "private_data_len is 3, and private_data NULL");
}

static rlim_t allow_descriptors(rlim_t n)
{
	struct rlimit limit;
	rlim_t was;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	was = limit.rlim_cur;
	limit.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return was;
}

/* Without a descriptor the listener cannot be looked for: that is the reason of the event. A port is released
 * all the same. */
static void without_descriptors(void **state)
{
	const char *line = "weft: RDMA_CM_EVENT_UNREACHABLE: errno 24: Too many open files; "
			   "rdma_get_cm_event(3)";
	uint16_t port = be16toh(rdma_get_src_port(bound));
	struct rdma_cm_event *event;
	rlim_t was = allow_descriptors(0);

	assert_int_equal(rdma_connect(routed, NULL), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event->status, -EMFILE);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(bound), 0);
	allow_descriptors(was);
	told_end();
	assert_int_equal(told_lines(&line, 1), 1);
	assert_int_equal(told_lines(NULL, 0), 1);
	told_begin();
	assert_int_equal(rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(bound, address(INADDR_LOOPBACK, port)), 0);
}

static void accepting(void **state)
{
	assert_told(rdma_accept(NULL, NULL), EINVAL, "rdma_accept", "no identifier is given");
	assert_told(rdma_accept(routed, NULL), EINVAL, "rdma_accept",
		    "no request waits here: the connection's state is idle");
}

static void making_queue_pairs(void **state)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_pd far = {0};
	char why[80];

	assert_told(rdma_create_qp(id, NULL, &attr), EINVAL, "rdma_create_qp",
		    "the identifier's state is new: it must be address resolved");
	snprintf(why, sizeof(why), "pd is %p: it must be of the identifier's device", (void *)&far);
	assert_told(rdma_create_qp(routed, &far, &attr), EINVAL, "rdma_create_qp", why);
	assert_int_equal(rdma_create_qp(routed, NULL, &attr), 0);
	snprintf(why, sizeof(why), "the identifier has QP 0x%x already", routed->qp->qp_num);
	assert_told(rdma_create_qp(routed, NULL, &attr), EINVAL, "rdma_create_qp", why);
	rdma_destroy_qp(routed);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(binding),	  CASE(resolving),
		CASE(listening),  CASE(listening_at_a_shared_port),
		CASE(connecting), CASE(without_descriptors),
		CASE(accepting),  CASE(making_queue_pairs),
	};

	setenv("WEFT_EXPLAIN", "1", 1);
	return cmocka_run_group_tests(tests, make_pool, remove_pool);
}
