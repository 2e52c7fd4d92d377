/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests on a third process's memory, which is rehomed while they are carried out: its owner waits for a
 * while, and then leaves behind an executor that stands still. Here the whole rehoming is between two
 * labelled turns, so that each request meets it.
 */
#include "../verbs/two.h"

#include <string.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "pool/step.h"
#include "pool/format_region.h"
#include "pool/format_member.h"
#include "process/process.h"

#define BYTES 4096u

static struct two w;
static const char *awaited; /* the turn at which the owner rehomes; NULL: it does not */

/* A whole rehoming, as the executor sees it. The pages really stay where they are. */
void weft_turn(const char *name)
{
	const struct weft_pool *pool = weft_process.pool;
	uint16_t owner;

	if (!awaited || strcmp(name, awaited))
		return;
	awaited = NULL;
	owner = pool->mrs[w.there->mr >> WEFT_KEY_BITS].owner;
	weft_pool_member(weft_process.pool, owner)->rehomings += WEFT_REHOMING_PHASES;
}

static int setup(void **state)
{
	two_begin(&w, false);
	exporter_do(&w.exporter, EXPORT_FILL, 0);
	return 0;
}

static int teardown(void **state)
{
	two_end(&w);
	return 0;
}

static void local(const char *at, enum ibv_wr_opcode opcode, uint32_t len)
{
	awaited = at;
	assert_int_equal(rig_rdma(w.qp, opcode, 1, w.theirs, w.there->at, len,
				  (uintptr_t)w.own->addr, w.own->rkey),
			 0);
	rig_expect(w.cq, IBV_WC_SUCCESS, 1);
	assert_null(awaited);
}

static void expect_others(uint8_t byte, uint64_t n)
{
	assert_int_equal(exporter_do(&w.exporter, EXPORT_CHECK, byte), n);
}

/* Of a READ and a receive the bytes are looked at only after the completion: the request is carried out once
 * more. */
static void done_again(void **state)
{
	memset(w.own->addr, 3, BYTES);
	local("place_copied", IBV_WR_RDMA_READ, BYTES);
	expect_others(0, BYTES);
	memset(w.own->addr, 4, BYTES);
	assert_int_equal(rig_receive(w.qp, 2, w.theirs, w.there->at, BYTES), 0);
	awaited = "place_copied";
	assert_int_equal(rig_send(w.rig.qp[1], 3, w.own, w.own->addr, BYTES), 0);
	rig_expect(w.rig.cq[1], IBV_WC_SUCCESS, 3);
	assert_int_equal(rig_expect(w.cq, IBV_WC_SUCCESS, 2).byte_len, BYTES);
	assert_null(awaited);
	expect_others(4, EXPORTED_BYTES - BYTES);
}

/* The old value of an atomic is placed late, and nothing is added twice. */
static void answered_late(void **state)
{
	static const char *const turns[] = {"direct_atomic_done", "place_copied"};
	uint64_t *word = w.own->addr;

	for (size_t i = 0; i < COUNT(turns); i++) {
		exporter_do(&w.exporter, EXPORT_FILL, 0);
		*word = 0x0101010101010101;
		local(turns[i], IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
		assert_int_equal(*word, 0x0101010101010102); /* rig_rdma adds one */
		expect_others(1, EXPORTED_BYTES - 8);
		local(NULL, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
		assert_int_equal(*word, 0x0101010101010103);
	}
}

/* Bytes that a WRITE has stored into the old pages are lost, and it cannot be carried out again: it fails,
 * and the queue pair at the other end does not. */
static void lost(enum ibv_wr_opcode opcode, uint32_t len)
{
	awaited = "place_copied";
	assert_int_equal(rig_rdma(w.rig.qp[1], opcode, 5, w.own, w.own->addr, len,
				  (uintptr_t)w.there->at, w.theirs->rkey),
			 0);
	rig_expect(w.rig.cq[1], IBV_WC_REM_OP_ERR, 5);
	assert_null(awaited);
	usleep(50000);
	assert_int_equal(rig_state(w.qp), IBV_QPS_RTS);
	assert_int_equal(rig_state(w.rig.qp[1]), IBV_QPS_ERR);
	two_connect(&w);
}

static void bytes_lost(void **state)
{
	lost(IBV_WR_RDMA_WRITE, BYTES);
	local(NULL, IBV_WR_RDMA_WRITE, 8);
}

static void datagram_lost(void **state)
{
	struct ibv_qp *near = two_make_qp(w.pd, w.cq, IBV_QPT_UD);
	struct ibv_qp *peer = two_make_qp(w.pd, w.cq, IBV_QPT_UD);
	struct ibv_ah_attr attr = rig_attr(w.context, IBV_QPS_RTR, 0).ah_attr;
	struct ibv_ah *ah = ibv_create_ah(w.pd, &attr);
	struct ibv_mr *from = rig_region(w.pd, BYTES);
	struct ibv_sge sge = {(uintptr_t)from->addr, 100, from->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = 1,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .wr.ud = {ah, peer->qp_num, RIG_QKEY}};

	assert_true(near && peer);
	rig_modify(near, IBV_QPS_RTS, 0);
	rig_modify(peer, IBV_QPS_RTS, 0);
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(rig_receive(peer, 6 + i, w.theirs, w.there->at, BYTES), 0);
	awaited = "place_copied";
	assert_int_equal(ibv_post_send(near, &wr, &bad), 0);
	assert_null(awaited);
	usleep(50000);
	assert_int_equal(rig_state(peer), IBV_QPS_RTS);
	assert_int_equal(ibv_post_send(near, &wr, &bad), 0);
	assert_int_equal(rig_next(w.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(near), 0);
	assert_int_equal(ibv_destroy_qp(peer), 0);
	rig_region_end(from);
}

#define WITH_BOTH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_BOTH(done_again),
		WITH_BOTH(answered_late),
		WITH_BOTH(bytes_lost),
		WITH_BOTH(datagram_lost),
	};

	return cmocka_run_group_tests_name("left", tests, make_pool, remove_pool);
}
