/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An executor is stopped between its last look at its grant and asking the helper of the memory's owner, and
 * asks when the grant has ended: nothing is carried out for it. All of libibverbs in one program.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "../verbs/rig.h"
#include "pool/step.h"

#define BYTES 64

static _Alignas(8) uint8_t in_place[BYTES]; /* static memory does not migrate into the pool */

static struct meeting {
	_Atomic uint32_t target_qpn, our_qpn, ready;
	uint32_t rkey;
	enum ibv_wc_status status;
} * meeting;

static bool stops;

void weft_turn(const char *name)
{
	if (!stops || strcmp(name, "reach_checked"))
		return;
	stops = false;
	raise(SIGSTOP);
}

static _Noreturn void be_writer(enum ibv_wr_opcode opcode)
{
	struct ibv_mr *from;
	struct rig rig;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_open(&rig);
	from = rig_region(rig.pd, 4096);
	memset(from->addr, 0xee, 4096);
	atomic_store(&meeting->our_qpn, rig.qp[0]->qp_num);
	rig_await(&meeting->ready, 1);
	rig_modify(rig.qp[0], IBV_QPS_RTS, meeting->target_qpn);
	stops = true;
	rig_rdma(rig.qp[0], opcode, 7, from, from->addr, opcode == IBV_WR_RDMA_WRITE ? BYTES : 8,
		 (uintptr_t)in_place, meeting->rkey);
	meeting->status = rig_next(rig.cq[0]).status;
	_exit(0);
}

static void asks_too_late(enum ibv_wr_opcode opcode)
{
	uint8_t before[BYTES];
	struct ibv_mr *mr;
	struct rig rig;
	int status;
	pid_t writer;

	memset(meeting, 0, sizeof(*meeting));
	writer = fork();
	if (!writer)
		be_writer(opcode);
	rig_open(&rig);
	mr = ibv_reg_mr(rig.pd, in_place, BYTES, RIG_ALL);
	assert_non_null(mr);
	meeting->rkey = mr->rkey;
	atomic_store(&meeting->target_qpn, rig.qp[0]->qp_num);
	rig_modify(rig.qp[0], IBV_QPS_RTS, rig_await(&meeting->our_qpn, 1));
	atomic_store(&meeting->ready, 1);
	assert_int_equal(waitpid(writer, &status, WUNTRACED), writer);
	assert_true(WIFSTOPPED(status));

	rig_modify(rig.qp[0], IBV_QPS_ERR, 0);
	memset(in_place, 0x5a, BYTES);
	memcpy(before, in_place, BYTES);
	assert_int_equal(kill(writer, SIGCONT), 0);
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_int_equal(status, 0);
	assert_int_equal(meeting->status, IBV_WC_RETRY_EXC_ERR);
	assert_memory_equal(in_place, before, BYTES);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	rig_close(&rig);
}

static void writes_too_late(void **state)
{
	asks_too_late(IBV_WR_RDMA_WRITE);
}

static void adds_too_late(void **state)
{
	asks_too_late(IBV_WR_ATOMIC_FETCH_AND_ADD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_too_late),
		cmocka_unit_test(adds_too_late),
	};

	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (meeting == MAP_FAILED)
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("asked", tests, make_pool, remove_pool);
}
