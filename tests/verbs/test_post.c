/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Posting: what is refused at once, in which state, and how long a request keeps its slot. */
#include "rig.h"

#include <errno.h>
#include <string.h>

#include "../abi/pool.h"

#define BYTES 4096u

static struct ibv_mr *memory;

static int setup(void **state)
{
	rig_setup(state);
	memory = rig_region(((struct rig *)*state)->pd, BYTES);
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

static int write_8(struct ibv_qp *qp, uint64_t wr_id, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)memory->addr, 8, memory->lkey};
	struct ibv_send_wr *bad = NULL, wr = {.wr_id = wr_id,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .opcode = IBV_WR_RDMA_WRITE,
					      .send_flags = flags};
	int err;

	wr.wr.rdma.remote_addr = (uintptr_t)memory->addr + 64;
	wr.wr.rdma.rkey = memory->rkey;
	err = ibv_post_send(qp, &wr, &bad);
	assert_ptr_equal(bad, err ? &wr : NULL);
	return err;
}

/* ---- States ---- */

static void states(void **state)
{
	static const struct {
		enum ibv_qp_state state;
		int send, receive;
	} cases[] = {
		{IBV_QPS_RESET, EINVAL, EINVAL},
		{IBV_QPS_INIT, EINVAL, 0},
		{IBV_QPS_RTR, EINVAL, 0},
		{IBV_QPS_RTS, 0, 0},
		{IBV_QPS_SQD, 0, 0},
		{IBV_QPS_ERR, 0, 0},
	};
	struct rig *rig = *state;
	struct ibv_qp *qp = rig->qp[0];

	for (size_t i = 0; i < COUNT(cases); i++) {
		rig_modify(qp, IBV_QPS_RESET, 0);
		rig_modify(qp, cases[i].state, qp->qp_num);
		assert_int_equal(write_8(qp, 1, IBV_SEND_SIGNALED), cases[i].send);
		assert_int_equal(rig_receive(qp, 2, memory, memory->addr, 8), cases[i].receive);
	}
	/* the queue pair is in ERR now: both were flushed */
	assert_int_equal(rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 1).qp_num, qp->qp_num);
	assert_int_equal(rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 2).qp_num, qp->qp_num);
	rig_none(rig->cq[0]);
}

/* In SQD requests that are posted wait for RTS, in order; receives are completed all the same. */
static void send_queue_drained(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	assert_int_equal(
		ibv_modify_qp(rig->qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	rig_event(rig->context, IBV_EVENT_SQ_DRAINED, rig->qp[0]);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(write_8(rig->qp[0], i, IBV_SEND_SIGNALED), 0);
	rig_none(rig->cq[0]);
	assert_int_equal(rig_receive(rig->qp[0], 9, memory, memory->addr, 8), 0);
	assert_int_equal(rig_send(rig->qp[1], 8, memory, memory->addr, 8), 0);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 8);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 9);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, IBV_QP_STATE), 0);
	for (uint64_t i = 0; i < 5; i++)
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
}

/* A request that waited for its peer when the queue pair went to SQD waits there, too, and goes on in RTS. */
static void drained_while_waiting(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};

	assert_int_equal(rig_send(rig->qp[0], 1, memory, memory->addr, 8), 0);
	rig_none(rig->cq[0]);
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, IBV_QP_STATE), 0);
	assert_int_equal(rig_receive(rig->qp[1], 2, memory, memory->addr, 8), 0);
	for (int i = 0; i < 1000; i++)
		rig_none(rig->cq[0]);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, IBV_QP_STATE), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 2);
}

/* ---- Refusals ---- */

struct refusal {
	const char *what;
	int error;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	int num_sge;
	uint32_t length; /* length of each element */
};

static const struct refusal refusals[] = {
	{"too many elements", EINVAL, IBV_WR_SEND, 0, RIG_SGE + 1, 1},
	{"negative elements", EINVAL, IBV_WR_SEND, 0, -1, 1},
	{"many negative elements", EINVAL, IBV_WR_SEND, 0, -0x10000, 1},
	{"65536 elements", EINVAL, IBV_WR_SEND, 0, 0x10000, 1},
	{"inline too long", ENOMEM, IBV_WR_SEND, IBV_SEND_INLINE, 1, RIG_INLINE + 1},
	{"inline too long in sum", ENOMEM, IBV_WR_SEND, IBV_SEND_INLINE, 3, RIG_INLINE / 2},
	{"inline far too long", ENOMEM, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, 2, UINT32_MAX},
	{"inline READ", EINVAL, IBV_WR_RDMA_READ, IBV_SEND_INLINE, 1, 8},
	{"inline swap", EINVAL, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_SEND_INLINE, 1, 8},
	{"inline addition", EINVAL, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_INLINE, 1, 8},
	{"opcode -1", EINVAL, (enum ibv_wr_opcode) - 1, 0, 1, 8},
	{"opcode 100", EINVAL, (enum ibv_wr_opcode)100, 0, 1, 8},
	{"TSO", EINVAL, IBV_WR_TSO, 0, 1, 8},
};

