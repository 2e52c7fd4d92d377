/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests that wait for their peer: receiver not ready, no answer, and in which order they go on. How long
 * they wait is test_timers.c's. */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

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
	return 0;
}

static int setup_connected(void **state)
{
	setup(state);
	rig_connect(*state, &(struct rig_wish){0});
	return 0;
}

static int teardown(void **state)
{
	rig_region_end(memory);
	return rig_teardown(state);
}

static void sleep_ms(uint64_t ms)
{
	nanosleep(&(struct timespec){0, (long)(ms * MS)}, NULL);
}

static int write_to(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id, size_t to)
{
	return rig_rdma(qp, opcode, wr_id, memory, bytes, 8, (uintptr_t)bytes + to, memory->rkey);
}

/* ---- Receiver not ready ---- */

static void receive_comes_late(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE_WITH_IMM};
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(opcodes); i++) {
		memset(bytes, 0, BYTES);
		memcpy(bytes, "arrives", 8);
		assert_int_equal(write_to(rig->qp[0], opcodes[i], i, 64), 0);
		for (int k = 0; k < 100; k++) {
			rig_none(rig->cq[0]);
			rig_none(rig->cq[1]);
		}
		sleep_ms(3);
		rig_none(rig->cq[0]);
		assert_int_equal(bytes[64], 0); /* nothing is placed before there is a receive */
		assert_int_equal(rig_receive(rig->qp[1], i, memory, bytes + 64, 8), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
		assert_string_equal(bytes + 64, "arrives");
	}
}

static void *post_receive_later(void *qp)
{
	sleep_ms(20);
	/* the receive's memory is that of the request before, whose bytes were checked */
	return (void *)(intptr_t)rig_receive(qp, 2, memory, bytes, 8);
}

/* The sender's thread sleeps in poll(): its request goes on without it. */
static void sender_asleep(void **state)
{
	struct rig *rig = *state;
	struct pollfd fd = {rig->channel->fd, POLLIN, 0};
	struct ibv_cq *cq;
	pthread_t thread;
	void *result;

	assert_int_equal(ibv_req_notify_cq(rig->cq[0], 0), 0);
	assert_int_equal(rig_send(rig->qp[0], 1, memory, bytes, 8), 0);
	assert_int_equal(poll(&fd, 1, 5), 0);
	assert_int_equal(pthread_create(&thread, NULL, post_receive_later, rig->qp[1]), 0);
	assert_int_equal(poll(&fd, 1, 10000), 1);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &result), 0);
	assert_ptr_equal(cq, rig->cq[0]);
	ibv_ack_cq_events(cq, 1);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
}

/* Nothing overtakes a request that waits. */
static void order_behind_waiting(void **state)
{
	struct rig *rig = *state;
	char *late = bytes + 1024;

	memset(bytes, 0, BYTES);
	bytes[0] = 'x';
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(i % 2 ? write_to(rig->qp[0], IBV_WR_RDMA_WRITE, i, 1024 + i)
				       : rig_send(rig->qp[0], i, memory, bytes, 1),
				 0);
	for (uint64_t i = 0; i < 20; i += 2) {
		sleep_ms(1);
		rig_none(rig->cq[0]);
		assert_int_equal(late[i + 1], 0);
		assert_int_equal(rig_receive(rig->qp[1], i, memory, bytes + 512, 1), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i + 1);
		assert_int_equal(late[i + 1], 'x');
	}
}

/* While one queue pair waits, another between the same two completion queues goes on. */
static void others_go_on(void **state)
{
	struct rig *rig = *state, other = {0};

	other.context = rig->context;
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[i], rig->cq[i]);

		other.qp[i] = ibv_create_qp(rig->pd, &init);
		assert_non_null(other.qp[i]);
	}
	rig_connect(&other, &(struct rig_wish){0});
	assert_int_equal(rig_send(rig->qp[0], 999, memory, bytes, 8), 0);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(rig_receive(other.qp[1], i, memory, bytes, 8), 0);
		assert_int_equal(rig_send(other.qp[0], i, memory, bytes, 8), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(other.qp[i]), 0);
	assert_int_equal(rig_receive(rig->qp[1], 998, memory, bytes, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 999);
}

