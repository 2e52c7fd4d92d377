/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What happens to the two ends while a request is under way: the owner lives, and its helper alone stands in
 * the middle of what it was asked, or has just done it. All of libibverbs in one program.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "late.h"
#include "pool/format_qp.h"
#include "process/process.h"

#define BYTES 70000u /* so many that a request takes two asks */

static uint64_t word(void)
{
	uint64_t value;

	memcpy(&value, owner_meeting->memory, 8);
	return value;
}

static void is_all(uint8_t byte, uint32_t from, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (owner_meeting->memory[from + i] != byte)
			fail_msg("byte %u is %02x, not %02x", from + i,
				 owner_meeting->memory[from + i], byte);
}

static void post_held(enum owner_place place, int end, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	owner_hold(place);
	late_post(end, opcode, bytes);
	owner_await_held();
}

/* ---- The responder ---- */

/* The responder is rehomed meanwhile: the request looks it up again and asks anew, and what was asked first
 * is carried out at most once. The owner waits for its own helper as for any executor. */
static void rehomes(enum owner_place place, int end, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	memset(owner_meeting->memory, 0, OWNER_BYTES);
	late_fill(late_near(0), bytes, 4);
	post_held(place, end, opcode, bytes);
	owner_order(OWNER_REHOME, 0);
	late_stands(STANDS / 4);
	owner_let_go();
	owner_result();
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
}

static void responder_rehomes(void **state)
{
	static const enum owner_place places[] = {OWNER_ANSWERING, OWNER_APPLIED};

	for (size_t i = 0; i < COUNT(places); i++) {
		rehomes(places[i], 3, IBV_WR_RDMA_WRITE, BYTES);
		assert_memory_equal(owner_meeting->memory, late_near(0), BYTES);
		rehomes(places[i], 3, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
		assert_int_equal(word(), 5);
		rehomes(places[i], OWNER_XRC, IBV_WR_RDMA_WRITE, BYTES);
		assert_memory_equal(owner_meeting->memory, late_near(0), BYTES);
	}
	/* the receive of the shared queue is taken again: there is only one */
	rehomes(OWNER_ANSWERING, OWNER_SRQ, IBV_WR_SEND, BYTES);
	assert_memory_equal(owner_meeting->memory, late_near(0), BYTES);
	assert_int_equal(owner_do(OWNER_COUNT, 0), 1);
	rehomes(OWNER_ANSWERING, OWNER_XRC, IBV_WR_SEND, BYTES);
	assert_memory_equal(owner_meeting->memory, late_near(0), BYTES);
	assert_int_equal(owner_do(OWNER_COUNT, 0), 1);
}

static uint64_t conn_of(int end)
{
	uint32_t index = owner_meeting->theirs[end] & (WEFT_QPS - 1);

	return atomic_load(&weft_process.pool->qps[index].conn);
}

/* Waits until the owner has published that this end is reset; the owner then waits for its helper. */
static void await_reset(int end, uint64_t was)
{
	while (conn_of(end) == was)
		late_stands(MS);
}

/* The request waits for a receive; is under way; waits for another receive, as the first was discarded by a
 * reset; and arrives whole, though a part of it had been placed before. */
static void no_receive(void **state)
{
	uint64_t was;

	late_fill(late_near(0), BYTES, 6);
	owner_hold_after(OWNER_ANSWERING, 1);
	late_post(3, IBV_WR_SEND, BYTES);
	late_stands(STANDS);
	owner_do(OWNER_RECEIVE, 3);
	while (!atomic_load(&owner_meeting->held))
		late_stands(MS);
	was = conn_of(3);
	owner_order(OWNER_RECONNECT, 3);
	await_reset(3, was);
	owner_let_go();
	owner_result();
	late_stands(STANDS);
	assert_int_equal(owner_do(OWNER_COUNT, 0), 0);
	memset(owner_meeting->memory, 0, OWNER_BYTES);
	owner_do(OWNER_RECEIVE, 3);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, late_near(0), BYTES);
	assert_int_equal(owner_do(OWNER_COUNT, 0), 1);
}

/* ---- The requester ---- */

/* The helper may still read the bytes of a flushed request: the next request may not put its own in their
 * place. */
