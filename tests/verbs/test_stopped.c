/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A thread whose request waits for a stopped process leaves the processor to others, and waits with a
 * bound. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "rig.h"

#define BYTES 64

static uint8_t in_place[BYTES]; /* static memory does not migrate into the pool */

static struct meeting {
	_Atomic uint32_t target_qpn, our_qpn, connected;
	_Atomic uint32_t rkey;
	uint64_t address;
} * meeting;

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
	rig_await(&meeting->our_qpn, 1);
	rig_modify(rig.qp[0], IBV_QPS_RTS, meeting->our_qpn);
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
	rig_await(&meeting->target_qpn, 1);
	rig_modify(qp, IBV_QPS_RTS, meeting->target_qpn);
	atomic_store(&meeting->our_qpn, qp->qp_num);
	rig_await(&meeting->connected, 1);
	return qp;
}

static void test_leaves_the_cores(void **state)
{
	pid_t target = fork_peer();
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
	assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 7, local, local->addr, BYTES,
				  meeting->address, meeting->rkey),
			 0);
	/* posting the request has not waited; the helper retries it while this thread sleeps */
	assert_true(rig_now_ns() - begun_ns < 300000000);
	usleep(700000);
	waited_s = (double)(rig_now_ns() - begun_ns) / 1e9;
	used_s = cpu_s() - used_s;
	rig_none(rig.cq[0]);
	if (used_s > waited_s / 8)
		fail_msg("%.3f s of processor time in %.3f s of waiting", used_s, waited_s);
	assert_int_equal(kill(target, SIGKILL), 0);
	assert_int_equal(waitpid(target, NULL, 0), target);
}

/* ---- A lock's owner that is stopped ---- */

#define QPS 200 /* more than one block of the pool's table of queue pairs has room for */

static void make_queue_pairs(struct rig *rig, int error)
{
	struct ibv_qp_init_attr init = rig_init(rig->cq[0], rig->cq[0]);
	int made = 0;

	while (made < QPS && ibv_create_qp(rig->pd, &init))
		made++;
	if (made < QPS ? errno != error : error)
		_exit(1);
}

static void creates(void)
{
	struct rig rig;

	rig_open(&rig);
	atomic_store(&meeting->our_qpn, 1);
	rig_await(&meeting->connected, 1);
	make_queue_pairs(&rig, ETIMEDOUT);
	atomic_store(&meeting->target_qpn, 1);
	while (atomic_load(&meeting->connected) == 1)
		usleep(1000);
	make_queue_pairs(&rig, 0);
	_exit(0);
}

/* Closes the device alone, without its objects, as the process ends anyway. */
static void closes(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);

	atomic_store(&meeting->rkey, 1);
	rig_await(&meeting->connected, 1);
	_exit(ibv_close_device(context));
}

static void opens(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	rig_await(&meeting->connected, 1);
	_exit(ibv_open_device(list[0]) || errno != ETIMEDOUT);
}

static pid_t start(void (*fn)(void))
{
	pid_t pid = fork_peer();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fn();
	_exit(1);
}

static void hold(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	const char *path = getenv("WEFT_POOL");
	int fd = path ? open(path, O_RDWR) : -1;

	if (fd < 0 || fcntl(fd, F_OFD_SETLK, &lock))
		_exit(1);
	raise(SIGSTOP);
	_exit(0);
}

static void ends_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Each verb that would wait for the lock's owner ends, with an error where it can have one; and everything
 * works once that goes on. */
static void test_stopped_with_the_lock(void **state)
{
	pid_t creator, closer, opener, holder;
	struct ibv_context *context;
	struct ibv_device **list;
	int status;

	memset(meeting, 0, sizeof(*meeting));
	creator = start(creates);
	closer = start(closes);
	opener = start(opens);
	rig_await(&meeting->our_qpn, 1);
	rig_await(&meeting->rkey, 1);
	holder = start(hold);
	assert_int_equal(waitpid(holder, &status, WUNTRACED), holder);
	assert_true(WIFSTOPPED(status));
	atomic_store(&meeting->connected, 1);
	ends_well(closer);
	ends_well(opener);
	rig_await(&meeting->target_qpn, 1);
	assert_int_equal(kill(holder, SIGCONT), 0);
	ends_well(holder);
	atomic_store(&meeting->connected, 2);
	ends_well(creator);
	list = ibv_get_device_list(NULL);
	context = ibv_open_device(list[0]);
	assert_non_null(context);
	assert_int_equal(ibv_close_device(context), 0);
	ibv_free_device_list(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_leaves_the_cores),
					   cmocka_unit_test(test_stopped_with_the_lock)};

	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (meeting == MAP_FAILED)
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests(tests, make_pool, remove_pool);
}
