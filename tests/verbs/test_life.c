/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Ends that come early: a device closed over its objects, a fork, a peer that fails, is killed or
 * takes its memory away, in this process and in another.
 */
#include "ends_setup.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../abi/pool.h"

#define S 1000000000ull

/* ---- Closing and forking ---- */

/* Every call that ends an object answers: EINVAL for objects that were ended with their device, 0 for those
 * that a fork's child has inherited. */
static void end_all(struct rig *rig, struct ibv_mr *mr, int answer)
{
	assert_int_equal(ibv_dereg_mr(mr), answer);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(rig->qp[i]), answer);
		assert_int_equal(ibv_destroy_cq(rig->cq[i]), answer);
	}
	assert_int_equal(ibv_destroy_comp_channel(rig->channel), answer);
	assert_int_equal(ibv_dealloc_pd(rig->pd), answer);
	errno = 0;
	assert_int_equal(ibv_close_device(rig->context), answer ? -1 : 0);
	assert_int_equal(errno, answer);
}

/* Objects end with their device, even with events that were not acknowledged; those of another open device do
 * not. */
static void closed_over_objects(void **state)
{
	struct rig rig = {0}, other = {0};
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	void *arg;

	rig_open(&other);
	rig_open(&rig);
	rig_connect(&rig, &(struct rig_wish){0});
	mr = rig_region(rig.pd, 8192);
	strcpy(mr->addr, "stays");
	assert_int_equal(ibv_req_notify_cq(rig.cq[0], 0), 0);
	assert_int_equal(rig_receive(rig.qp[1], 1, mr, mr->addr, 8), 0);
	assert_int_equal(rig_send(rig.qp[0], 1, mr, mr->addr, 8), 0);
	assert_int_equal(rig_send(rig.qp[0], 2, mr, mr->addr, 8), 0); /* waits for a receive */
	assert_int_equal(ibv_get_cq_event(rig.channel, &cq, &arg), 0);
	arg = mr->addr;
	assert_int_equal(ibv_close_device(rig.context), 0);
	assert_string_equal(arg, "stays");
	assert_int_equal(munmap(arg, 8192), 0);
	end_all(&rig, mr, EINVAL);
	rig_connect(&other, &(struct rig_wish){0});
	assert_int_equal(rig_receive(other.qp[1], 1, NULL, NULL, 0), 0);
	assert_int_equal(rig_send(other.qp[0], 1, NULL, NULL, 0), 0);
	rig_expect(other.cq[0], IBV_WC_SUCCESS, 1);
	rig_close(&other);
}

static void child_of_fork(struct rig *rig, struct ibv_mr *mr, bool destroys)
{
	struct rig mine = {0};

	if (destroys)
		end_all(rig, mr, 0);
	rig_open(&mine);
	rig_connect(&mine, &(struct rig_wish){0});
	assert_int_equal(rig_receive(mine.qp[1], 1, NULL, NULL, 0), 0);
	assert_int_equal(rig_send(mine.qp[0], 1, NULL, NULL, 0), 0);
	rig_expect(mine.cq[0], IBV_WC_SUCCESS, 1);
	rig_close(&mine);
	_exit(0);
}

