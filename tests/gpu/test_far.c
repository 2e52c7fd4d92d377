/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory of a GPU of another process: between two GPUs its owner takes no part; else the owner's helper copies, and the owner
 * may be stopped, killed, or have ended the region, or the memory.
 */
#include "child.h"
#include "peer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "../abi/pool.h"

#define ONE_DEVICE 77

static struct peer peer;
static struct rig rig;
static struct place gpu, host;
static weft_cu_context context;

/* Connects queue pair 0 to the peer's; requests give up after some milliseconds. */
static void meet(void)
{
	struct rig_wish quick = {.timeout = 8, .retry_cnt = 1};

	rig_modify(rig.qp[0], IBV_QPS_RESET, 0);
	rig_modify(rig.qp[0], IBV_QPS_RTR, peer.said->qpn);
	peer_connect(&peer, rig.qp[0]->qp_num);
	rig_modify(rig.qp[0], IBV_QPS_RESET, 0);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr = rig_attr(rig.context, s, peer.said->qpn);

		attr.timeout = quick.timeout;
		attr.retry_cnt = quick.retry_cnt;
		WANT(!ibv_modify_qp(rig.qp[0], &attr, rig_mask(IBV_QPT_RC, s)));
	}
}

static void begin(void)
{
	peer_start(&peer);
	rig_open(&rig);
	context = gpu_context();
	place_begin(&gpu, PLACE_GPU, PEER_BYTES);
	place_register(&gpu, rig.pd);
	place_begin(&host, PLACE_PINNED, PEER_BYTES);
	place_register(&host, rig.pd);
	meet();
}

static void end_ours(void)
{
	place_end(&gpu);
	place_end(&host);
	rig_close(&rig);
}

static void end(void)
{
	end_ours();
	GPU_OK(cu.cuCtxDestroy_v2(context));
}

static enum ibv_wc_status do_rdma(enum ibv_wr_opcode opcode, const struct place *from,
				  enum place_kind to, uint32_t bytes)
{
	WANT(!rig_rdma(rig.qp[0], opcode, 1, from->mr, from->at, bytes, peer.said->at[to],
		       peer.said->rkey[to]));
	return rig_next(rig.cq[0]).status;
}

/* Bytes that differ from round to round. */
static void fill(const struct place *place, uint8_t value)
{
	uint8_t *bytes = malloc(place->bytes);

	for (size_t i = 0; i < place->bytes; i++)
		bytes[i] = (uint8_t)(value + i % 251);
	place_write(place, 0, bytes, place->bytes);
	free(bytes);
}

static void expect(const struct place *place, uint8_t value)
{
	uint8_t *bytes = malloc(place->bytes);

	place_read(place, 0, bytes, place->bytes);
	for (size_t i = 0; i < place->bytes; i++)
		WANT(bytes[i] == (uint8_t)(value + i % 251));
	free(bytes);
}

static void stop(int signal)
{
	int status;

	kill(peer.pid, signal);
	if (signal == SIGSTOP)
		waitpid(peer.pid, &status, WUNTRACED);
}

static void between_two(enum place_kind far)
{
	if (!peer.said->at[far]) {
		peer_kill(&peer);
		_exit(ONE_DEVICE);
	}
	stop(SIGSTOP);
	fill(&gpu, 3);
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &gpu, far, PEER_BYTES) == IBV_WC_SUCCESS);
	fill(&gpu, 9);
	WANT(do_rdma(IBV_WR_RDMA_READ, &gpu, far, PEER_BYTES) == IBV_WC_SUCCESS);
	expect(&gpu, 3);
	/* into the host's memory, by this process's own device */
	fill(&host, 9);
	WANT(do_rdma(IBV_WR_RDMA_READ, &host, far, PEER_BYTES) == IBV_WC_SUCCESS);
	expect(&host, 3);
	stop(SIGCONT);
	peer_fetch(&peer);
	for (size_t i = 0; i < PEER_BYTES; i++)
		WANT(peer.said->bytes[far][i] == (uint8_t)(3 + i % 251));
}

/* Requests between the two GPUs, to memory of two kinds, while its owner is stopped; the handles that were opened are closed while
 * their context stays. */