/* The requests of a list before the refused one are carried out; those behind it are not touched. */
static void refused_sends(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge[RIG_SGE + 1], one = {(uintptr_t)memory->addr, 8, memory->lkey};

	for (size_t i = 0; i < COUNT(refusals); i++) {
		const struct refusal *r = &refusals[i];
		struct ibv_send_wr wr[3], *bad = NULL;

		for (int k = 0; k < 3; k++) {
			wr[k] = (struct ibv_send_wr){.wr_id = (uint64_t)k,
						     .next = k < 2 ? &wr[k + 1] : NULL,
						     .sg_list = &one,
						     .num_sge = 1,
						     .send_flags = IBV_SEND_SIGNALED,
						     .opcode = IBV_WR_RDMA_WRITE};
			wr[k].wr.rdma.remote_addr = (uintptr_t)memory->addr + 64;
			wr[k].wr.rdma.rkey = memory->rkey;
		}
		for (int k = 0; k <= RIG_SGE; k++)
			sge[k] = (struct ibv_sge){(uintptr_t)memory->addr, r->length, memory->lkey};
		wr[1].opcode = r->opcode;
		wr[1].send_flags |= r->flags;
		wr[1].sg_list = sge;
		wr[1].num_sge = r->num_sge;
		if (ibv_post_send(rig->qp[0], wr, &bad) != r->error || bad != &wr[1])
			fail_msg("%s", r->what);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 0);
		rig_none(rig->cq[0]);
	}
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_RTS);
}

static void refused_receives(void **state)
{
	static const int bad_counts[] = {RIG_SGE + 1, -1, 0x10000, -0x10000};
	struct rig *rig = *state;
	struct ibv_sge one = {(uintptr_t)memory->addr, 8, memory->lkey};

	for (size_t i = 0; i < COUNT(bad_counts); i++) {
		struct ibv_recv_wr wr[3], *bad = NULL;

		for (int k = 0; k < 3; k++)
			wr[k] = (struct ibv_recv_wr){.wr_id = 10 * i + (uint64_t)k,
						     .next = k < 2 ? &wr[k + 1] : NULL,
						     .sg_list = &one,
						     .num_sge = k == 1 ? bad_counts[i] : 1};
		assert_int_equal(ibv_post_recv(rig->qp[1], wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr[1]);
	}
	/* of each list the receive before the refused one was posted */
	for (size_t i = 0; i < COUNT(bad_counts); i++) {
		assert_int_equal(rig_send(rig->qp[0], i, memory, memory->addr, 8), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 10 * i);
	}
	rig_none(rig->cq[1]);
}

static void nothing_to_post(void **state)
{
	struct rig *rig = *state;
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;

	assert_int_equal(ibv_post_send(rig->qp[0], NULL, &bad_send), 0);
	assert_int_equal(ibv_post_recv(rig->qp[0], NULL, &bad_recv), 0);
}

/* ---- Slots ---- */

static void full_receive_queue(void **state)
{
	struct rig *rig = *state;

	for (uint64_t i = 0; i < RIG_DEPTH; i++)
		assert_int_equal(rig_receive(rig->qp[1], i, memory, memory->addr, 8), 0);
	for (uint64_t i = 0; i < 3 * RIG_DEPTH; i++) {
		assert_int_equal(rig_receive(rig->qp[1], 999, memory, memory->addr, 8), ENOMEM);
		assert_int_equal(rig_send(rig->qp[0], i, memory, memory->addr, 8), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		/* taken, but not polled: such a receive keeps its slot */
		assert_int_equal(rig_receive(rig->qp[1], 999, memory, memory->addr, 8), ENOMEM);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
		assert_int_equal(rig_receive(rig->qp[1], RIG_DEPTH + i, memory, memory->addr, 8),
				 0);
	}
}

static void full_send_queue(void **state)
{
	struct rig *rig = *state;

	for (uint64_t round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < RIG_DEPTH; i++)
			assert_int_equal(write_8(rig->qp[0], i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(write_8(rig->qp[0], 999, IBV_SEND_SIGNALED), ENOMEM);
		assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_RTS);
		for (uint64_t i = 0; i < RIG_DEPTH; i++) {
			rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
			assert_int_equal(write_8(rig->qp[0], i, IBV_SEND_SIGNALED), 0);
			assert_int_equal(write_8(rig->qp[0], 999, IBV_SEND_SIGNALED), ENOMEM);
		}
		for (uint64_t i = 0; i < RIG_DEPTH; i++)
			rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
	}
}

/* Unsignaled requests keep their slots until a later signaled one is polled. */
static void unsignaled_slots(void **state)
{
	struct rig *rig = *state;

	for (uint64_t round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < RIG_DEPTH - 1; i++)
			assert_int_equal(write_8(rig->qp[0], 999, 0), 0);
		rig_none(rig->cq[0]);
		assert_int_equal(write_8(rig->qp[0], round, IBV_SEND_SIGNALED), 0);
		assert_int_equal(write_8(rig->qp[0], 999, 0), ENOMEM);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, round);
		rig_none(rig->cq[0]);
	}
	/* a signaled request in the middle frees the slots up to its own */
	for (uint64_t i = 0; i < RIG_DEPTH; i++)
		assert_int_equal(write_8(rig->qp[0], i, i == 9 ? IBV_SEND_SIGNALED : 0), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 9);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(write_8(rig->qp[0], i, 0), 0);
	assert_int_equal(write_8(rig->qp[0], 999, 0), ENOMEM);
	/* and only completions free slots: a queue of unsignaled requests stays full */
	rig_none(rig->cq[0]);
	assert_int_equal(write_8(rig->qp[0], 999, IBV_SEND_SIGNALED), ENOMEM);
}