/* In a fork's child nothing is open; it may open the device itself. Its parent goes on. */
static void forked(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = rig_region(rig->pd, 8192);

	for (int round = 0; round < 4; round++) {
		pid_t pid = fork_peer();
		int status;

		assert_true(pid >= 0);
		if (!pid)
			child_of_fork(rig, mr, round % 2);
		assert_int_equal(rig_receive(rig->qp[1], 1, mr, mr->addr, 8), 0);
		assert_int_equal(rig_send(rig->qp[0], 1, mr, mr->addr, 8), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 1);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	rig_region_end(mr);
}

/* ---- The peer fails ---- */

static int request(enum ibv_wr_opcode opcode, enum kind kind, uint32_t key)
{
	return rig_rdma(near.qp, opcode, 1, near.mr[KIND_POOLED], near.mr[KIND_POOLED]->addr, 8,
			peer.buffer[kind].at + (-peer.buffer[kind].at & 7), key);
}

static void stale_key(void **state)
{
	assert_int_equal(request(IBV_WR_RDMA_WRITE, KIND_POOLED, peer.buffer[KIND_POOLED].key), 0);
	rig_expect(near.cq, IBV_WC_SUCCESS, 1);
	peer_deregister(&peer, KIND_POOLED);
	assert_int_equal(request(IBV_WR_RDMA_WRITE, KIND_POOLED, peer.buffer[KIND_POOLED].key), 0);
	rig_expect(near.cq, IBV_WC_REM_ACCESS_ERR, 1);
	assert_int_equal(peer_event(&peer), IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(peer_state(&peer), IBV_QPS_ERR);
}

static void bad_receive(void **state)
{
	struct ibv_sge room = {peer.buffer[KIND_POOLED].at, 8, 0x12345};

	peer_receive(&peer, 5, &room, 1);
	room.lkey = peer.buffer[KIND_POOLED].key;
	peer_receive(&peer, 6, &room, 1);
	assert_int_equal(rig_send(near.qp, 1, near.mr[KIND_DATA], near.mr[KIND_DATA]->addr, 8), 0);
	rig_expect(near.cq, IBV_WC_REM_OP_ERR, 1);
	assert_int_equal(peer_event(&peer), IBV_EVENT_QP_FATAL);
	assert_int_equal(peer_next(&peer).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(peer_next(&peer).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(peer_state(&peer), IBV_QPS_ERR);
}

/* Outstanding requests end when the peer was reset, or its process was killed. */
static void reset_under_requests(void **state)
{
	uint64_t begun = rig_now_ns();

	assert_int_equal(rig_send(near.qp, 1, NULL, NULL, 0), 0); /* waits for a receive */
	assert_int_equal(rig_send(near.qp, 2, NULL, NULL, 0), 0);
	peer_modify(&peer, IBV_QPS_RESET);
	rig_expect(near.cq, IBV_WC_RETRY_EXC_ERR, 1);
	/* 8 times 67 ms, of the timeout and its retries */
	assert_in_range(rig_now_ns() - begun, S / 2, 3 * S);
	rig_expect(near.cq, IBV_WC_WR_FLUSH_ERR, 2);
}

static void killed_before_requests(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum kind kind = KIND_DATA; /* static memory, which is gone with its process */

	peer_kill(&peer, SIGKILL);
	for (size_t i = 0; i < COUNT(opcodes); i++)
		assert_int_equal(request(opcodes[i], kind, peer.buffer[kind].key), 0);
	rig_expect(near.cq, IBV_WC_RETRY_EXC_ERR, 1);
	rig_expect(near.cq, IBV_WC_WR_FLUSH_ERR, 1);
	rig_expect(near.cq, IBV_WC_WR_FLUSH_ERR, 1);
}

/* Opens both ends with $WEFT_TELL_DEATHS and a receive posted here. */
static void open_told(void)
{
	setenv("WEFT_TELL_DEATHS", "1", 1);
	ends_open(&near, &peer, true);
	unsetenv("WEFT_TELL_DEATHS");
	assert_int_equal(rig_receive(near.qp, 7, NULL, NULL, 0), 0);
}

static void expect_untold(void)
{
	struct pollfd fd = {near.context->async_fd, POLLIN, 0};

	assert_int_equal(poll(&fd, 1, 1500), 0);
}

/* With $WEFT_TELL_DEATHS a queue pair that has nothing under way is told, too. */
static void killed_while_idle(void **state)
{
	open_told();
	peer_kill(&peer, SIGKILL);
	rig_event(near.context, IBV_EVENT_QP_FATAL, near.qp);
	rig_expect(near.cq, IBV_WC_WR_FLUSH_ERR, 7);
	ends_close(&near, &peer);
}

/* Of a peer that ends by itself, with all objects open, nothing is told. */
static void exited_while_idle(void **state)
{
	setenv("PEER_EXITS", "1", 1);
	open_told();
	unsetenv("PEER_EXITS");
	peer_begin_game(&peer);
	peer_kill(&peer, 0);
	expect_untold();
	ends_close(&near, &peer);
}

/* Nor is it without that variable, as by a card. */
static void killed_untold(void **state)
{
	peer_kill(&peer, SIGKILL);
	expect_untold();
}

/* The peer has registered memory and then unmapped it: both ends are told of the fault, and neither
 * crashes. */
static void unmapped_in_place(void **state)
{
	const enum ibv_wr_opcode *opcode = *state;

	peer_unmap(&peer, KIND_SHARED);
	assert_int_equal(request(*opcode, KIND_SHARED, peer.buffer[KIND_SHARED].key), 0);
	rig_expect(near.cq, IBV_WC_REM_OP_ERR, 1);
	assert_int_equal(peer_event(&peer), IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(peer_state(&peer), IBV_QPS_ERR);
}

static enum ibv_wr_opcode the_write = IBV_WR_RDMA_WRITE, the_read = IBV_WR_RDMA_READ,
			  the_swap = IBV_WR_ATOMIC_CMP_AND_SWP;

/* ---- Helpers ---- */

#define DUEL_ROUNDS 200

/*
 * Both ends wait for each other's receives, and have atomics on memory in place behind them: when these
 * begin, each needs the other's helper. Returns how long all rounds took, or minus the status of the request
 * that failed.
 */
static int64_t duel(struct end *end)
{
	struct ibv_sge sge = {end->buffer[KIND_POOLED].at, 8, end->buffer[KIND_POOLED].key};
	struct ibv_send_wr *bad, wr[16] = {{.opcode = IBV_WR_SEND}};
	struct ibv_wc wc = {0};
	int64_t sum = 0;

	for (size_t i = 1; i < COUNT(wr); i++) {
		wr[i] = (struct ibv_send_wr){
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1};
		wr[i].wr.atomic.remote_addr = (end->peer[KIND_DATA].at + 7) & ~7ull;
		wr[i].wr.atomic.rkey = end->peer[KIND_DATA].key;
		wr[i - 1].next = &wr[i];
	}
	wr[COUNT(wr) - 1].send_flags = IBV_SEND_SIGNALED;
	for (int round = 0; round < DUEL_ROUNDS; round++) {
		uint64_t begun;

		if (ibv_post_send(end->qp, wr, &bad))
			return -1;
		nanosleep(&(struct timespec){0, 300000}, NULL);
		if (rig_receive(end->qp, 0, NULL, NULL, 0))
			return -1;
		begun = rig_now_ns();
		nanosleep(&(struct timespec){0, 2000000}, NULL); /* during which no thread polls */
		for (int got = 0; got < 2 && !wc.status;)
			got += ibv_poll_cq(end->cq, 1, &wc);
		if (wc.status)
			return -(int64_t)wc.status;
		sum += (int64_t)(rig_now_ns() - begun);
	}
	return sum;
}

static int64_t play(struct end *end)
{
	if (getenv("PEER_EXITS"))
		exit(0);
	return duel(end);
}

/* Helpers that waited for each other would give up after a second, round after round, until the retries run
 * out. One slow round of a loaded machine is not that. */
static void helpers_need_each_other(void **state)
{
	const int64_t most = DUEL_ROUNDS * (int64_t)S / 4;
	int64_t here, there;

	peer_begin_game(&peer);
	here = duel(&near);
	there = peer_end_game(&peer);
	if (here < 0 || here > most || there < 0 || there > most)
		fail_msg("%ld here, %ld there", (long)here, (long)there);
}

/* ---- Lengths of messages ---- */

/* Messages of up to 2 GiB; a longer one is refused before any byte moves. */
static void long_messages(void **state)
{
	size_t bytes = 3ull << 29;
	void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(near.pd, at, bytes, 0);
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad,
		wr = {.wr_id = 1, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE};

	assert_non_null(mr);
	sge[0] = sge[1] = (struct ibv_sge){(uintptr_t)at, (uint32_t)bytes, mr->lkey};
	wr.wr.rdma.remote_addr = peer.buffer[0].at;
	wr.wr.rdma.rkey = peer.buffer[0].key;
	assert_int_equal(ibv_post_send(near.qp, &wr, &bad), 0);
	rig_expect(near.cq, IBV_WC_LOC_LEN_ERR, 1);
	assert_int_equal(peer_state(&peer), IBV_QPS_RTS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(at, bytes);
}

static int run(void)
{
#define HERE(name)                                                                                 \
	{                                                                                          \
#name, name, setup_here, teardown, NULL                                            \
	}
#define OTHER(name)                                                                                \
	{                                                                                          \
#name "_in_another_process", name, setup_other_process, teardown, NULL             \
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_over_objects),
		cmocka_unit_test_setup_teardown(forked, rig_setup_connected, rig_teardown),
		HERE(stale_key),
		OTHER(stale_key),
		HERE(bad_receive),
		OTHER(bad_receive),
		HERE(reset_under_requests),
		OTHER(reset_under_requests),
		OTHER(killed_before_requests),
		OTHER(killed_untold),
		cmocka_unit_test(killed_while_idle),
		cmocka_unit_test(exited_while_idle),
		{"unmapped_write", unmapped_in_place, setup_other_process, teardown, &the_write},
		{"unmapped_read", unmapped_in_place, setup_other_process, teardown, &the_read},
		{"unmapped_swap", unmapped_in_place, setup_other_process, teardown, &the_swap},
		OTHER(helpers_need_each_other),
		HERE(long_messages),
		OTHER(long_messages),
	};

	return cmocka_run_group_tests_name("life", tests, make_pool, remove_pool);
}

int main(int argc, char **argv)
{
	ends_game = play;
	return ends_main(argc, argv, run);
}
