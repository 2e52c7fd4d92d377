/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests that only the helper of the memory's owner can carry out, while that is stopped: no verb waits for it, and
 * they end when it goes on. All of libibverbs in one program.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "owner.h"
#include "pool/step.h"
#include "process/process.h"

#define MS 1000000ull
#define AT_ONCE                                                                                    \
	(300 * MS) /* of a verb, on a machine with other work: one that waits, waits a second */
#define STANDS	 (20 * MS)
#define ROUNDS	 31
#define REQUESTS 400

static struct rig rig;
static struct owner owner;
static struct ibv_mr *local;

void weft_turn(const char *name)
{
}

/* ---- Both processes ---- */

static int setup(void **state)
{
	owner_start(&owner);
	memset(&rig, 0, sizeof(rig));
	rig_open(&rig);
	rig_connect(&rig, &(struct rig_wish){0});
	local = rig_region(rig.pd, 2 * OWNER_BYTES);
	owner_connect(&owner, &rig, rig.cq[0]);
	return 0;
}

static int teardown(void **state)
{
	owner_end(&owner);
	rig_region_end(local);
	rig_close(&rig);
	return 0;
}

static uint8_t *near(uint32_t at)
{
	return (uint8_t *)local->addr + at;
}

static void fill(uint8_t *at, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i * 2654435761u + seed) >> 16);
}

static uint64_t took_ns(uint64_t begun_ns)
{
	return rig_now_ns() - begun_ns;
}

/* One request at all of the owner's memory; it is begun at once, whatever it needs. */
static void post(int i, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)near(0), bytes, local->lkey};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t begun_ns = rig_now_ns();

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)owner_meeting->memory;
		wr.wr.atomic.rkey = owner_meeting->rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)owner_meeting->memory;
		wr.wr.rdma.rkey = owner_meeting->rkey;
	}
	if (bytes <= 64 && (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_SEND))
		wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(ibv_post_send(owner.qp[i], &wr, &bad), 0);
	assert_in_range(took_ns(begun_ns), 0, AT_ONCE);
}

/* How often this thread has gone to sleep; others may have taken its core more often. */
static long sleeps(void)
{
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	return used.ru_nvcsw;
}

/* Polls, each time at once, and finds nothing. */
static void stands(uint64_t ns)
{
	uint64_t begun_ns = rig_now_ns(), call_ns;
	struct ibv_wc wc;
	long before;

	while (took_ns(begun_ns) < ns) {
		before = sleeps();
		call_ns = rig_now_ns();
		assert_int_equal(ibv_poll_cq(rig.cq[0], 1, &wc), 0);
		if (took_ns(call_ns) > 50 * MS && sleeps() != before)
			fail_msg("a poll took %lu ns, and slept", took_ns(call_ns));
	}
}

/* ---- Each kind of request ---- */

static const struct row {
	const char *name;
	int end;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
} rows[] = {
	{"inline write", 3, IBV_WR_RDMA_WRITE, 48},
	{"write of a part", 3, IBV_WR_RDMA_WRITE, 1000},
	{"write of many parts", 3, IBV_WR_RDMA_WRITE, OWNER_BYTES - 3},
	{"read", 3, IBV_WR_RDMA_READ, 1000},
	{"read of many parts", 3, IBV_WR_RDMA_READ, OWNER_BYTES - 5},
	{"add", 3, IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
	{"inline send", 0, IBV_WR_SEND, 48},
	{"send of many parts", 0, IBV_WR_SEND, OWNER_BYTES - 7},
	{"send to a shared queue", OWNER_SRQ, IBV_WR_SEND, OWNER_BYTES - 9},
	{"unreliable write", OWNER_UC, IBV_WR_RDMA_WRITE, OWNER_BYTES - 11},
	{"unreliable send", OWNER_UC, IBV_WR_SEND, 70000},
};

static void check(const struct row *row, const uint8_t *from, const uint8_t *to)
{
	uint64_t value, before;

	if (row->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) {
		assert_memory_equal(to, from, row->bytes);
		assert_int_equal(to[row->bytes], 0);
		return;
	}
	memcpy(&before, near(0), 8);
	memcpy(&value, owner_meeting->memory, 8);
	assert_int_equal(value, before + 5);
}

static void play(const struct row *row)
{
	bool reads = row->opcode == IBV_WR_RDMA_READ;
	uint8_t *from = reads ? owner_meeting->memory : near(0);
	uint8_t *to = reads ? near(0) : owner_meeting->memory;

	print_message("%s\n", row->name);
	fill(from, row->bytes, 77 + (uint32_t)(row - rows));
	memset(to, 0, row->bytes + 1);
	if (row->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		fill(to, 8, 1);
	owner_stop(&owner);
	post(row->end, row->opcode, row->bytes);
	stands(STANDS);
	owner_continue(&owner);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	check(row, from, to);
}

static void each_kind(void **state)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		teardown(state);
		setup(state);
		play(&rows[i]);
	}
}

/* ---- Beside it ---- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median(uint64_t *of, size_t n)
{
	qsort(of, n, sizeof(*of), by_value);
	return of[n / 2];
}

/* Requests of another queue pair of this thread. */
static uint64_t others_ns(void)
{
	uint64_t begun_ns = rig_now_ns();

	for (int i = 0; i < REQUESTS; i++) {
		assert_int_equal(rig_rdma(rig.qp[1], IBV_WR_RDMA_WRITE, 3, local, near(OWNER_BYTES),
					  8, (uintptr_t)near(OWNER_BYTES + 64), local->rkey),
				 0);
		rig_expect(rig.cq[1], IBV_WC_SUCCESS, 3);
	}
	return took_ns(begun_ns) / REQUESTS;
}

