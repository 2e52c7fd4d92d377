/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory that stays in place, of processes that change: an exec gives the process's number to another
 * program, its first thread ends, its memory goes. Linked without position independence, so that each program
 * has the same addresses.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "rig.h"

#define EXECS 100
/* WRITEs to each program, however slow they are, before it makes way for the next */
#define LEAST 2
#define BYTES (1u << 20)

static _Alignas(4096) uint8_t in_place[BYTES]; /* static memory does not migrate into the pool */

static struct meeting {
	/* 0 until there is one; the side that reads it sets it to 0 again before it lets the other go on */
	_Atomic uint32_t target_qpn, our_qpn, connected;
	_Atomic uint32_t written; /* how many WRITEs to the present target are done */
	_Atomic uint32_t hits, image;
	uint32_t rkey;
} * meeting;

static uint32_t take(_Atomic uint32_t *word)
{
	rig_await(word, 1);
	return atomic_exchange(word, 0);
}

/* The target's side of a connection: it shows its memory and connects. */
static void be_target(struct rig *rig)
{
	struct ibv_mr *mr;

	rig_open(rig);
	mr = ibv_reg_mr(rig->pd, in_place, BYTES, RIG_ALL);
	if (!mr)
		_exit(1);
	meeting->rkey = mr->rkey;
	atomic_store(&meeting->target_qpn, rig->qp[0]->qp_num);
	rig_modify(rig->qp[0], IBV_QPS_RTS, take(&meeting->our_qpn));
	atomic_store(&meeting->connected, 1);
}

static void meet(struct ibv_qp *qp)
{
	uint32_t target_qpn = take(&meeting->target_qpn);
	struct ibv_qp_attr attr;

	atomic_store(&meeting->written, 0);
	rig_modify(qp, IBV_QPS_RESET, 0);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		attr = rig_attr(qp->context, s, target_qpn);
		attr.timeout = 8; /* 1 ms */
		attr.retry_cnt = 1;
		assert_int_equal(ibv_modify_qp(qp, &attr, rig_mask(IBV_QPT_RC, s)), 0);
	}
	atomic_store(&meeting->our_qpn, qp->qp_num);
	take(&meeting->connected);
}

static enum ibv_wc_status write_to_target(struct rig *rig, const struct ibv_mr *from, uint32_t len)
{
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 1, from, from->addr, len,
				  (uintptr_t)in_place, meeting->rkey),
			 0);
	return rig_next(rig->cq[0]).status;
}

static void end(pid_t target)
{
	assert_int_equal(kill(target, SIGKILL), 0);
	assert_int_equal(waitpid(target, NULL, 0), target);
}

/* ---- Exec ---- */

/* The program that takes the place of the one before: no peer may write to its memory before it has
 * registered it. */
static _Noreturn void be_image(uint32_t number)
{
	uint64_t end_ns = rig_now_ns() + 3000000;
	char text[16];
	struct rig rig;

	while (rig_now_ns() < end_ns)
		for (size_t i = 0; i < BYTES; i += 512)
			if (((volatile uint8_t *)in_place)[i]) {
				atomic_fetch_add(&meeting->hits, 1);
				end_ns = 0;
				break;
			}
	atomic_store(&meeting->image, number);
	if (number == EXECS)
		_exit(0);
	be_target(&rig);
	rig_await(&meeting->written, LEAST);
	usleep(500 + number * 37 % 1500);
	snprintf(text, sizeof(text), "%u", number + 1);
	execl("/proc/self/exe", "image", text, NULL);
	_exit(1);
}

static void test_exec(void **state)
{
	struct ibv_mr *from;
	struct rig rig;
	uint64_t writes = 0;
	int status;
	pid_t target = fork_peer();

	if (!target) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/proc/self/exe", "image", "0", NULL);
		_exit(1);
	}
	rig_open(&rig);
	from = rig_region(rig.pd, BYTES);
	memset(from->addr, 0x5a, BYTES);
	for (uint32_t i = 0; i < EXECS; i++) {
		rig_await(&meeting->image, i);
		meet(rig.qp[0]);
		for (; !write_to_target(&rig, from, BYTES); writes++)
			atomic_fetch_add(&meeting->written, 1);
	}
	assert_int_equal(waitpid(target, &status, 0), target);
	assert_int_equal(status, 0);
	assert_true(writes >= LEAST * EXECS);
	assert_int_equal(meeting->hits, 0);
	rig_region_end(from);
	rig_close(&rig);
}

/* ---- The first thread ---- */

static void *go_on(void *unused)
{
	struct rig rig;

	be_target(&rig);
	for (;;)
		pause();
	return unused;
}

static void test_first_thread_ended(void **state)
{
	pthread_t thread;
	struct ibv_mr *from;
	struct rig rig;
	pid_t target = fork_peer();

	if (!target) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, go_on, NULL);
		pthread_exit(NULL);
	}
	rig_open(&rig);
	from = rig_region(rig.pd, BYTES);
	meet(rig.qp[0]);
	for (int i = 0; i < 100; i++)
		assert_int_equal(write_to_target(&rig, from, BYTES), IBV_WC_SUCCESS);
	end(target);
	rig_region_end(from);
	rig_close(&rig);
}

/* ---- Memory that goes ---- */

/* A requester whose own memory is gone is at fault, not its peer. */
static void test_own_memory_gone(void **state)
{
	int fd = memfd_create("own", MFD_CLOEXEC);
	struct rig rig;
	struct ibv_mr *from;
	void *own;
	pid_t target;

	assert_int_equal(ftruncate(fd, BYTES), 0);
	own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(own, MAP_FAILED);
	target = fork_peer();
	if (!target) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_target(&rig);
		rig_await_state(rig.qp[0], IBV_QPS_ERR);
		_exit(1);
	}
	rig_open(&rig);
	from = ibv_reg_mr(rig.pd, own, BYTES, RIG_ALL);
	assert_non_null(from);
	meet(rig.qp[0]);
	assert_int_equal(write_to_target(&rig, from, BYTES), IBV_WC_SUCCESS);
	assert_int_equal(mprotect((uint8_t *)own + 4096, 4096, PROT_NONE), 0);
	assert_int_equal(write_to_target(&rig, from, BYTES), IBV_WC_LOC_PROT_ERR);
	assert_int_equal(rig_state(rig.qp[0]), IBV_QPS_ERR);
	usleep(100000);
	assert_int_equal(waitpid(target, NULL, WNOHANG), 0);
	end(target);
	assert_int_equal(ibv_dereg_mr(from), 0);
	munmap(own, BYTES);
	close(fd);
	rig_close(&rig);
}

/* ---- The test program ---- */

static int setup(void **state)
{
	memset(meeting, 0, sizeof(*meeting));
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_exec, setup),
		cmocka_unit_test_setup(test_first_thread_ended, setup),
		cmocka_unit_test_setup(test_own_memory_gone, setup),
	};
	const char *given = getenv("MEETING");
	char text[16];
	int fd = given ? atoi(given) : memfd_create("meeting", 0);

	if (fd < 0 || ftruncate(fd, sizeof(*meeting)))
		return 1;
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (meeting == MAP_FAILED)
		return 1;
	if (argc > 1)
		be_image((uint32_t)atoi(argv[1]));
	snprintf(text, sizeof(text), "%d", fd);
	setenv("MEETING", text, 1);
	return cmocka_run_group_tests_name("reach", tests, make_pool, remove_pool);
}
