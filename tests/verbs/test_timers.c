/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How long requests wait for a peer, to the nanosecond, by a clock that only goes on when the test says
 * so. */
#include <poll.h>
#include <time.h>

#include "clock.h"
#include "rig.h"

#include "../abi/pool.h"

#define BYTES 4096u
#define MS    1000000ull

static struct ibv_mr *memory;
static char *bytes; /* of it */

static int setup(void **state)
{
	rig_setup(state);
	memory = rig_region(((struct rig *)*state)->pd, BYTES);
	bytes = memory->addr;
	clock_stop();
	return 0;
}

static int teardown(void **state)
{
	clock_run();
	rig_region_end(memory);
	return rig_teardown(state);
}

static int write_to(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t to)
{
	return rig_rdma(qp, opcode, wr_id, memory, bytes, 8, (uintptr_t)bytes + to, memory->rkey);
}

static void set_rnr_timer(struct ibv_qp *qp, uint8_t code)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = code};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
}

/* No completion comes, however often the queue is polled. ibv_modify_qp and ibv_query_qp, which have the
 * request looked at as well, do not end it either. */
static void still_waits(struct rig *rig)
{
	for (int i = 0; i < 4; i++)
		rig_none(rig->cq[0]);
	set_rnr_timer(rig->qp[0], 12);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_RTS);
}

/* A request that waits does so for exactly that long. */
static void check_patience(struct rig *rig, uint64_t ns, enum ibv_wc_status status, uint64_t wr_id)
{
	if (ns) {
		still_waits(rig);
		clock_advance(ns - 1);
		still_waits(rig);
		clock_advance(1);
	}
	rig_expect(rig->cq[0], status, wr_id);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_ERR);
	rig_none(rig->cq[1]);
}

/* Table 45 of 9.7.5.2.8, in hundredths of a millisecond. */
static const uint64_t rnr_timer[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/* A requester waits rnr_retry times for as long as the responder's timer says. */
static void each_rnr_timer(void **state)
{
	struct rig *rig = *state;

	for (uint8_t code = 0; code < 32; code++)
		for (uint8_t retry = 0; retry < 7; retry++) {
			rig_reconnect(rig, &(struct rig_wish){
						   .rnr_retry = retry ? retry : RIG_NO_RNR_RETRY});
			set_rnr_timer(rig->qp[1], code);
			assert_int_equal(rig_send(rig->qp[0], 1, memory, bytes, 8), 0);
			assert_int_equal(rig_send(rig->qp[0], 2, memory, bytes, 8), 0);
			check_patience(rig, retry * rnr_timer[code] * 10000,
				       IBV_WC_RNR_RETRY_EXC_ERR, 1);
			rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 2);
			/* the responder has done nothing wrong */
			assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_RTS);
		}
}

/* A requester waits 4.096 µs times two to the power of the timeout's code, once and for each retry again. */
static void each_timeout(void **state)
{
	struct rig *rig = *state;

	for (uint8_t code = 1; code < 32; code++)
		for (uint8_t retry = 0; retry < 8; retry++) {
			rig_reconnect(rig, &(struct rig_wish){.timeout = code, .retry_cnt = retry});
			rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
			assert_int_equal(write_to(rig->qp[0], IBV_WR_RDMA_WRITE, 1, 64), 0);
			check_patience(rig, (retry + 1ull) * (4096ull << code),
				       IBV_WC_RETRY_EXC_ERR, 1);
		}
}

/* rnr_retry 7 and timeout 0 wait without an end. */
static void for_ever(void **state)
{
	struct rig *rig = *state;

	for (int silent = 0; silent < 2; silent++) {
		rig_reconnect(rig, &(struct rig_wish){.forever = 1});
		if (silent) {
			rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
			rig_modify(rig->qp[1], IBV_QPS_INIT, 0);
		}
		assert_int_equal(rig_send(rig->qp[0], 1, memory, bytes, 8), 0);
		for (int year = 0; year < 100; year++) {
			still_waits(rig);
			clock_advance(365ull * 86400 * 1000 * MS);
		}
		nanosleep(&(struct timespec){0, 5 * MS}, NULL); /* in which the helper looks, too */
		still_waits(rig);
		assert_int_equal(rig_receive(rig->qp[1], 2, memory, bytes, 8), 0);
		if (silent) {
			struct ibv_qp_attr attr =
				rig_attr(rig->context, IBV_QPS_RTR, rig->qp[0]->qp_num);

			assert_int_equal(ibv_modify_qp(rig->qp[1], &attr, RIG_RTR_MASK), 0);
		}
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
	}
}

