/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who waits for a process that is stopped leaves the cores to others. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "rig.h"

#define BYTES 64

static uint8_t in_place[BYTES]; /* static memory does not move into the pool */

static struct meeting {
	_Atomic uint32_t target_qpn, our_qpn, connected;
	uint32_t rkey;
	uint64_t address;
} *meeting;

static void await(const _Atomic uint32_t *word)
{
	for (int i = 0; !atomic_load(word); i++) {
		assert_in_range(i, 0, 20000);
		usleep(1000);
	}
}

static void be_target(void)
{
	struct rig rig;
	struct ibv_mr *mr;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_open(&rig);
	mr = ibv_reg_mr(rig.pd, in_place, BYTES, RIG_ALL);
	if (!mr)
		_exit(1);
	meeting->rkey = mr->rkey;
	meeting->address = (uintptr_t)in_place;
	atomic_store(&meeting->target_qpn, rig.qp[0]->qp_num);
	await(&meeting->our_qpn);
	rig_move(rig.qp[0], IBV_QPS_RTS, meeting->our_qpn);
	atomic_store(&meeting->connected, 1);
	for (;;)
		pause();
}

static double cpu_s(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static struct ibv_qp *meet(struct rig *rig)
{
	struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);
	struct ibv_qp *qp = ibv_create_qp(rig->pd, &init);

	assert_non_null(qp);
	await(&meeting->target_qpn);
	rig_move(qp, IBV_QPS_RTS, meeting->target_qpn);
	atomic_store(&meeting->our_qpn, qp->qp_num);
	await(&meeting->connected);
	return qp;
}

static void test_leaves_the_cores(void **state)
{
	pid_t target = fork();
	struct ibv_qp *qp;
	struct ibv_mr *local;
	uint64_t begun_ns;
	struct rig rig;
	double waited_s, used_s;

	if (!target)
		be_target();
	rig_open(&rig);
	local = rig_region(rig.pd, 4096);
	qp = meet(&rig);
	assert_int_equal(kill(target, SIGSTOP), 0);
	assert_int_equal(waitpid(target, NULL, WUNTRACED), target);

	used_s = cpu_s();
	begun_ns = rig_now_ns();
	assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 7, local, local->addr, BYTES, meeting->address,
				  meeting->rkey),
			 0);
	waited_s = (double)(rig_now_ns() - begun_ns) / 1e9;
	used_s = cpu_s() - used_s;
	assert_true(waited_s > 0.5);
	if (used_s > waited_s / 8)
		fail_msg("%.3f s of processor time in %.3f s of waiting", used_s, waited_s);
	assert_int_equal(kill(target, SIGKILL), 0);
	assert_int_equal(waitpid(target, NULL, 0), target);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_leaves_the_cores) };

	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	if (meeting == MAP_FAILED)
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests(tests, make_pool, remove_pool);
}
