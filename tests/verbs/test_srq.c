/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Shared receive queues: each verb and its errors, the limit event, which taker gets which receive, and the
 * receives that go back when queue pairs end and senders are killed.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"

#define DEPTH 16u
#define BYTES 256u
#define PAIRS 4

/* Senders complete into cq[0]; receivers, all of one shared queue, into cq[1] or cq[0]. */
struct ends {
	struct rig rig;
	struct ibv_srq *srq;
	struct ibv_qp *from[PAIRS], *to[PAIRS];
	struct ibv_mr *mr;
};

static struct ibv_srq *make(struct ibv_pd *pd, uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = {.attr = {max_wr, max_sge, 0}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	assert_non_null(srq);
	return srq;
}

static struct ibv_qp *make_qp(struct ends *e, enum ibv_qp_type type, struct ibv_cq *cq, bool shares)
{
	struct ibv_qp_init_attr init = rig_init(e->rig.cq[0], cq);
	struct ibv_qp *qp;

	init.qp_type = type;
	init.srq = shares ? e->srq : NULL;
	qp = ibv_create_qp(e->rig.pd, &init);
	assert_non_null(qp);
	assert_ptr_equal(qp->srq, init.srq);
	return qp;
}

static void open_ends(struct ends *e, enum ibv_qp_type type)
{
	memset(e, 0, sizeof(*e));
	rig_open(&e->rig);
	e->srq = make(e->rig.pd, DEPTH, 2);
	e->mr = rig_region(e->rig.pd, 2 * DEPTH * BYTES);
	for (int i = 0; i < PAIRS; i++) {
		e->from[i] = make_qp(e, type, e->rig.cq[0], false);
		e->to[i] = make_qp(e, type, e->rig.cq[i != 3], true);
		rig_modify(e->to[i], IBV_QPS_RTS, e->from[i]->qp_num);
		rig_modify(e->from[i], IBV_QPS_RTS, e->to[i]->qp_num);
	}
}

static void close_ends(struct ends *e)
{
	for (int i = 0; i < PAIRS; i++) {
		assert_int_equal(ibv_destroy_qp(e->from[i]), 0);
		assert_int_equal(ibv_destroy_qp(e->to[i]), 0);
	}
	assert_int_equal(ibv_destroy_srq(e->srq), 0);
	rig_region_end(e->mr);
	rig_close(&e->rig);
}

static int setup(void **state)
{
	static struct ends e;

	open_ends(&e, IBV_QPT_RC);
	*state = &e;
	return 0;
}

static int teardown(void **state)
{
	close_ends(*state);
	return 0;
}

static char *room(const struct ends *e, uint64_t i)
{
	return (char *)e->mr->addr + (i % DEPTH) * BYTES;
}

static char *bytes(const struct ends *e, uint64_t i)
{
	return (char *)e->mr->addr + (DEPTH + i % DEPTH) * BYTES;
}

static int post(struct ends *e, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)room(e, wr_id), BYTES, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
	int err;

	memset(room(e, wr_id), 0, BYTES);
	err = ibv_post_srq_recv(e->srq, &wr, &bad);
	if (err)
		assert_ptr_equal(bad, &wr);
	return err;
}

static void send_from(struct ends *e, int i, uint64_t n)
{
	memset(bytes(e, n), (int)n + 1, BYTES);
	assert_int_equal(rig_send(e->from[i], n, e->mr, bytes(e, n), BYTES), 0);
}

/* ---- The verbs ---- */

static void refuse(struct ibv_pd *pd, uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = {.attr = {max_wr, max_sge, 0}};

	errno = 0;
	assert_null(ibv_create_srq(pd, &init));
	assert_int_equal(errno, EINVAL);
}