/* ---- No answer ---- */

/* New queue pairs that name the requester as their peer, wherever their entries of the table lie, do not get
 * what is meant for one that was destroyed. */
static void taken_for_another(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr init = rig_init(rig->cq[1], rig->cq[1]);
	struct ibv_qp *qp[150];

	init.cap = (struct ibv_qp_cap){1, 1, 1, 1, 0};
	rig_connect(rig, &(struct rig_wish){.timeout = 8, .retry_cnt = 2});
	assert_int_equal(rig_receive(rig->qp[1], 1, memory, bytes, 8), 0);
	assert_int_equal(rig_send(rig->qp[0], 1, memory, bytes, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	assert_int_equal(ibv_destroy_qp(rig->qp[1]), 0);
	rig->qp[1] = NULL;
	for (size_t i = 0; i < COUNT(qp); i++) {
		qp[i] = ibv_create_qp(rig->pd, &init);
		assert_non_null(qp[i]);
		rig_modify(qp[i], IBV_QPS_RTS, rig->qp[0]->qp_num);
		assert_int_equal(rig_receive(qp[i], 2, memory, bytes, 8), 0);
	}
	assert_int_equal(rig_send(rig->qp[0], 3, memory, bytes, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_RETRY_EXC_ERR, 3);
	rig_none(rig->cq[1]);
	for (size_t i = 0; i < COUNT(qp); i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

/* A peer that becomes ready in time gets all requests, in order. */
static void peer_comes_late(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr;

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 2; i++)
			rig_modify(rig->qp[i], IBV_QPS_RESET, 0);
		rig_modify(rig->qp[1], IBV_QPS_INIT, 0);
		rig_modify(rig->qp[0], IBV_QPS_RTS, rig->qp[1]->qp_num);
		assert_int_equal(write_to(rig->qp[0], IBV_WR_RDMA_WRITE, 1, 64), 0);
		assert_int_equal(rig_send(rig->qp[0], 2, memory, bytes, 8), 0);
		assert_int_equal(rig_receive(rig->qp[1], 3, memory, bytes, 8), 0);
		sleep_ms((uint64_t)round);
		rig_none(rig->cq[0]);
		attr = rig_attr(rig->context, IBV_QPS_RTR, rig->qp[0]->qp_num);
		assert_int_equal(ibv_modify_qp(rig->qp[1], &attr, RIG_RTR_MASK), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 2);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 3);
	}
}

/* A queue pair is reset, put in ERR or destroyed while its request waits. */
static void ended_while_waiting(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 50; round++) {
		assert_int_equal(rig_send(rig->qp[0], 1, memory, bytes, 8), 0);
		if (round % 2) {
			rig_modify(rig->qp[0], IBV_QPS_ERR, 0);
			rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 1);
		}
		for (int i = 0; i < 2; i++)
			rig_modify(rig->qp[i], IBV_QPS_RESET, 0);
		rig_none(rig->cq[0]);
		rig_connect(rig, &(struct rig_wish){0});
	}
	assert_int_equal(rig_send(rig->qp[0], 1, memory, bytes, 8), 0);
}

/* A queue pair connected to itself waits for its own receive. */
static void for_oneself(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp *qp = rig->qp[0];

	rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
	for (uint64_t i = 0; i < 100; i++) {
		bytes[0] = (char)i;
		assert_int_equal(rig_send(qp, i, memory, bytes, 8), 0);
		rig_none(rig->cq[0]);
		assert_int_equal(rig_receive(qp, i, memory, bytes + 64, 8), 0);
		for (int k = 0; k < 2; k++) {
			struct ibv_wc wc = rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);

			assert_int_equal(wc.opcode & ~IBV_WC_RECV, 0);
		}
		assert_int_equal(bytes[64], (char)i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(receive_comes_late, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(sender_asleep, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(order_behind_waiting, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(others_go_on, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(taken_for_another, setup, teardown),
		cmocka_unit_test_setup_teardown(peer_comes_late, setup, teardown),
		cmocka_unit_test_setup_teardown(ended_while_waiting, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(for_oneself, setup, teardown),
	};

	return cmocka_run_group_tests_name("wait", tests, make_pool, remove_pool);
}
