/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Unreliable connections: what arrives is right, what cannot arrive is dropped, and the sender
 * learns of neither (InfiniBand volume 1, 9.8.3).
 */
#include "rig.h"

#include <errno.h>
#include <string.h>

#include "../abi/pool.h"

#define BYTES 4096u

static int setup(void **state)
{
	rig_setup(state);
	rig_connect(*state, &(struct rig_wish){.type = IBV_QPT_UC});
	return 0;
}

static void fill(uint8_t *at, uint8_t first)
{
	for (uint32_t i = 0; i < BYTES; i++)
		at[i] = (uint8_t)(first + i * 7);
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint32_t len,
		uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, len, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = 0x12345678,
				 .wr.rdma = {remote, rkey}};
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static void bytes_arrive(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct rig *rig = *state;
	struct ibv_mr *from = rig_region(rig->pd, BYTES), *to = rig_region(rig->pd, BYTES);

	for (size_t i = 0; i < COUNT(opcodes); i++) {
		bool write = opcodes[i] == IBV_WR_RDMA_WRITE, send = i < 2;

		fill(from->addr, (uint8_t)i);
		if (!write)
			assert_int_equal(rig_receive(rig->qp[1], i, to, to->addr, BYTES), 0);
		assert_int_equal(
			post(rig->qp[0], opcodes[i], from, BYTES, (uintptr_t)to->addr, to->rkey),
			0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 7);
		assert_memory_equal(from->addr, to->addr, BYTES);
		if (!write) {
			struct ibv_wc wc = rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);

			assert_int_equal(wc.opcode, send ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM);
			assert_int_equal(wc.byte_len, BYTES);
			assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, i ? IBV_WC_WITH_IMM : 0);
			assert_int_equal(wc.src_qp, rig->qp[0]->qp_num);
		}
	}
	rig_region_end(from);
	rig_region_end(to);
}

/* A message completes at the sender as if it had arrived, nothing arrives, and both queue pairs stay in
 * RTS. */
static void expect_dropped(struct rig *rig, enum ibv_wr_opcode opcode, const struct ibv_mr *from,
			   uint64_t remote, uint32_t rkey)
{
	assert_int_equal(post(rig->qp[0], opcode, from, BYTES, remote, rkey), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 7);
	rig_none(rig->cq[1]);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_RTS);
	assert_int_equal(rig_state(rig->qp[1]), IBV_QPS_RTS);
}

static void what_cannot_arrive_is_dropped(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *from = rig_region(rig->pd, BYTES), *to = rig_region(rig->pd, BYTES);
	uint64_t at = (uintptr_t)to->addr;

	fill(from->addr, 1);
	/* no receive */
	expect_dropped(rig, IBV_WR_SEND, from, 0, 0);
	expect_dropped(rig, IBV_WR_RDMA_WRITE_WITH_IMM, from, at, to->rkey);
	/* a receive that is too short stays for a message that fits */
	memset(to->addr, 0, BYTES);
	assert_int_equal(rig_receive(rig->qp[1], 3, to, to->addr, BYTES - 1), 0);
	expect_dropped(rig, IBV_WR_SEND, from, 0, 0);
	/* wrong addresses and keys */
	expect_dropped(rig, IBV_WR_RDMA_WRITE, from, at, to->rkey ^ 1);
	expect_dropped(rig, IBV_WR_RDMA_WRITE, from, at + 1, to->rkey);
	expect_dropped(rig, IBV_WR_RDMA_WRITE_WITH_IMM, from, at, to->rkey ^ 1);
	assert_int_equal(((uint8_t *)to->addr)[0], 0);
	assert_int_equal(rig_send(rig->qp[0], 4, from, from->addr, BYTES - 1), 0);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 3);
	/* a peer that is not there */
	rig_modify(rig->qp[1], IBV_QPS_RESET, 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 4);
	assert_int_equal(rig_send(rig->qp[0], 5, from, from->addr, BYTES), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 5);
	rig_region_end(from);
	rig_region_end(to);
}