static void create(void **state)
{
	struct ends *e = *state;
	struct ibv_pd *gone = ibv_alloc_pd(e->rig.context);
	struct ibv_srq_init_attr init = {.srq_context = e, .attr = {DEPTH, 1, 0}};
	struct ibv_device_attr limits;
	struct ibv_srq *srq;
	uint32_t wr, sge;

	assert_int_equal(ibv_query_device(e->rig.context, &limits), 0);
	wr = (uint32_t)limits.max_srq_wr;
	sge = (uint32_t)limits.max_srq_sge;
	assert_int_equal(ibv_dealloc_pd(gone), 0);
	refuse(NULL, 1, 1);
	refuse(gone, 1, 1);
	refuse((struct ibv_pd *)e->rig.cq[0], 1, 1);
	refuse(e->rig.pd, 0, 1);
	refuse(e->rig.pd, wr + 1, 1);
	refuse(e->rig.pd, 1, sge + 1);
	errno = 0;
	assert_null(ibv_create_srq(e->rig.pd, NULL));
	assert_int_equal(errno, EINVAL);
	gone = ibv_alloc_pd(e->rig.context);
	srq = ibv_create_srq(gone, &init);
	assert_non_null(srq);
	assert_ptr_equal(srq->srq_context, e);
	assert_ptr_equal(srq->context, e->rig.context);
	assert_ptr_equal(srq->pd, gone);
	assert_int_equal(ibv_dealloc_pd(gone), EBUSY);
	RIG_REFUSED(ibv_destroy_srq(NULL));
	RIG_REFUSED(ibv_destroy_srq((struct ibv_srq *)gone));
	assert_int_equal(ibv_destroy_srq(srq), 0);
	RIG_REFUSED(ibv_destroy_srq(srq));
	assert_int_equal(ibv_dealloc_pd(gone), 0);
	assert_int_equal(ibv_destroy_srq(make(e->rig.pd, wr, sge)), 0);
	assert_int_equal(ibv_destroy_srq(e->srq), EBUSY);
}

static void extended(void **state)
{
	struct ends *e = *state;
	struct ibv_srq_init_attr_ex init = {.attr = {DEPTH, 1, 0},
					    .comp_mask =
						    IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					    .pd = e->rig.pd,
					    .srq_type = IBV_SRQT_TM};
	struct ibv_srq *srq;

	errno = 0;
	assert_null(ibv_create_srq_ex(e->rig.context, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.srq_type = IBV_SRQT_BASIC;
	srq = ibv_create_srq_ex(e->rig.context, &init);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	init.pd = (struct ibv_pd *)e->srq;
	errno = 0;
	assert_null(ibv_create_srq_ex(e->rig.context, &init));
	assert_int_equal(errno, EINVAL);
}

static void query_and_modify(void **state)
{
	struct ends *e = *state;
	struct ibv_srq_attr attr = {0};

	RIG_REFUSED(ibv_query_srq(NULL, &attr));
	RIG_REFUSED(ibv_query_srq((struct ibv_srq *)e->rig.pd, &attr));
	RIG_REFUSED(ibv_query_srq(e->srq, NULL));
	assert_int_equal(ibv_query_srq(e->srq, &attr), 0);
	assert_int_equal(attr.max_wr, DEPTH);
	assert_int_equal(attr.max_sge, 2);
	assert_int_equal(attr.srq_limit, 0);
	RIG_REFUSED(ibv_modify_srq(NULL, &attr, IBV_SRQ_LIMIT));
	RIG_REFUSED(ibv_modify_srq((struct ibv_srq *)e->rig.pd, &attr, IBV_SRQ_LIMIT));
	RIG_REFUSED(ibv_modify_srq(e->srq, NULL, IBV_SRQ_LIMIT));
	RIG_REFUSED(ibv_modify_srq(e->srq, &attr, 1 << 7));
	attr.srq_limit = DEPTH + 1;
	RIG_REFUSED(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT));
	for (uint64_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(e, i), 0);
	attr.srq_limit = 5;
	assert_int_equal(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT), 0);
	attr.srq_limit = 0;
	assert_int_equal(ibv_query_srq(e->srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 5);
}

static void bad_posts(void **state)
{
	struct ends *e = *state;
	struct ibv_sge sge[3] = {0};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 3}, *bad = NULL;

	RIG_REFUSED(ibv_post_srq_recv(e->srq, &wr, &bad));
	assert_ptr_equal(bad, &wr);
	wr.num_sge = 0;
	/* such a queue pair has no receive queue of its own */
	RIG_REFUSED(ibv_post_recv(e->to[0], &wr, &bad));
	for (uint64_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(e, i), 0);
	assert_int_equal(post(e, 0), ENOMEM);
}

/* ---- Another size ---- */