static void stopped(void)
{
	begin();
	between_two(PLACE_OTHER);
	between_two(PLACE_OTHER_MAPPED);
	end_ours();
	peer_end(&peer);
}

static void ended(void)
{
	begin();
	between_two(PLACE_OTHER);
	peer_end_region(&peer, PLACE_OTHER);
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &gpu, PLACE_OTHER, 64) == IBV_WC_REM_ACCESS_ERR);
	peer_end(&peer);
	end();
}

/* The stopped owner's helper would have to copy: the requester's own timers end the request. */
static void owner_stopped(void)
{
	begin();
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &host, PLACE_GPU, 4096) == IBV_WC_SUCCESS);
	stop(SIGSTOP);
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &host, PLACE_GPU, 4096) == IBV_WC_RETRY_EXC_ERR);
	stop(SIGCONT);
	peer_kill(&peer);
	end();
}

static void owner_killed(void)
{
	siginfo_t info;

	begin();
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &gpu, PLACE_GPU, 4096) == IBV_WC_SUCCESS);
	kill(peer.pid, SIGKILL);
	WANT(!waitid(P_PID, (id_t)peer.pid, &info, WEXITED | WNOWAIT));
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &gpu, PLACE_GPU, 4096) == IBV_WC_RETRY_EXC_ERR);
	peer_kill(&peer);
	end();
}

static void freed_there(void)
{
	uint64_t was;

	begin();
	fill(&host, 1);
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &host, PLACE_GPU, PEER_BYTES) == IBV_WC_SUCCESS);
	was = peer.said->at[PLACE_GPU];
	peer_free(&peer, PLACE_GPU);
	peer_allocate(&peer, PLACE_GPU);
	peer.said->at[PLACE_GPU] = was;
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &host, PLACE_GPU, PEER_BYTES) != IBV_WC_SUCCESS);
	peer_end(&peer);
	end();
}

/* What its owner has freed is not reached for longer than until its helper has looked, though it is mapped here. */
static void freed_far(void)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	begin();
	fill(&gpu, 1);
	between_two(PLACE_OTHER);
	peer_free(&peer, PLACE_OTHER);
	for (int i = 0; i < 300 && status == IBV_WC_SUCCESS; i++) {
		usleep(10000);
		status = do_rdma(IBV_WR_RDMA_WRITE, &gpu, PLACE_OTHER, 64);
	}
	WANT(status == IBV_WC_REM_OP_ERR);
	peer_allocate(&peer, PLACE_OTHER);
	peer_end(&peer);
	end();
}

/* Regions of the host's memory that come and go where others were; their owner's driver has pinned the pages of each. They are so
 * large that all of them get the same part of the pool. */
static void host_anew(void)
{
	const size_t bytes = 9ul << 20, at = 4ul << 20;

	peer_start(&peer);
	rig_open(&rig);
	meet();
	for (uint8_t round = 1; round < 5; round++) {
		struct ibv_mr *mr = rig_region(rig.pd, bytes);
		uint8_t *from = (uint8_t *)mr->addr + at;

		for (size_t i = 0; i < PEER_BYTES; i++)
			from[i] = (uint8_t)(round + i % 251);
		for (int twice = 0; twice < 2; twice++) {
			WANT(!rig_rdma(rig.qp[0], IBV_WR_RDMA_WRITE, 1, mr, from, PEER_BYTES,
				       peer.said->at[PLACE_GPU], peer.said->rkey[PLACE_GPU]));
			WANT(rig_next(rig.cq[0]).status == IBV_WC_SUCCESS);
		}
		peer_fetch(&peer);
		WANT(!memcmp(peer.said->bytes[PLACE_GPU], from, PEER_BYTES));
		memset(from, 0, PEER_BYTES);
		WANT(!rig_rdma(rig.qp[0], IBV_WR_RDMA_READ, 1, mr, from, PEER_BYTES,
			       peer.said->at[PLACE_GPU], peer.said->rkey[PLACE_GPU]));
		WANT(rig_next(rig.cq[0]).status == IBV_WC_SUCCESS);
		WANT(!memcmp(peer.said->bytes[PLACE_GPU], from, PEER_BYTES));
		rig_region_end(mr);
	}
	peer_end(&peer);
	rig_close(&rig);
}