static void all_signaled(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig, &(struct rig_wish){.signal_all = true});
	for (uint64_t i = 0; i < 3 * RIG_DEPTH; i++) {
		assert_int_equal(write_8(rig->qp[0], i, 0), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
	}
}

/* An unsignaled request that fails has a completion all the same. */
static void unsignaled_failure(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = {(uintptr_t)memory->addr, 8, memory->lkey + 1};
	struct ibv_send_wr *bad, wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(write_8(rig->qp[0], 4, 0), 0);
	assert_int_equal(rig_receive(rig->qp[1], 1, memory, memory->addr, 8), 0);
	wr.opcode = IBV_WR_SEND;
	assert_int_equal(ibv_post_send(rig->qp[0], &wr, &bad), 0);
	assert_int_equal(write_8(rig->qp[0], 6, 0), 0);
	rig_expect(rig->cq[0], IBV_WC_LOC_PROT_ERR, 5);
	rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 6);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_ERR);
}

/* A depth that is no power of two is kept exactly. */
static void depths(void **state)
{
	static const uint32_t sizes[] = {1, 2, 3, 5, 17, 100};
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(sizes); i++) {
		rig_connect(rig, &(struct rig_wish){.depth = sizes[i]});
		for (int round = 0; round < 3; round++) {
			for (uint64_t k = 0; k < sizes[i]; k++) {
				assert_int_equal(rig_receive(rig->qp[1], k, NULL, NULL, 0), 0);
				assert_int_equal(rig_send(rig->qp[0], k, NULL, NULL, 0), 0);
			}
			assert_int_equal(rig_receive(rig->qp[1], 99, NULL, NULL, 0), ENOMEM);
			assert_int_equal(rig_send(rig->qp[0], 99, NULL, NULL, 0), ENOMEM);
			for (uint64_t k = 0; k < sizes[i]; k++) {
				rig_expect(rig->cq[1], IBV_WC_SUCCESS, k);
				rig_expect(rig->cq[0], IBV_WC_SUCCESS, k);
			}
		}
	}
}

/* A program that posts a request for each of its own completions that it polls finds what has come from its peer, too; also one
 * whose queue those nearly fill. */
static void receives_among_own(void **state)
{
	enum { RECEIVES = 3, POLLS = 500 };
	struct rig *rig = *state;
	struct ibv_wc wc;
	uint64_t received = 0;

	assert_int_equal(ibv_resize_cq(rig->cq[0], 2 * RECEIVES), 0);
	for (uint64_t i = 0; i < RECEIVES; i++)
		assert_int_equal(rig_receive(rig->qp[0], i, memory, memory->addr, 8), 0);
	for (uint64_t i = 0; i < RECEIVES; i++)
		assert_int_equal(rig_send(rig->qp[1], i, memory, memory->addr, 8), 0);
	for (uint64_t i = 0; i < RECEIVES; i++)
		assert_int_equal(write_8(rig->qp[0], 9, IBV_SEND_SIGNALED), 0);
	for (int i = 0; i < POLLS && received < RECEIVES; i++) {
		assert_int_equal(ibv_poll_cq(rig->cq[0], 1, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV) {
			assert_int_equal(wc.wr_id, received++);
			continue;
		}
		assert_int_equal(wc.wr_id, 9);
		assert_int_equal(write_8(rig->qp[0], 9, IBV_SEND_SIGNALED), 0);
	}
	assert_int_equal(received, RECEIVES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(states, setup, teardown),
		cmocka_unit_test_setup_teardown(send_queue_drained, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(drained_while_waiting, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(refused_sends, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(refused_receives, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(nothing_to_post, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(full_receive_queue, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(full_send_queue, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(unsignaled_slots, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(all_signaled, setup, teardown),
		cmocka_unit_test_setup_teardown(unsignaled_failure, setup_connected, teardown),
		cmocka_unit_test_setup_teardown(depths, setup, teardown),
		cmocka_unit_test_setup_teardown(receives_among_own, setup_connected, teardown),
	};

	return cmocka_run_group_tests_name("post", tests, make_pool, remove_pool);
}