static int resize(struct ibv_srq *srq, uint32_t max_wr)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr};

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static void refused_sizes(void **state)
{
	struct ends *e = *state;
	struct ibv_srq_attr attr = {.max_wr = 8, .srq_limit = 9};
	struct ibv_device_attr limits;

	assert_int_equal(ibv_query_device(e->rig.context, &limits), 0);
	assert_true(limits.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	RIG_REFUSED(resize(e->srq, 0));
	RIG_REFUSED(resize(e->srq, (uint32_t)limits.max_srq_wr + 1));
	RIG_REFUSED(ibv_modify_srq(e->srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	attr.srq_limit = 5;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post(e, i), 0);
	assert_int_equal(ibv_modify_srq(e->srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	assert_int_equal(post(e, 8), ENOMEM);
	RIG_REFUSED(resize(e->srq, 4)); /* smaller than the armed limit */
	attr.srq_limit = 0;
	assert_int_equal(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT), 0);
	RIG_REFUSED(resize(e->srq, 7)); /* fewer than the receives that wait */
	assert_int_equal(ibv_query_srq(e->srq, &attr), 0);
	assert_int_equal(attr.max_wr, 8);
	send_from(e, 0, 0);
	/* one of them was taken, though its completion was not polled */
	assert_int_equal(resize(e->srq, 7), 0);
	assert_int_equal(resize(e->srq, (uint32_t)limits.max_srq_wr), 0);
}

/* ---- Which taker gets which receive ---- */

static void expect_received(struct ends *e, int pair, uint64_t n)
{
	struct ibv_wc wc = rig_expect(e->rig.cq[pair != 3], IBV_WC_SUCCESS, n);

	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, BYTES);
	assert_int_equal(wc.qp_num, e->to[pair]->qp_num);
	assert_int_equal(wc.src_qp, e->from[pair]->qp_num);
	assert_memory_equal(room(e, n), bytes(e, n), BYTES);
}

/* Receives are taken in the order in which they were posted, by whichever queue pair; each completes into
 * that one's completion queue. */
static void in_order(void **state)
{
	struct ends *e = *state;

	for (uint64_t n = 0; n < 500; n++) {
		int pair = (int)(n * 7 % 11 % PAIRS);

		assert_int_equal(post(e, n), 0);
		send_from(e, pair, n);
		rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, n);
		expect_received(e, pair, n);
	}
	rig_none(e->rig.cq[0]);
	rig_none(e->rig.cq[1]);
}

/* A queue grows several times: older receives are taken first, also by requesters that send for the first
 * time. */
static void grows(void **state)
{
	struct ends *e = *state;
	uint64_t posted = 0;

	for (uint32_t depth = DEPTH; depth <= 2048; depth *= 2) {
		struct ibv_srq_attr attr;

		assert_int_equal(resize(e->srq, depth), 0);
		assert_int_equal(ibv_query_srq(e->srq, &attr), 0);
		assert_int_equal(attr.max_wr, depth);
		while (posted < depth)
			assert_int_equal(post(e, posted++), 0);
		assert_int_equal(post(e, posted), ENOMEM);
	}
	for (uint64_t n = 0; n < posted; n++) {
		int pair = n < 64 ? 0 : n < 256 ? (int)n % 2 : (int)n % PAIRS;

		memset(room(e, n), 0, BYTES);
		send_from(e, pair, n);
		rig_expect(e->rig.cq[0], IBV_WC_SUCCESS, n);
		assert_int_equal(rig_expect(e->rig.cq[pair != 3], IBV_WC_SUCCESS, n).qp_num,
				 e->to[pair]->qp_num);
		assert_memory_equal(room(e, n), bytes(e, n), BYTES);
	}
	rig_none(e->rig.cq[1]);
	assert_int_equal(resize(e->srq, 1), 0);
	assert_int_equal(post(e, 1), 0);
	assert_int_equal(post(e, 2), ENOMEM);
	send_from(e, 0, 1);
	expect_received(e, 0, 1);
}

/* The limit event, and the fault of a receive that a datagram finds, reach the owner also when the queue has
 * grown. */
static void told_after_growing(void **state)
{
	static struct ends e;
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3}};
	struct ibv_srq_attr attr = {.srq_limit = 1};
	struct ibv_recv_wr bad_one = {.wr_id = 1, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_SEND, .num_sge = 1}, *bad;
	struct ibv_sge sge, wrong;
	struct ibv_ah *ah;

	open_ends(&e, IBV_QPT_UD);
	assert_int_equal(ibv_query_gid(e.rig.context, 1, 3, &ah_attr.grh.dgid), 0);
	ah = ibv_create_ah(e.rig.pd, &ah_attr);
	assert_non_null(ah);
	assert_int_equal(resize(e.srq, 16 * DEPTH), 0);
	assert_int_equal(post(&e, 0), 0);
	wrong = (struct ibv_sge){(uintptr_t)room(&e, 1), BYTES, e.mr->lkey ^ 0xff};
	bad_one.sg_list = &wrong;
	assert_int_equal(ibv_post_srq_recv(e.srq, &bad_one, &bad_recv), 0);
	assert_int_equal(ibv_modify_srq(e.srq, &attr, IBV_SRQ_LIMIT), 0);
	sge = (struct ibv_sge){(uintptr_t)bytes(&e, 0), 64, e.mr->lkey};
	wr.sg_list = &sge;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = e.to[0]->qp_num;
	wr.wr.ud.remote_qkey = RIG_QKEY;
	assert_int_equal(ibv_post_send(e.from[0], &wr, &bad), 0);
	rig_expect(e.rig.cq[1], IBV_WC_SUCCESS, 0);
	assert_int_equal(ibv_post_send(e.from[0], &wr, &bad), 0);
	rig_expect(e.rig.cq[1], IBV_WC_LOC_PROT_ERR, 1);
	rig_await_state(e.to[0], IBV_QPS_ERR);
	rig_event(e.rig.context, IBV_EVENT_SRQ_LIMIT_REACHED, e.srq);
	rig_event(e.rig.context, IBV_EVENT_QP_LAST_WQE_REACHED, e.to[0]);
	rig_event(e.rig.context, IBV_EVENT_QP_FATAL, e.to[0]);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	close_ends(&e);
	*state = NULL;
}