/* Nothing of its completion queue comes within some looks. */
static void expect_nothing(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < 20; i++) {
		WANT(!ibv_poll_cq(rig.cq[0], 1, &wc));
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
}

/* The peer's GPU does nothing for a while: a large request is posted at once, and ends when its bytes are there; one of another
 * queue pair does not wait for it. */
static void held_back(void)
{
	static struct ibv_mr *mr;

	begin();
	mr = rig_region(rig.pd, PEER_BYTES);
	rig_modify(rig.qp[1], IBV_QPS_RTS, rig.qp[1]->qp_num);
	memset(mr->addr, 4, PEER_BYTES);
	memset(peer.said->bytes, 1, sizeof(peer.said->bytes));
	peer_fill(&peer);
	peer_hold(&peer, true);
	WANT(!rig_rdma(rig.qp[0], IBV_WR_RDMA_WRITE, 1, mr, mr->addr, PEER_BYTES,
		       peer.said->at[PLACE_GPU], peer.said->rkey[PLACE_GPU]));
	if (gpu_hold)
		expect_nothing();
	WANT(!rig_rdma(rig.qp[1], IBV_WR_RDMA_WRITE, 2, host.mr, host.at, 64, (uintptr_t)gpu.at,
		       gpu.mr->rkey));
	WANT(rig_next(rig.cq[1]).wr_id == 2);
	if (gpu_hold)
		expect_nothing();
	peer_hold(&peer, false);
	WANT(rig_next(rig.cq[0]).wr_id == 1);
	peer_fetch(&peer);
	WANT(!memcmp(peer.said->bytes[PLACE_GPU], mr->addr, PEER_BYTES));
	rig_region_end(mr);
	peer_end(&peer);
	end();
}

/* A program that allocates memory, waits for its whole context and frees memory, round after round, while others write to its memory
 * and read it: it waits for no request that has not begun, and both come to their end. */
static void busy_owner(void)
{
	bool worked = false;

	begin();
	fill(&host, 6);
	WANT(do_rdma(IBV_WR_RDMA_WRITE, &host, PLACE_GPU, PEER_BYTES) == IBV_WC_SUCCESS);
	peer_works(&peer, 200);
	for (uint32_t requests = 0; !worked || requests < 50; requests++) {
		enum ibv_wr_opcode opcode = requests % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;

		WANT(do_rdma(opcode, &host, PLACE_GPU, 1 + requests * 977 % PEER_BYTES) ==
		     IBV_WC_SUCCESS);
		worked = worked || peer_has_worked(&peer);
	}
	expect(&host, 6);
	peer_end(&peer);
	end();
}

static void run_case(void (*run)(void))
{
	int status;
	const char *text = child_said(run, &status);

	if (WIFEXITED(status) && WEXITSTATUS(status) == ONE_DEVICE)
		skip();
	if (status)
		print_error("%s\n", text);
	assert_int_equal(status, 0);
	assert_null(strstr(text, "cuIpcOpenMemHandle"));
	assert_null(strstr(text, "cuMemHostRegister"));
	assert_null(strstr(text, "cuMemMap"));
	assert_null(strstr(text, "cuMemAddressReserve"));
}

#define CASE(name)                                                                                 \
	static void is_##name(void **state)                                                        \
	{                                                                                          \
		run_case(name);                                                                    \
	}
CASE(stopped)
CASE(ended)
CASE(owner_stopped)
CASE(owner_killed)
CASE(freed_there)
CASE(freed_far)
CASE(host_anew)
CASE(held_back)
CASE(busy_owner)

/* test_far [TEST] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_stopped),	    cmocka_unit_test(is_ended),
		cmocka_unit_test(is_owner_stopped), cmocka_unit_test(is_owner_killed),
		cmocka_unit_test(is_freed_there),   cmocka_unit_test(is_freed_far),
		cmocka_unit_test(is_host_anew),	    cmocka_unit_test(is_held_back),
		cmocka_unit_test(is_busy_owner),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("far", tests, make_pool, remove_pool);
}