/* Each request has the whole time again, and so has each of the two reasons to wait. */
static void patience_begins_anew(void **state)
{
	const uint64_t rnr_ns = 3 * rnr_timer[20] * 10000, timeout_ns = 3 * (4096ull << 8);
	struct rig *rig = *state;

	rig_connect(rig, &(struct rig_wish){.rnr_retry = 3, .timeout = 8, .retry_cnt = 2});
	set_rnr_timer(rig->qp[1], 20);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(rig_send(rig->qp[0], i, memory, bytes, 8), 0);
	for (uint64_t i = 0; i < 2; i++) {
		still_waits(rig);
		clock_advance(rnr_ns - 1);
		still_waits(rig);
		assert_int_equal(rig_receive(rig->qp[1], i, memory, bytes, 8), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
	}
	still_waits(rig);
	clock_advance(rnr_ns - 1);
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
	check_patience(rig, timeout_ns, IBV_WC_RETRY_EXC_ERR, 2);
}

/* The timer ends a request while its program sleeps for an event. */
static void timer_wakes(void **state)
{
	struct rig *rig = *state;
	struct pollfd fd = {rig->channel->fd, POLLIN, 0};
	struct ibv_cq *cq;
	void *context;

	rig_connect(rig, &(struct rig_wish){.rnr_retry = 1});
	set_rnr_timer(rig->qp[1], 0);
	assert_int_equal(ibv_req_notify_cq(rig->cq[0], 0), 0);
	assert_int_equal(rig_send(rig->qp[0], 1, memory, bytes, 8), 0);
	still_waits(rig);
	clock_advance(rnr_timer[0] * 10000 - 1);
	assert_int_equal(poll(&fd, 1, 20), 0);
	clock_advance(1);
	assert_int_equal(poll(&fd, 1, 10000), 1);
	assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	rig_expect(rig->cq[0], IBV_WC_RNR_RETRY_EXC_ERR, 1);
}

/* ---- Peers that are not there ---- */

/* Ways in which the peer is not there. */
static void peer_resets(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
}

static void peer_in_init(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[1], IBV_QPS_INIT, 0);
}

static void peer_in_error(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_ERR, 0);
}

static void peer_destroyed(struct rig *rig)
{
	assert_int_equal(ibv_destroy_qp(rig->qp[1]), 0);
	rig->qp[1] = NULL;
}

static void peer_with_another(struct rig *rig)
{
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[1], IBV_QPS_RTS, rig->qp[1]->qp_num);
}

static void number_of_no_queue_pair(struct rig *rig)
{
	struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_RTR, 0xfffff0);

	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[0], IBV_QPS_INIT, 0);
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTR_MASK), 0);
	attr = rig_attr(rig->context, IBV_QPS_RTS, 0);
	attr.timeout = 8;
	attr.retry_cnt = 2;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTS_MASK), 0);
}

static void address_of_no_member(struct rig *rig)
{
	struct ibv_qp_attr attr = rig_attr(rig->context, IBV_QPS_RTR, rig->qp[1]->qp_num);

	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[0], IBV_QPS_INIT, 0);
	attr.ah_attr.grh.dgid.raw[15] ^= 0x55;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTR_MASK), 0);
	attr = rig_attr(rig->context, IBV_QPS_RTS, 0);
	attr.timeout = 8;
	attr.retry_cnt = 2;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, RIG_RTS_MASK), 0);
}

static void no_answer(void **state)
{
	static void (*const ways[])(struct rig * rig) = {peer_resets,
							 peer_in_init,
							 peer_in_error,
							 peer_with_another,
							 number_of_no_queue_pair,
							 address_of_no_member,
							 peer_destroyed};
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(ways); i++) {
		rig_reconnect(rig, &(struct rig_wish){.timeout = 8, .retry_cnt = 2});
		ways[i](rig);
		assert_int_equal(write_to(rig->qp[0], IBV_WR_RDMA_WRITE, 1, 64), 0);
		assert_int_equal(write_to(rig->qp[0], IBV_WR_RDMA_READ, 2, 64), 0);
		/* 1.05 ms, once and for two retries */
		check_patience(rig, 3 * (4096ull << 8), IBV_WC_RETRY_EXC_ERR, 1);
		rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 2);
	}
}

#define STOPPED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STOPPED(each_rnr_timer),       STOPPED(each_timeout), STOPPED(for_ever),
		STOPPED(patience_begins_anew), STOPPED(timer_wakes),  STOPPED(no_answer),
	};

	return cmocka_run_group_tests_name("timers", tests, make_pool, remove_pool);
}
