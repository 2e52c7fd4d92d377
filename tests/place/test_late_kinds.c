/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each kind of request that only the helper of the memory's owner can carry out, while the owner is stopped:
 * it begins at once, ends when the owner goes on, and has done what it says by then. Also where the memory is
 * a third process's. All of libibverbs in one program.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../abi/pool.h"
#include "../verbs/two.h"
#include "late.h"

#define ADDED	5
#define SWAPPED 0x1122334455667788ull

/* ---- Each kind ---- */

enum { FITS = 1 }; /* the swap's compare value is the one that is there */

static const struct row {
	const char *name;
	int end;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	int how;
} rows[] = {
	{"inline write", 3, IBV_WR_RDMA_WRITE, 48, 0},
	{"write of a part", 3, IBV_WR_RDMA_WRITE, 1000, 0},
	{"write of many parts", 3, IBV_WR_RDMA_WRITE, OWNER_BYTES - 3, 0},
	{"read", 3, IBV_WR_RDMA_READ, 1000, 0},
	{"read of many parts", 3, IBV_WR_RDMA_READ, OWNER_BYTES - 5, 0},
	{"add", 3, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0},
	{"exchange", 3, IBV_WR_ATOMIC_CMP_AND_SWP, 8, FITS},
	{"exchange that finds another value", 3, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 0},
	{"atomic write", 3, IBV_WR_ATOMIC_WRITE, 8, 0},
	{"inline send", 0, IBV_WR_SEND, 48, 0},
	{"send of many parts", 0, IBV_WR_SEND, OWNER_BYTES - 7, 0},
	{"send to a shared queue", OWNER_SRQ, IBV_WR_SEND, OWNER_BYTES - 9, 0},
	{"unreliable write", OWNER_UC, IBV_WR_RDMA_WRITE, OWNER_BYTES - 11, 0},
	{"unreliable send", OWNER_UC, IBV_WR_SEND, 70000, 0},
	{"XRC: write", OWNER_XRC, IBV_WR_RDMA_WRITE, OWNER_BYTES - 13, 0},
	{"XRC: read", OWNER_XRC, IBV_WR_RDMA_READ, 70000, 0},
	{"XRC: send", OWNER_XRC, IBV_WR_SEND, OWNER_BYTES - 15, 0},
	{"XRC: add", OWNER_XRC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0},
	{"XRC: exchange", OWNER_XRC, IBV_WR_ATOMIC_CMP_AND_SWP, 8, FITS},
};

static bool is_atomic(const struct row *row)
{
	return row->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       row->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static uint64_t word(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, 8);
	return value;
}

static void check(const struct row *row, uint64_t before)
{
	bool reads = row->opcode == IBV_WR_RDMA_READ;
	const uint8_t *from = reads ? owner_meeting->memory : late_near(0);
	const uint8_t *to = reads ? late_near(0) : owner_meeting->memory;

	if (is_atomic(row)) {
		assert_int_equal(word(late_near(0)), before);
		assert_int_equal(word(owner_meeting->memory),
				 row->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? before + ADDED
				 : row->how == FITS			    ? SWAPPED
									    : before);
	} else {
		assert_memory_equal(to, from, row->bytes);
		assert_int_equal(to[row->bytes], 0xdd);
	}
}

static void post(const struct row *row, uint64_t before)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = late_request(&sge, row->opcode, row->bytes);

	if (row->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.compare_add = ADDED;
	if (row->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.compare_add = row->how == FITS ? before : ~before;
		wr.wr.atomic.swap = SWAPPED;
	}
	late_begin(row->end, &wr);
}

static void play(const struct row *row)
{
	bool sends = row->opcode == IBV_WR_SEND;
	uint64_t before;

	print_message("%s\n", row->name);
	memset(owner_meeting->memory, 0xdd, OWNER_BYTES);
	memset(late_near(0), 0xdd, OWNER_BYTES);
	if (row->opcode == IBV_WR_RDMA_READ || is_atomic(row))
		late_fill(owner_meeting->memory, row->bytes, 77 + (uint32_t)(row - rows));
	else
		late_fill(late_near(0), row->bytes, 77 + (uint32_t)(row - rows));
	before = word(owner_meeting->memory);
	owner_stop(&owner);
	post(row, before);
	late_stands(STANDS);
	owner_continue(&owner);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	check(row, before);
	assert_int_equal(owner_do(OWNER_COUNT, 0), sends);
	if (sends && (row->end == 0 || row->end == OWNER_UC))
		owner_do(OWNER_RECEIVE, row->end);
}

static void each_kind(void **state)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		play(&rows[i]);
}

