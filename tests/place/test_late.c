/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests that only the helper of the memory's owner can carry out, while the owner is stopped: no verb
 * waits for it, and the requests end when it goes on. All of libibverbs in one program.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "late.h"
#include "nic/nic.h"
#include "process/process.h"

#define ROUNDS	 31
#define REQUESTS 400

/* ---- Beside such a request ---- */

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

/* How long requests of another queue pair of this thread take. */
static uint64_t others_ns(void)
{
	uint64_t begun_ns = rig_now_ns();

	for (int i = 0; i < REQUESTS; i++) {
		assert_int_equal(rig_rdma(rig.qp[1], IBV_WR_RDMA_WRITE, 3, late_local,
					  late_near(OWNER_BYTES), 8,
					  (uintptr_t)late_near(OWNER_BYTES + 64), late_local->rkey),
				 0);
		rig_expect(rig.cq[1], IBV_WC_SUCCESS, 3);
	}
	return late_took_ns(begun_ns) / REQUESTS;
}

static uint64_t poll_ns(void)
{
	uint64_t of[REQUESTS], begun_ns;
	struct ibv_wc wc;

	for (int i = 0; i < REQUESTS; i++) {
		begun_ns = rig_now_ns();
		assert_int_equal(ibv_poll_cq(rig.cq[0], 1, &wc), 0);
		of[i] = late_took_ns(begun_ns);
	}
	return median(of, REQUESTS);
}

static void others_keep_their_speed(void **state)
{
	uint64_t alone[ROUNDS], beside[ROUNDS], polls[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		alone[i] = others_ns();
		owner_stop(&owner);
		late_post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
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

/* More such requests at once than a member can ask for. */
static void all_at_once(void **state)
{
	late_fill(late_near(0), 1000, 5);
	owner_stop(&owner);
	for (int i = 0; i < OWNER_ENDS; i++)
		late_post(i, IBV_WR_RDMA_WRITE, 1000);
	late_stands(STANDS);
	owner_continue(&owner);
	for (int i = 0; i < OWNER_ENDS; i++)
		rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, late_near(0), 1000);
}

/* ---- Bad ends ---- */

static void owner_dies(void **state)
{
	uint64_t begun_ns;

	owner_stop(&owner);
	late_post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
	late_stands(STANDS);
	begun_ns = rig_now_ns();
	assert_int_equal(kill(owner.pid, SIGKILL), 0);
	rig_expect(rig.cq[0], IBV_WC_RETRY_EXC_ERR, 7);
	assert_in_range(late_took_ns(begun_ns), 0, 1000 * MS);
}

/* The helper is waited for for a second, and then the connection's timers run for half a second. */
static void time_is_up(void **state)
{
	uint64_t begun_ns = rig_now_ns();

	owner_stop(&owner);
	late_post(3, IBV_WR_RDMA_READ, 1000);
	memset(late_near(0), 0, 1000);
	late_stands(1400 * MS);
	rig_expect(rig.cq[0], IBV_WC_RETRY_EXC_ERR, 7);
	assert_in_range(late_took_ns(begun_ns), 1400 * MS, 4000 * MS);
	late_fill(owner_meeting->memory, 1000, 3);
	owner_continue(&owner);
	usleep(20000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(*late_near((uint32_t)i), 0);
}

static void given_up(void **state)
{
	uint64_t begun_ns;

	owner_stop(&owner);
	late_post(3, IBV_WR_RDMA_READ, OWNER_BYTES);
	late_post(3, IBV_WR_RDMA_WRITE, 8);
	late_stands(STANDS);
	begun_ns = rig_now_ns();
	rig_modify(owner.qp[3], IBV_QPS_ERR, 0);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	rig_expect(rig.cq[0], IBV_WC_WR_FLUSH_ERR, 7);
	rig_modify(owner.qp[3], IBV_QPS_RESET, 0);
	assert_in_range(late_took_ns(begun_ns), 0, AT_ONCE);
	late_fill(owner_meeting->memory, OWNER_BYTES, 3);
	owner_continue(&owner);
	usleep(20000);
	for (uint32_t i = 0; i < OWNER_BYTES; i++)
		assert_int_equal(*late_near(i), 0);
}

/* ---- Other events meanwhile ---- */

static void drains(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	late_fill(late_near(0), OWNER_BYTES, 8);
	owner_stop(&owner);
	late_post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
	late_post(3, IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(
		ibv_modify_qp(owner.qp[3], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	late_stands(STANDS);
	owner_continue(&owner);
	rig_event(rig.context, IBV_EVENT_SQ_DRAINED, owner.qp[3]);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, late_near(0), OWNER_BYTES);
	late_stands(STANDS);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(owner.qp[3], &attr, IBV_QP_STATE), 0);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
}

/* Meanwhile this process's queue pairs are held as for a rehoming, and a child of it comes and goes. */
static void meanwhile(void **state)
{
	uint64_t begun_ns;
	pid_t child;

	late_fill(late_near(0), OWNER_BYTES, 9);
	owner_stop(&owner);
	late_post(3, IBV_WR_RDMA_WRITE, OWNER_BYTES);
	begun_ns = rig_now_ns();
	weft_nic_hold(&weft_process_nic);
	weft_nic_let_go(&weft_process_nic);
	assert_in_range(late_took_ns(begun_ns), 0, AT_ONCE);
	child = fork();
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	late_stands(STANDS);
	owner_continue(&owner);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	assert_memory_equal(owner_meeting->memory, late_near(0), OWNER_BYTES);
}

/* The requester's own region is deregistered: its bytes are still where they were, but the request may not
 * read them any more. */
static void own_region_ends(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(rig.pd, late_near(0), OWNER_BYTES, RIG_ALL);
	uint64_t begun_ns;

	assert_non_null(mr);
	owner_stop(&owner);
	assert_int_equal(rig_rdma(owner.qp[3], IBV_WR_RDMA_WRITE, 7, mr, late_near(0), OWNER_BYTES,
				  (uintptr_t)owner_meeting->memory, owner_meeting->rkey),
			 0);
	late_stands(STANDS);
	begun_ns = rig_now_ns();
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_in_range(late_took_ns(begun_ns), 0, AT_ONCE);
	owner_continue(&owner);
	rig_expect(rig.cq[0], IBV_WC_LOC_PROT_ERR, 7);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(others_keep_their_speed),
		CASE(all_at_once),
		CASE(owner_dies),
		CASE(time_is_up),
		CASE(given_up),
		CASE(drains),
		CASE(meanwhile),
		CASE(own_region_ends),
	};

	if (owner_prepare())
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("late", tests, make_pool, remove_pool);
}