/* A requester waits as long as the queue is empty. */
static void empty(void **state)
{
	struct ends *e = *state;

	for (int i = 0; i < PAIRS; i++)
		send_from(e, i, (uint64_t)i);
	rig_none(e->rig.cq[1]);
	for (uint64_t n = 0; n < PAIRS; n++)
		assert_int_equal(post(e, n), 0);
	for (int i = 0; i < PAIRS - 1; i++)
		rig_next(e->rig.cq[1]);
	for (int i = 0; i < PAIRS + 1; i++)
		rig_next(e->rig.cq[0]);
	rig_none(e->rig.cq[1]);
}

static void too_long(void **state)
{
	struct ends *e = *state;

	assert_int_equal(post(e, 0), 0);
	assert_int_equal(post(e, 1), 0);
	assert_int_equal(rig_send(e->from[0], 7, e->mr, bytes(e, 0), BYTES + 1), 0);
	rig_expect(e->rig.cq[0], IBV_WC_REM_INV_REQ_ERR, 7);
	rig_expect(e->rig.cq[1], IBV_WC_LOC_LEN_ERR, 0);
	rig_await_state(e->to[0], IBV_QPS_ERR);
	rig_none(e->rig.cq[1]); /* the refused receive stays for others */
	send_from(e, 1, 1);
	expect_received(e, 1, 1);
}

static void other_types(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};
	static struct ends e;

	for (size_t k = 0; k < COUNT(types); k++) {
		struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3}};
		struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_SEND, .num_sge = 1}, *bad;
		struct ibv_sge sge;
		struct ibv_ah *ah;

		open_ends(&e, types[k]);
		assert_int_equal(ibv_query_gid(e.rig.context, 1, 3, &attr.grh.dgid), 0);
		ah = ibv_create_ah(e.rig.pd, &attr);
		assert_non_null(ah);
		for (uint64_t n = 0; n < 3 * DEPTH; n++) {
			int pair = (int)n % PAIRS;

			assert_int_equal(post(&e, n), 0);
			sge = (struct ibv_sge){(uintptr_t)bytes(&e, n), BYTES - 40, e.mr->lkey};
			wr.sg_list = &sge;
			if (types[k] == IBV_QPT_UD)
				wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = e.to[pair]->qp_num;
			wr.wr.ud.remote_qkey = RIG_QKEY;
			assert_int_equal(ibv_post_send(e.from[pair], &wr, &bad), 0);
			assert_int_equal(rig_expect(e.rig.cq[pair != 3], IBV_WC_SUCCESS, n).qp_num,
					 e.to[pair]->qp_num);
		}
		assert_int_equal(ibv_destroy_ah(ah), 0);
		close_ends(&e);
	}
	*state = NULL;
}