/* A receive that is wrong itself fails the queue pair that it was posted to. */
static void bad_receive(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *from = rig_region(rig->pd, BYTES), *to = rig_region(rig->pd, BYTES);
	struct ibv_mr wrong = *to;

	wrong.lkey ^= 1;
	assert_int_equal(rig_receive(rig->qp[1], 1, &wrong, to->addr, BYTES), 0);
	assert_int_equal(rig_receive(rig->qp[1], 2, to, to->addr, BYTES), 0);
	assert_int_equal(rig_send(rig->qp[0], 3, from, from->addr, BYTES), 0);
	/* right behind it, when the receiver's process may not have seen the fault yet */
	assert_int_equal(rig_send(rig->qp[0], 3, from, from->addr, BYTES), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 3);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 3);
	rig_expect(rig->cq[1], IBV_WC_LOC_PROT_ERR, 1);
	rig_expect(rig->cq[1], IBV_WC_WR_FLUSH_ERR, 2);
	rig_await_state(rig->qp[1], IBV_QPS_ERR);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_RTS);
	assert_int_equal(rig_send(rig->qp[0], 4, from, from->addr, BYTES), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 4);
	rig_region_end(from);
	rig_region_end(to);
}

/* An error on the sender's side stops its send queue, which can be started again; it goes on receiving
 * (10.3.1.6). */
static void send_queue_error(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, BYTES), wrong = *mr;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};

	wrong.lkey ^= 1;
	assert_int_equal(rig_send(rig->qp[0], 1, &wrong, mr->addr, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_LOC_PROT_ERR, 1);
	assert_int_equal(rig_state(rig->qp[0]), IBV_QPS_SQE);
	assert_int_equal(rig_send(rig->qp[0], 2, mr, mr->addr, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_WR_FLUSH_ERR, 2);
	assert_int_equal(rig_receive(rig->qp[0], 3, mr, mr->addr, 8), 0);
	assert_int_equal(rig_send(rig->qp[1], 4, mr, mr->addr, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 3);
	assert_int_equal(ibv_modify_qp(rig->qp[0], &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	assert_int_equal(rig_receive(rig->qp[1], 5, mr, mr->addr, 8), 0);
	assert_int_equal(rig_send(rig->qp[0], 6, mr, mr->addr, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 6);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 4);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 5);
	rig_region_end(mr);
}

/* READ and atomics need answers: UC has none. */
static void operations_it_has_not(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD,
						     (enum ibv_wr_opcode)99};
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, BYTES);

	for (size_t i = 0; i < COUNT(opcodes); i++)
		assert_int_equal(post(rig->qp[0], opcodes[i], mr, 8, (uintptr_t)mr->addr, mr->rkey),
				 EINVAL);
	rig_none(rig->cq[0]);
	rig_region_end(mr);
}

/* A queue pair of RC and one of UC cannot talk to each other. */
static void other_type(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr init = rig_init(rig->cq[1], rig->cq[1]);
	struct ibv_qp *rc = ibv_create_qp(rig->pd, &init);
	struct ibv_mr *mr = rig_region(rig->pd, BYTES);

	assert_non_null(rc);
	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig->qp[0], IBV_QPS_RTS, rc->qp_num);
	rig_modify(rc, IBV_QPS_RTS, rig->qp[0]->qp_num);
	assert_int_equal(rig_receive(rc, 1, mr, mr->addr, 8), 0);
	assert_int_equal(rig_send(rig->qp[0], 2, mr, mr->addr, 8), 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 2);
	rig_none(rig->cq[1]);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	rig_region_end(mr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_arrive, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(what_cannot_arrive_is_dropped, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(bad_receive, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(send_queue_error, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(operations_it_has_not, setup, rig_teardown),
		cmocka_unit_test_setup_teardown(other_type, setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("uc", tests, make_pool, remove_pool);
}
