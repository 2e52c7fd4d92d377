/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A fork's child has a copy of what its parent has opened, and opens devices of its own beside it. Whichever
 * of the inherited objects it closes, and whenever: its own keep working, and so do the parent's.
 */
#include "rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"

#define BYTES	    64
#define PATIENCE_MS 20000

/* What opens the device: libibverbs, librdmacm or both. */
enum by {
	VERBS = 1,
	RDMACM = 2,
	BOTH = VERBS | RDMACM,
};

/* ---- A connection by librdmacm between two identifiers of one process ---- */

struct meeting {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *from, *to;
};

static struct rdma_cm_id *expect(struct meeting *m, enum rdma_cm_event_type type)
{
	struct pollfd pollfd = {.fd = m->channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (poll(&pollfd, 1, PATIENCE_MS) != 1)
		fail_msg("no %s", rdma_event_str(type));
	assert_int_equal(rdma_get_cm_event(m->channel, &event), 0);
	if (event->event != type)
		fail_msg("%s instead of %s", rdma_event_str(event->event), rdma_event_str(type));
	id = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	return id;
}

static struct rdma_cm_id *make_id(struct meeting *m)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(m->channel, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static void meet(struct meeting *m)
{
	struct rdma_conn_param param = {.qp_num = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
	struct sockaddr *address = (struct sockaddr *)&in;

	in.sin_port = rdma_get_src_port(m->listener);
	m->from = make_id(m);
	assert_int_equal(rdma_resolve_addr(m->from, NULL, address, PATIENCE_MS), 0);
	expect(m, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(m->from, PATIENCE_MS), 0);
	expect(m, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(m->from, &param), 0);
	m->to = expect(m, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_accept(m->to, &param), 0);
	expect(m, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_establish(m->from), 0);
	expect(m, RDMA_CM_EVENT_ESTABLISHED);
}

static void part(struct meeting *m)
{
	assert_int_equal(rdma_disconnect(m->from), 0);
	assert_ptr_equal(expect(m, RDMA_CM_EVENT_DISCONNECTED), m->to);
	assert_int_equal(rdma_disconnect(m->to), 0);
	assert_ptr_equal(expect(m, RDMA_CM_EVENT_DISCONNECTED), m->from);
	assert_int_equal(rdma_destroy_id(m->from), 0);
	assert_int_equal(rdma_destroy_id(m->to), 0);
}

static void begin(struct meeting *m)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};

	m->channel = rdma_create_event_channel();
	assert_non_null(m->channel);
	m->listener = make_id(m);
	assert_int_equal(rdma_bind_addr(m->listener, (struct sockaddr *)&in), 0);
	assert_int_equal(rdma_listen(m->listener, 4), 0);
	meet(m);
}

/* The order in which users of librdmacm end its objects, and finalizers of languages do. */
static void end(struct meeting *m)
{
	assert_int_equal(rdma_destroy_id(m->from), 0);
	assert_int_equal(rdma_destroy_id(m->to), 0);
	assert_int_equal(rdma_destroy_id(m->listener), 0);
	rdma_destroy_event_channel(m->channel);
}

/* ---- All that one process has ---- */

struct devices {
	enum by by;
	struct rig rig;
	struct ibv_mr *mr;
	struct meeting meeting;
};

static struct devices open_devices(enum by by)
{
	struct devices d = {.by = by};