/* ---- Events ---- */

static void expect_no_event(struct ends *e)
{
	struct pollfd fd = {e->rig.context->async_fd, POLLIN, 0};

	assert_int_equal(poll(&fd, 1, 20), 0);
}

/* One event for each arming, when fewer receives are left than the limit (10.2.9.1). */
static void limit(void **state)
{
	struct ends *e = *state;
	struct ibv_srq_attr attr = {.srq_limit = 4};

	for (uint64_t i = 0; i < DEPTH; i++)
		assert_int_equal(post(e, i), 0);
	for (uint64_t round = 0; round < 20; round++) {
		assert_int_equal(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT), 0);
		for (uint64_t i = 0; i < DEPTH - 4; i++)
			send_from(e, (int)(i % 3), i);
		expect_no_event(e);
		send_from(e, 0, 12);
		rig_event(e->rig.context, IBV_EVENT_SRQ_LIMIT_REACHED, e->srq);
		send_from(e, 0, 13);
		expect_no_event(e);
		assert_int_equal(ibv_query_srq(e->srq, &attr), 0);
		assert_int_equal(attr.srq_limit, 0);
		attr.srq_limit = 4;
		for (uint64_t i = 0; i < DEPTH - 2; i++) {
			rig_next(e->rig.cq[0]);
			rig_next(e->rig.cq[1]);
			assert_int_equal(post(e, i), 0);
		}
	}
	/* an event at once, as fewer are left already */
	attr.srq_limit = 4;
	for (uint64_t i = 0; i < DEPTH - 3; i++)
		send_from(e, 0, i);
	assert_int_equal(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT), 0);
	rig_event(e->rig.context, IBV_EVENT_SRQ_LIMIT_REACHED, e->srq);
}

static void completion_events(void **state)
{
	struct ends *e = *state;
	struct ibv_cq *cq;
	void *context;

	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(post(e, i), 0);
		assert_int_equal(ibv_req_notify_cq(e->rig.cq[1], 0), 0);
		send_from(e, 0, i);
		assert_int_equal(ibv_get_cq_event(e->rig.channel, &cq, &context), 0);
		assert_ptr_equal(cq, e->rig.cq[1]);
		expect_received(e, 0, i);
		rig_next(e->rig.cq[0]);
	}
	ibv_ack_cq_events(e->rig.cq[1], 100);
}

/* ---- Ends ---- */

/* In ERR: IBV_EVENT_QP_LAST_WQE_REACHED when no more completions will come; earlier ones can still be
 * polled. */
static void last_one(void **state)
{
	struct ends *e = *state;

	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post(e, i), 0);
	send_from(e, 0, 0);
	rig_modify(e->to[0], IBV_QPS_ERR, 0);
	rig_event(e->rig.context, IBV_EVENT_QP_LAST_WQE_REACHED, e->to[0]);
	expect_received(e, 0, 0);
	rig_none(e->rig.cq[1]);
	send_from(e, 1, 1);
	expect_received(e, 1, 1);
}

/* A queue pair is destroyed with completions that were not polled: they are discarded, and the slots of their
 * receives can be used again. */
static void given_back(void **state)
{
	struct ends *e = *state;

	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < DEPTH; i++)
			assert_int_equal(post(e, i), 0);
		for (uint64_t i = 0; i < DEPTH; i++)
			send_from(e, 0, i);
		for (uint64_t i = 0; i < DEPTH; i++)
			rig_next(e->rig.cq[0]);
		rig_modify(e->to[0], IBV_QPS_RESET, 0);
		rig_none(e->rig.cq[1]);
		rig_modify(e->from[0], IBV_QPS_RESET, 0);
		rig_modify(e->to[0], IBV_QPS_RTS, e->from[0]->qp_num);
		rig_modify(e->from[0], IBV_QPS_RTS, e->to[0]->qp_num);
	}
}