/* A SEND by XRC is given up: what it has asked is taken back. */
static void given_up_by_xrc(void **state)
{
	owner_stop(&owner);
	late_post(OWNER_XRC, IBV_WR_SEND, 70000);
	late_stands(STANDS);
	rig_modify(owner.qp[OWNER_XRC], IBV_QPS_ERR, 0);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	owner_continue(&owner);
	rig_modify(owner.qp[OWNER_XRC], IBV_QPS_RESET, 0);
	rig_modify(owner.qp[OWNER_XRC], IBV_QPS_RTS, owner_meeting->theirs[OWNER_XRC]);
	/* the receive that the first SEND had taken is there for the next one */
	late_fill(late_near(0), 1000, 3);
	late_post(OWNER_XRC, IBV_WR_SEND, 1000);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, late_near(0), 1000);
	assert_int_equal(owner_do(OWNER_COUNT, 0), 1);
}

/* ---- Memory of a third process ---- */

static struct two two;

static int setup_two(void **state)
{
	two_begin(&two, true);
	exporter_do(&two.exporter, EXPORT_FILL, 3);
	return exporter_do(&two.exporter, EXPORT_ARM, 0) != 0;
}

static int teardown_two(void **state)
{
	two_end(&two);
	return 0;
}

static void stop_third(void)
{
	assert_int_equal(kill(two.exporter.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(two.exporter.pid, NULL, WUNTRACED), two.exporter.pid);
}

static void stands_at(struct ibv_cq *cq)
{
	uint64_t begun_ns = rig_now_ns();
	struct ibv_wc wc;

	while (late_took_ns(begun_ns) < STANDS)
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

/* A request of the queue pair in the shared domain, with bytes of the third process as its own. */
static void of_a_third(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint64_t begun_ns;

	stop_third();
	begun_ns = rig_now_ns();
	assert_int_equal(rig_rdma(two.qp, opcode, 1, two.theirs, two.there->at, bytes,
				  (uintptr_t)two.own->addr, two.own->rkey),
			 0);
	assert_in_range(late_took_ns(begun_ns), 0, AT_ONCE);
	stands_at(two.cq);
	assert_int_equal(kill(two.exporter.pid, SIGCONT), 0);
	rig_expect(two.cq, IBV_WC_SUCCESS, 1);
}

/* A request of that one's peer, to which the third process's memory is remote. */
static void at_a_third(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint64_t begun_ns;

	stop_third();
	begun_ns = rig_now_ns();
	assert_int_equal(rig_rdma(two.rig.qp[1], opcode, 2, two.own, two.own->addr, bytes,
				  (uintptr_t)two.there->at, two.theirs->rkey),
			 0);
	assert_in_range(late_took_ns(begun_ns), 0, AT_ONCE);
	stands_at(two.rig.cq[1]);
	assert_int_equal(kill(two.exporter.pid, SIGCONT), 0);
	rig_expect(two.rig.cq[1], IBV_WC_SUCCESS, 2);
}

static void a_third(void **state)
{
	uint64_t *own = two.own->addr;

	memset(own, 0, TWO_BYTES);
	of_a_third(IBV_WR_RDMA_WRITE, 5000);
	assert_int_equal(((uint8_t *)own)[4999], 3);
	assert_int_equal(((uint8_t *)own)[5000], 0);
	memset(own, 4, TWO_BYTES);
	of_a_third(IBV_WR_RDMA_READ, TWO_BYTES);
	assert_int_equal(exporter_do(&two.exporter, EXPORT_CHECK, 4), EXPORTED_BYTES - TWO_BYTES);
	memset(own, 5, TWO_BYTES);
	at_a_third(IBV_WR_RDMA_WRITE, TWO_BYTES);
	assert_int_equal(exporter_do(&two.exporter, EXPORT_CHECK, 5), EXPORTED_BYTES - TWO_BYTES);
	at_a_third(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	assert_int_equal(own[0], 0x0505050505050505);
	at_a_third(IBV_WR_RDMA_READ, 8);
	assert_int_equal(own[0], 0x0505050505050506);
}

static void a_third_dies(void **state)
{
	stop_third();
	assert_int_equal(rig_rdma(two.rig.qp[1], IBV_WR_RDMA_WRITE, 2, two.own, two.own->addr,
				  TWO_BYTES, (uintptr_t)two.there->at, two.theirs->rkey),
			 0);
	stands_at(two.rig.cq[1]);
	exporter_kill(&two.exporter);
	two.exporter.pid = 0;
	assert_int_not_equal(rig_next(two.rig.cq[1]).status, IBV_WC_SUCCESS);
}

#define CASE(name)  cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)
#define THIRD(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown_two)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_kind),
		CASE(given_up_by_xrc),
		THIRD(a_third),
		THIRD(a_third_dies),
	};

	if (owner_prepare())
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("late-kinds", tests, make_pool, remove_pool);
}