static void another_behind(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	memset(owner_meeting->memory, 0, OWNER_BYTES);
	memset(late_near(0), 0xaa, 1000);
	post_held(OWNER_ANSWERING, 3, IBV_WR_RDMA_WRITE, 1000);
	rig_modify(owner.qp[3], IBV_QPS_ERR, 0);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	memset(late_near(0), 0xbb, 1000);
	wr = late_request(&sge, IBV_WR_RDMA_WRITE, 1000);
	wr.wr.rdma.remote_addr += 4096;
	late_begin(4, &wr);
	late_stands(STANDS);
	owner_let_go();
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	is_all(0xaa, 0, 1000);
	is_all(0xbb, 4096, 1000);
}

/* More requests than a member can ask for at once: every second one is given up, whether it has been asked or
 * waits for that; then the others; then all; then none. */
static void some_are_given_up(void **state)
{
	static const struct {
		int first, step;
	} rounds[] = {{0, 2}, {1, 2}, {0, 1}, {OWNER_ENDS, 1}};

	memset(late_near(0), 0xcc, 1000);
	for (size_t round = 0; round < COUNT(rounds); round++) {
		int first = rounds[round].first, step = rounds[round].step, left = OWNER_ENDS;

		owner_stop(&owner);
		for (int i = 0; i < OWNER_ENDS; i++)
			late_post(i, IBV_WR_RDMA_WRITE, 1000);
		late_stands(STANDS / 4);
		for (int i = first; i < OWNER_ENDS; i += step, left--) {
			rig_modify(owner.qp[i], IBV_QPS_ERR, 0);
			rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
		}
		late_stands(STANDS / 4);
		memset(owner_meeting->memory, 0, 1000);
		owner_continue(&owner);
		for (int i = 0; i < left; i++)
			rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
		is_all(left ? 0xcc : 0, 0, 1000);
		for (int i = first; i < OWNER_ENDS; i += step) {
			rig_modify(owner.qp[i], IBV_QPS_RESET, 0);
			rig_modify(owner.qp[i], IBV_QPS_RTS, owner_meeting->theirs[i]);
		}
	}
}

/* ---- A child of the requester ---- */

/* The child has asks and bytes of its own: what it asks the same helper is not taken for its parent's. */
static _Noreturn void be_child(void)
{
	struct rig own = {0};
	struct ibv_ah_attr attr;
	struct ibv_send_wr wr = {.wr_id = 1, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_sge sge;

	/* destroying an inherited queue pair does nothing */
	ibv_destroy_qp(owner.qp[3]);
	rig_open(&own);
	rig_connect(&own, &(struct rig_wish){.type = IBV_QPT_UD});
	late_local = rig_region(own.pd, OWNER_BYTES);
	memset(late_near(0), 0xee, BYTES);
	sge = (struct ibv_sge){(uintptr_t)late_near(0), 1000, late_local->lkey};
	attr = rig_attr(own.context, IBV_QPS_RTR, 0).ah_attr;
	wr.sg_list = &sge;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.ud.ah = ibv_create_ah(own.pd, &attr);
	wr.wr.ud.remote_qpn = owner_meeting->theirs[OWNER_UD];
	wr.wr.ud.remote_qkey = RIG_QKEY;
	if (!wr.wr.ud.ah || ibv_post_send(own.qp[0], &wr, &bad))
		_exit(1);
	rig_expect(own.cq[0], IBV_WC_SUCCESS, 1);
	ibv_destroy_ah(wr.wr.ud.ah);
	rig_region_end(late_local);
	rig_close(&own);
	_exit(0);
}

static void forks(void **state)
{
	int status;
	pid_t child;

	memset(owner_meeting->memory, 0, OWNER_BYTES);
	late_fill(late_near(0), BYTES, 9);
	post_held(OWNER_ANSWERING, 3, IBV_WR_RDMA_WRITE, BYTES);
	child = fork();
	if (!child)
		be_child();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	late_stands(STANDS);
	owner_let_go();
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, late_near(0), BYTES);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(responder_rehomes), CASE(no_receive), CASE(another_behind),
		CASE(some_are_given_up), CASE(forks),
	};

	if (owner_prepare())
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("late-held", tests, make_pool, remove_pool);
}