static uint64_t poll_ns(void)
{
	uint64_t of[REQUESTS], begun_ns;
	struct ibv_wc wc;

	for (int i = 0; i < REQUESTS; i++) {
		begun_ns = rig_now_ns();
		assert_int_equal(ibv_poll_cq(rig.cq[0], 1, &wc), 0);
		of[i] = took_ns(begun_ns);
	}
	return median(of, REQUESTS);
}

static void others_keep_their_speed(void **state)
{
	uint64_t alone[ROUNDS], beside[ROUNDS], polls[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		alone[i] = others_ns();
		owner_stop(&owner);
		post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
		beside[i] = others_ns();
		polls[i] = poll_ns();
		owner_continue(&owner);
		rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	}
	print_message("a write %lu ns alone, %lu beside; a poll of nothing %lu\n",
		      median(alone, ROUNDS), median(beside, ROUNDS), median(polls, ROUNDS));
	assert_in_range(median(polls, ROUNDS), 0, MS / 10);
	assert_in_range(median(beside, ROUNDS), 0, median(alone, ROUNDS) * 3 / 2);
}

/* More than there are asks of such requests. */
static void all_at_once(void **state)
{
	fill(near(0), 1000, 5);
	owner_stop(&owner);
	for (int i = 0; i < OWNER_ENDS; i++)
		post(i, IBV_WR_RDMA_WRITE, 1000);
	stands(STANDS);
	owner_continue(&owner);
	for (int i = 0; i < OWNER_ENDS; i++)
		rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, near(0), 1000);
}

/* ---- Ends that are not good ---- */

static void owner_dies(void **state)
{
	uint64_t begun_ns;

	owner_stop(&owner);
	post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
	stands(STANDS);
	begun_ns = rig_now_ns();
	assert_int_equal(kill(owner.pid, SIGKILL), 0);
	rig_expect(rig.cq[0], IBV_WC_RETRY_EXC_ERR, 7);
	assert_in_range(took_ns(begun_ns), 0, 1000 * MS);
}

/* A second for the helper, then the timers of the connection: half a second. */
static void time_is_up(void **state)
{
	uint64_t begun_ns = rig_now_ns();

	owner_stop(&owner);
	post(3, IBV_WR_RDMA_READ, 1000);
	memset(near(0), 0, 1000);
	stands(1400 * MS);
	rig_expect(rig.cq[0], IBV_WC_RETRY_EXC_ERR, 7);
	assert_in_range(took_ns(begun_ns), 1400 * MS, 4000 * MS);
	fill(owner_meeting->memory, 1000, 3);
	owner_continue(&owner);
	usleep(20000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(*near((uint32_t)i), 0);
}

static void given_up(void **state)
{
	uint64_t begun_ns;

	owner_stop(&owner);
	post(3, IBV_WR_RDMA_READ, OWNER_BYTES);
	post(3, IBV_WR_RDMA_WRITE, 8);
	stands(STANDS);
	begun_ns = rig_now_ns();
	rig_move(owner.qp[3], IBV_QPS_ERR, 0);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	rig_move(owner.qp[3], IBV_QPS_RESET, 0);
	assert_in_range(took_ns(begun_ns), 0, AT_ONCE);
	fill(owner_meeting->memory, OWNER_BYTES, 3);
	owner_continue(&owner);
	usleep(20000);
	for (uint32_t i = 0; i < OWNER_BYTES; i++)
		assert_int_equal(*near(i), 0);
}

/* ---- In between ---- */

static void drains(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	fill(near(0), OWNER_BYTES, 8);
	owner_stop(&owner);
	post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
	post(3, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(
		ibv_modify_qp(owner.qp[3], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	stands(STANDS);
	owner_continue(&owner);
	rig_event(rig.context, IBV_EVENT_SQ_DRAINED, owner.qp[3]);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, near(0), OWNER_BYTES);
	stands(STANDS);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(owner.qp[3], &attr, IBV_QP_STATE), 0);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
}

/* Memory of this process moves, and one of its children comes and goes. */
static void meanwhile(void **state)
{
	uint64_t begun_ns;
	pid_t child;

	fill(near(0), OWNER_BYTES, 9);
	owner_stop(&owner);
	post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
	begun_ns = rig_now_ns();
	weft_nic_hold(&weft_process.nic);
	weft_nic_let_go(&weft_process.nic);
	assert_in_range(took_ns(begun_ns), 0, AT_ONCE);
	child = fork();
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	stands(STANDS);
	owner_continue(&owner);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, near(0), OWNER_BYTES);
}

/* The bytes are still where they come from, but no request may take them any more. */
static void own_region_ends(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, near(0), OWNER_BYTES, RIG_ALL);
	uint64_t begun_ns;

	assert_non_null(mr);
	owner_stop(&owner);
	assert_int_equal(rig_rdma(owner.qp[3], IBV_WR_RDMA_WRITE, 7, mr, near(0), OWNER_BYTES,
				  (uintptr_t)owner_meeting->memory, owner_meeting->rkey),
			 0);
	stands(STANDS);
	begun_ns = rig_now_ns();
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_in_range(took_ns(begun_ns), 0, AT_ONCE);
	owner_continue(&owner);
	rig_expect(rig.cq[0], IBV_WC_LOC_PROT_ERR, 7);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_kind),       CASE(others_keep_their_speed),
		CASE(all_at_once),     CASE(owner_dies),
		CASE(time_is_up),      CASE(given_up),
		CASE(drains),	       CASE(meanwhile),
		CASE(own_region_ends),
	};

	if (owner_prepare())
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("late", tests, make_pool, remove_pool);
}
