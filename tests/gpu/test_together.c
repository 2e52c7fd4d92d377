/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Small WRITEs of one queue pair to a GPU of another process: those that wait behind one are asked for together, and waited for
 * once. They land and complete in order, and end where one fails, or the owner dies. On a real driver nothing is
 * held back, and how often it is waited for is not known; the rest is the same.
 */
#include "child.h"
#include "peer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../abi/pool.h"

#define MANY	   60u /* of them the first goes alone */
#define ROOM	   24u /* bytes of the peer's that they overwrite again and again, */
#define MOST_BYTES 100u
#define MOST_WAITS 4ul /* instead of MANY */

static struct peer peer;
static struct rig rig;
static struct place from;
static weft_cu_context context;
static uint8_t wanted[PEER_BYTES];

/* Connects queue pair 0 to the peer's; requests give up after some milliseconds. */
static void begin(void)
{
	struct ibv_qp *qp;

	peer_start(&peer);
	rig_open(&rig);
	qp = rig.qp[0];
	place_begin(&from, PLACE_POOLED, PEER_BYTES);
	for (size_t i = 0; i < PEER_BYTES; i++)
		from.at[i] = (uint8_t)(i * 7 + i / 251);
	place_register(&from, rig.pd);
	context = gpu_context();
	peer_connect(&peer, qp->qp_num);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr = rig_attr(rig.context, s, peer.said->qpn);

		attr.timeout = 8;
		attr.retry_cnt = 1;
		WANT(!ibv_modify_qp(qp, &attr, rig_mask(IBV_QPT_RC, s)));
	}
	memset(peer.said->bytes, 0, sizeof(peer.said->bytes));
	peer_fill(&peer);
}

static void end(void)
{
	place_end(&from);
	rig_close(&rig);
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

static uint32_t bytes_of(uint64_t n)
{
	static const uint32_t sizes[] = {8, 1, 40, MOST_BYTES, 16};

	return sizes[n % COUNT(sizes)];
}

/* WRITE number n, at that place of the peer's; what it must leave there. */
static void post_at(uint64_t n, size_t at)
{
	uint32_t bytes = bytes_of(n);

	WANT(!rig_rdma(rig.qp[0], IBV_WR_RDMA_WRITE, n, from.mr, from.at + 128 * n, bytes,
		       peer.said->at[PLACE_GPU] + at, peer.said->rkey[PLACE_GPU]));
	if (at < PEER_BYTES)
		memcpy(wanted + at, from.at + 128 * n, bytes);
}

static void post(uint64_t n)
{
	post_at(n, n % ROOM);
}

static void expect(uint64_t n, enum ibv_wc_status status)
{
	struct ibv_wc wc = rig_next(rig.cq[0]);

	WANT(wc.wr_id == n);
	WANT(wc.status == status);
}

static void compare(void)
{
	peer_fetch(&peer);
	WANT(!memcmp(peer.said->bytes[PLACE_GPU], wanted, PEER_BYTES));
}

static void waits(void)
{
	unsigned long before;

	begin();
	before = peer_waits(&peer);
	peer_hold(&peer, true);
	for (uint64_t n = 0; n < MANY; n++)
		post(n);
	peer_hold(&peer, false);
	for (uint64_t n = 0; n < MANY; n++)
		expect(n, IBV_WC_SUCCESS);
	WANT(peer_waits(&peer) - before <= MOST_WAITS);
	compare();
	/* by then they are asked for together at once, and others in between */
	for (uint64_t round = 0; round < 20; round++) {
		for (uint64_t n = round; n < MANY; n++)
			post(n);
		WANT(!rig_rdma(rig.qp[0], IBV_WR_RDMA_READ, MANY, from.mr, from.at + PEER_BYTES / 2,
			       MOST_BYTES, peer.said->at[PLACE_GPU], peer.said->rkey[PLACE_GPU]));
		for (uint64_t n = round; n < MANY; n++)
			expect(n, IBV_WC_SUCCESS);
		expect(MANY, IBV_WC_SUCCESS);
		WANT(!memcmp(from.at + PEER_BYTES / 2, wanted, MOST_BYTES));
	}
	compare();
	peer_end(&peer);
	end();
}

/* One of them is refused: those before it are done, those behind it are not. */
static void refused(void)
{
	begin();
	peer_hold(&peer, true);
	for (uint64_t n = 0; n < 30; n++)
		post(n);
	post_at(30, PEER_BYTES);
	for (uint64_t n = 31; n < 40; n++)
		WANT(!rig_rdma(rig.qp[0], IBV_WR_RDMA_WRITE, n, from.mr, from.at, 8,
			       peer.said->at[PLACE_GPU] + 4096, peer.said->rkey[PLACE_GPU]));
	peer_hold(&peer, false);
	for (uint64_t n = 0; n < 30; n++)
		expect(n, IBV_WC_SUCCESS);
	expect(30, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t n = 31; n < 40; n++)
		expect(n, IBV_WC_WR_FLUSH_ERR);
	compare();
	peer_end(&peer);
	end();
}

/* Memory that its owner has freed: nothing is written, and the first of them that waited fails. */
static void freed(void)
{
	enum ibv_wc_status status;
	uint64_t n = 1;

	begin();
	post(0);
	expect(0, IBV_WC_SUCCESS);
	peer_free(&peer, PLACE_GPU);
	for (; n < 20; n++)
		post(n);
	status = rig_next(rig.cq[0]).status;
	WANT(status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR);
	for (n = 2; n < 20; n++)
		expect(n, IBV_WC_WR_FLUSH_ERR);
	peer_allocate(&peer, PLACE_GPU);
	peer_end(&peer);
	end();
}

static void killed(void)
{
	siginfo_t info;

	begin();
	peer_hold(&peer, true);
	for (uint64_t n = 0; n < MANY; n++)
		post(n);
	kill(peer.pid, SIGKILL);
	WANT(!waitid(P_PID, (id_t)peer.pid, &info, WEXITED | WNOWAIT));
	if (gpu_hold) {
		expect(0, IBV_WC_RETRY_EXC_ERR);
		for (uint64_t n = 1; n < MANY; n++)
			expect(n, IBV_WC_WR_FLUSH_ERR);
	}
	peer_kill(&peer);
	end();
}

/* They are asked for together, and the owner is stopped: the first ends by the timers, the others are flushed. */
static void stopped(void)
{
	int status;

	begin();
	post(0);
	expect(0, IBV_WC_SUCCESS);
	kill(peer.pid, SIGSTOP);
	waitpid(peer.pid, &status, WUNTRACED);
	for (uint64_t n = 1; n < MANY; n++)
		post(n);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	for (uint64_t n = 2; n < MANY; n++)
		expect(n, IBV_WC_WR_FLUSH_ERR);
	kill(peer.pid, SIGCONT);
	peer_kill(&peer);
	end();
}

static void run_case(void (*run)(void))
{
	int status;
	const char *text = child_said(run, &status);

	if (status)
		print_error("%s\n", text);
	assert_int_equal(status, 0);
}

#define CASE(name)                                                                                 \
	static void is_##name(void **state)                                                        \
	{                                                                                          \
		run_case(name);                                                                    \
	}
CASE(waits)
CASE(refused)
CASE(freed)
CASE(killed)
CASE(stopped)

/* test_together [TEST] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_waits),   cmocka_unit_test(is_refused),
		cmocka_unit_test(is_freed),   cmocka_unit_test(is_killed),
		cmocka_unit_test(is_stopped),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("together", tests, make_pool, remove_pool);
}