/* A process that sends until it is killed. qpn[0] is the receiver's number, qpn[1] its own. */
static void flood(_Atomic uint32_t *qpn)
{
	struct ends e = {0};
	struct ibv_qp *qp;
	struct ibv_wc wc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_open(&e.rig);
	e.mr = rig_region(e.rig.pd, 2 * DEPTH * BYTES);
	qp = make_qp(&e, IBV_QPT_RC, e.rig.cq[0], false);
	rig_modify(qp, IBV_QPS_RTR, qpn[0]);
	qpn[1] = qp->qp_num;
	while (!qpn[2])
		;
	rig_modify(qp, IBV_QPS_RESET, 0);
	rig_modify(qp, IBV_QPS_RTS, qpn[0]);
	for (;;) {
		rig_send(qp, 1, e.mr, e.mr->addr, BYTES);
		ibv_poll_cq(e.rig.cq[0], 1, &wc);
	}
}

/* The queue grows while another process sends: each receive is used once, and in its turn. */
static void grows_in_traffic(void **state)
{
	_Atomic uint32_t *qpn =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static struct ends e;
	uint64_t posted = 0, got = 0;
	uint32_t depth = 1;
	struct ibv_wc wc;
	pid_t pid = fork_peer();

	if (!pid) {
		while (!qpn[0])
			;
		flood(qpn);
	}
	open_ends(&e, IBV_QPT_RC);
	assert_int_equal(resize(e.srq, depth), 0);
	rig_modify(e.to[0], IBV_QPS_RESET, 0);
	qpn[0] = e.to[0]->qp_num;
	while (!qpn[1])
		;
	rig_modify(e.to[0], IBV_QPS_RTS, qpn[1]);
	qpn[2] = 1;
	while (depth < 4096 || got < posted) {
		while (depth < 4096 && posted - got < depth && !post(&e, posted))
			posted++;
		if (ibv_poll_cq(e.rig.cq[1], 1, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, got);
			got++;
		}
		if (depth < 4096 && got > 16ull * depth)
			assert_int_equal(resize(e.srq, depth += depth / 4 + 1), 0);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close_ends(&e);
	munmap((void *)qpn, 4096);
	*state = NULL;
}

static void killed_sender(void **state)
{
	_Atomic uint32_t *qpn =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static struct ends e;

	for (int round = 0; round < 6; round++) {
		uint64_t posted = 0, got = 0, left;
		struct ibv_wc wc;
		pid_t pid;

		memset((void *)qpn, 0, 4096);
		pid = fork_peer();
		if (!pid) {
			while (!qpn[0])
				;
			flood(qpn);
		}
		open_ends(&e, IBV_QPT_RC);
		rig_modify(e.to[0], IBV_QPS_RESET, 0);
		qpn[0] = e.to[0]->qp_num;
		while (!qpn[1])
			;
		rig_modify(e.to[0], IBV_QPS_RTS, qpn[1]);
		qpn[2] = 1;
		for (uint64_t end = rig_now_ns() + 4000000u * (uint64_t)(round + 1);
		     got < 100 || rig_now_ns() < end;) {
			while (posted - got < DEPTH && !post(&e, posted))
				posted++;
			got += (uint64_t)ibv_poll_cq(e.rig.cq[1], 1, &wc);
		}
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		while (ibv_poll_cq(e.rig.cq[1], 1, &wc))
			got++;
		/* no receive is lost: another sender can have all that are left */
		left = posted - got;
		for (uint64_t i = 0; i < left; i++)
			send_from(&e, 1, i);
		for (uint64_t i = 0; i < left; i++)
			assert_int_equal(rig_next(e.rig.cq[1]).status, IBV_WC_SUCCESS);
		rig_none(e.rig.cq[1]);
		close_ends(&e);
	}
	munmap((void *)qpn, 4096);
	*state = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(create, setup, teardown),
		cmocka_unit_test_setup_teardown(extended, setup, teardown),
		cmocka_unit_test_setup_teardown(query_and_modify, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_posts, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(grows, setup, teardown),
		cmocka_unit_test(told_after_growing),
		cmocka_unit_test_setup_teardown(empty, setup, teardown),
		cmocka_unit_test_setup_teardown(too_long, setup, teardown),
		cmocka_unit_test(other_types),
		cmocka_unit_test_setup_teardown(limit, setup, teardown),
		cmocka_unit_test_setup_teardown(completion_events, setup, teardown),
		cmocka_unit_test_setup_teardown(last_one, setup, teardown),
		cmocka_unit_test_setup_teardown(given_back, setup, teardown),
		cmocka_unit_test(grows_in_traffic),
		cmocka_unit_test(killed_sender),
	};

	return cmocka_run_group_tests_name("srq", tests, make_pool, remove_pool);
}
