/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Faults that meet something else: a transition, the end of the peer at fault, a new connection, other queue
 * pairs. errors.tsv says what each fault does. */
#include "rig.h"

#include <errno.h>
#include <poll.h>

#include "../abi/pool.h"

#define BYTES 8192u

static struct ibv_mr *memory;

static int setup(void **state)
{
	rig_setup(state);
	memory = rig_region(((struct rig *)*state)->pd, BYTES);
	return 0;
}

static int teardown(void **state)
{
	rig_region_end(memory);
	return rig_teardown(state);
}

static void no_event(struct rig *rig)
{
	struct pollfd fd = {rig->context->async_fd, POLLIN, 0};

	assert_int_equal(poll(&fd, 1, 0), 0);
}

static void write_with_bad_key(struct ibv_qp *qp)
{
	assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 1, memory, memory->addr, 8,
				  (uintptr_t)memory->addr, memory->rkey ^ 0x800),
			 0);
}

/* The responder's fault and a transition of its queue pair to RTS meet: it ends in ERR. */
static void fault_in_transition(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 400; round++) {
		struct ibv_qp_attr attr;
		int err;

		for (int i = 0; i < 2; i++)
			rig_modify(rig->qp[i], IBV_QPS_RESET, 0);
		rig_modify(rig->qp[1], IBV_QPS_RTR, rig->qp[0]->qp_num);
		rig_modify(rig->qp[0], IBV_QPS_RTS, rig->qp[1]->qp_num);
		attr = rig_attr(rig->context, IBV_QPS_RTS, 0);
		write_with_bad_key(rig->qp[0]);
		for (int i = 0; i < round % 100; i++)
			/* each takes a little time, in which the helper may find the fault */
			rig_state(rig->qp[1]);
		err = ibv_modify_qp(rig->qp[1], &attr, RIG_RTS_MASK);
		assert_true(!err || err == EINVAL);
		rig_expect(rig->cq[0], IBV_WC_REM_ACCESS_ERR, 1);
		rig_event(rig->context, IBV_EVENT_QP_ACCESS_ERR, rig->qp[1]);
		assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_ERR);
		no_event(rig);
	}
}

/* The requester is destroyed as soon as it has failed; the responder's program gets its event all the
 * same. */
static void fault_by_one_that_has_gone(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 100; round++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);
		struct ibv_qp *qp = ibv_create_qp(rig->pd, &init);

		assert_non_null(qp);
		rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
		rig_modify(rig->qp[1], IBV_QPS_RTS, qp->qp_num);
		rig_modify(qp, IBV_QPS_RTS, rig->qp[1]->qp_num);
		write_with_bad_key(qp);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		rig_event(rig->context, IBV_EVENT_QP_ACCESS_ERR, rig->qp[1]);
		assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_ERR);
	}
}

/* A queue pair does not fail by a fault of an earlier connection between the same two. */
static void fault_of_an_earlier_connection(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 300; round++) {
		rig_reconnect(rig, &(struct rig_wish){0});
		write_with_bad_key(rig->qp[0]);
		for (int i = 1; i >= 0; i--)
			rig_modify(rig->qp[i], IBV_QPS_RESET, 0);
		rig_connect(rig, &(struct rig_wish){0});
		assert_int_equal(rig_receive(rig->qp[1], 2, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(rig->qp[0], 1, NULL, NULL, 0), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
		assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_RTS);
	}
}

/* The failure and end of a queue pair do not disturb others that share its completion queues. */
static void bystanders(void **state)
{
	struct rig *rig = *state, spare = {0};

	rig_connect(rig, &(struct rig_wish){0});
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[i], rig->cq[i]);

		spare.context = rig->context;
		spare.qp[i] = ibv_create_qp(rig->pd, &init);
		assert_non_null(spare.qp[i]);
	}
	rig_connect(&spare, &(struct rig_wish){0});
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(rig_receive(rig->qp[1], 10 + i, NULL, NULL, 0), 0);
		assert_int_equal(rig_receive(spare.qp[1], 20 + i, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(rig->qp[0], 10 + i, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(spare.qp[0], 20 + i, NULL, NULL, 0), 0);
	}
	write_with_bad_key(spare.qp[0]);
	rig_event(rig->context, IBV_EVENT_QP_ACCESS_ERR, spare.qp[1]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(spare.qp[i]), 0);
	for (uint64_t i = 0; i < 10; i++) {
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 10 + i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 10 + i);
	}
	rig_none(rig->cq[0]);
	rig_none(rig->cq[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fault_in_transition, setup, teardown),
		cmocka_unit_test_setup_teardown(fault_by_one_that_has_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(fault_of_an_earlier_connection, setup, teardown),
		cmocka_unit_test_setup_teardown(bystanders, setup, teardown),
	};

	return cmocka_run_group_tests_name("fail", tests, make_pool, remove_pool);
}