	if (by & VERBS) {
		rig_open(&d.rig);
		rig_connect(&d.rig, &(struct rig_wish){0});
		d.mr = rig_region(d.rig.pd, BYTES);
	}
	if (by & RDMACM)
		begin(&d.meeting);
	return d;
}

/* The connection from before works, and so does a new one. */
static void work(struct devices *d)
{
	if (d->by & VERBS) {
		char *at = d->mr->addr;

		at[0] = 1;
		at[BYTES / 2] = 0;
		assert_int_equal(rig_rdma(d->rig.qp[0], IBV_WR_RDMA_WRITE, 1, d->mr, at, BYTES / 2,
					  (uintptr_t)at + BYTES / 2, d->mr->rkey),
				 0);
		rig_expect(d->rig.cq[0], IBV_WC_SUCCESS, 1);
		assert_int_equal(at[BYTES / 2], 1);
	}
	if (d->by & RDMACM) {
		part(&d->meeting);
		meet(&d->meeting);
	}
}

static void close_devices(struct devices *d)
{
	if (d->by & VERBS) {
		rig_region_end(d->mr);
		rig_close(&d->rig);
	}
	if (d->by & RDMACM)
		end(&d->meeting);
}

/* The child closes what its parent has opened. */
static void close_inherited(struct devices *d)
{
	if (d->by & VERBS)
		assert_int_equal(ibv_close_device(d->rig.context), 0);
	if (d->by & RDMACM)
		end(&d->meeting);
}

/* Ends the inherited objects one by one in an unusual order, as finalizers may. */
static void end_inherited(struct devices *d)
{
	if (!(d->by & VERBS))
		return;
	assert_int_equal(ibv_dereg_mr(d->mr), 0);
	assert_int_equal(ibv_dealloc_pd(d->rig.pd), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_cq(d->rig.cq[i]), 0);
		assert_int_equal(ibv_destroy_qp(d->rig.qp[i]), 0);
	}
	assert_int_equal(ibv_destroy_comp_channel(d->rig.channel), 0);
	/* nothing can be made with the inherited ones */
	assert_null(ibv_create_cq(d->rig.context, 1, NULL, NULL, 0));
	assert_null(ibv_reg_mr(d->rig.pd, d, 1, 0));
}

/* ---- The table ---- */

enum closing {
	NOTHING,
	INHERITED_FIRST, /* before the child opens its own */
	INHERITED_LAST,
	/* a program may have two pointers to a context, as the driver of a card lets it */
	INHERITED_TWICE,
	INHERITED_OBJECTS,
	OWN,
	OWN_AND_INHERITED,
	CLOSINGS,
};

static const char *const closings[] = {"nothing",
				       "the inherited, first",
				       "the inherited, last",
				       "the inherited, first and last",
				       "what was made in the inherited",
				       "its own",
				       "its own, then the inherited"};

static void live(struct devices *inherited, enum by by, enum closing closing)
{
	struct devices own;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* so that the child does not go on with the tests of its parent */
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	if (closing == INHERITED_FIRST || closing == INHERITED_TWICE)
		close_inherited(inherited);
	own = open_devices(by);
	assert_true(!(by & inherited->by & VERBS) || own.rig.context != inherited->rig.context);
	if (closing == INHERITED_OBJECTS)
		end_inherited(inherited);
	if (closing == OWN || closing == OWN_AND_INHERITED) {
		close_devices(&own);
		own = open_devices(by);
	}
	if (closing == INHERITED_LAST || closing == OWN_AND_INHERITED)
		close_inherited(inherited);
	if (closing == INHERITED_TWICE && inherited->by & VERBS)
		assert_int_equal(ibv_close_device(inherited->rig.context), 0);
	work(&own);
	close_devices(&own);
}

static void child(struct devices *inherited, enum by by, enum closing closing)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		live(inherited, by, closing);
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		fail_msg("opened by %d, in the child by %d, which closes %s: status %x",
			 inherited->by, by, closings[closing], (unsigned int)status);
}

static void table(enum by before)
{
	struct devices d = open_devices(before);

	for (enum by by = VERBS; by <= BOTH; by++) {
		for (enum closing closing = 0; closing < CLOSINGS; closing++) {
			child(&d, by, closing);
			work(&d);
		}
	}
	close_devices(&d);
}

static void by_verbs(void **state)
{
	table(VERBS);
}

static void by_rdmacm(void **state)
{
	table(RDMACM);
}

static void by_both(void **state)
{
	table(BOTH);
}

/* The child of a child has inherited devices of two generations. */
static void grandchild(void **state)
{
	struct devices first = open_devices(BOTH), second;
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		second = open_devices(BOTH);
		child(&first, BOTH, INHERITED_LAST);
		child(&second, BOTH, OWN_AND_INHERITED);
		close_inherited(&first);
		work(&second);
		close_devices(&second);
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	work(&first);
	close_devices(&first);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_verbs),
		cmocka_unit_test(by_rdmacm),
		cmocka_unit_test(by_both),
		cmocka_unit_test(grandchild),
	};

	return cmocka_run_group_tests_name("forked", tests, make_pool, remove_pool);
}
