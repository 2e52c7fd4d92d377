/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The requester dies while the helper of the memory's owner is asked, at each step of its own and at those of
 * the helper. The helper goes on, and serves others; the memory has its old bytes or those that were to be
 * written; all that the dead requester had in the pool comes back, its ask and the bytes that it lent for
 * that among it; and the next requester, by the same member number, has its asks to itself. All of libibverbs
 * in one program.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "late.h"
#include "pool/format.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/step.h"
#include "process/process.h"

/* The owner's ends from DYING on are the dying requester's, and those from NEXT on the next one's. */
#define DYING  20
#define NEXT   30
#define OLD    0x11
#define NEW    0xee
#define BYTES  150000u /* so many that a request takes three asks */
#define BESIDE (OWNER_BYTES / 2)

static const struct plan {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	/* the requester's step at which it dies; NULL: it is killed while it waits */
	const char *step;
	int nth;
	enum owner_place place; /* where the owner's helper is held then */
} plans[] = {
	{"write, asked", IBV_WR_RDMA_WRITE, BYTES, "late_asked", 1, OWNER_NOWHERE},
	{"write, asked for another part", IBV_WR_RDMA_WRITE, BYTES, "late_asked", 2, OWNER_NOWHERE},
	{"read, asked", IBV_WR_RDMA_READ, BYTES, "late_asked", 1, OWNER_NOWHERE},
	{"read, asked for another part", IBV_WR_RDMA_READ, BYTES, "late_asked", 3, OWNER_NOWHERE},
	{"add, asked", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, "late_asked", 1, OWNER_NOWHERE},
	{"write, answering", IBV_WR_RDMA_WRITE, BYTES, NULL, 0, OWNER_ANSWERING},
	{"write, applied", IBV_WR_RDMA_WRITE, BYTES, NULL, 0, OWNER_APPLIED},
	{"read, answering", IBV_WR_RDMA_READ, BYTES, NULL, 0, OWNER_ANSWERING},
	{"add, answering", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, NULL, 0, OWNER_ANSWERING},
	{"add, applied", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, NULL, 0, OWNER_APPLIED},
	{"write, taken back", IBV_WR_RDMA_WRITE, BYTES, "late_taken_back", 1, OWNER_ANSWERING},
	{"read, taken back", IBV_WR_RDMA_READ, BYTES, "late_taken_back", 1, OWNER_APPLIED},
};

static struct stage {
	_Atomic uint32_t ready, go, next;
} * stage;

/* ---- Steps ---- */

static const char *dies_at; /* set in the process that dies */
static int passes_left;

void weft_step(const struct weft_step *step)
{
	owner_step(step->name);
	if (dies_at && !strcmp(step->name, dies_at) && !--passes_left)
		kill(getpid(), SIGKILL);
}

/* ---- Requesters ---- */

static void connect_from(int first, int end)
{
	memset(&owner, 0, sizeof(owner));
	memset(&rig, 0, sizeof(rig));
	rig_open(&rig);
	rig_connect(&rig, &(struct rig_wish){0});
	late_local = rig_region(rig.pd, OWNER_BYTES);
	memset(late_near(0), NEW, OWNER_BYTES);
	owner_connect_some(&owner, &rig, rig.cq[0], first, end);
}

static _Noreturn void be_dying(const struct plan *plan)
{
	struct ibv_wc wc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	connect_from(DYING, NEXT);
	atomic_store(&stage->ready, 1);
	rig_await(&stage->go, 1);
	dies_at = plan->step;
	passes_left = plan->nth;
	late_post(DYING, plan->opcode, plan->bytes);
	if (plan->place)
		owner_await_held();
	if (plan->step && plan->place)
		rig_modify(owner.qp[DYING], IBV_QPS_ERR, 0);
	for (;;)
		ibv_poll_cq(rig.cq[0], 1, &wc);
}

/* A live requester's requests of each kind, which the helper carries out. */
static void request_all(int end)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	for (size_t i = 0; i < COUNT(opcodes); i++) {
		wr = late_request(&sge, opcodes[i], i == 2 ? 8 : BYTES);
		if (i == 2)
			wr.wr.atomic.remote_addr += BESIDE;
		else
			wr.wr.rdma.remote_addr += BESIDE;
		if (i == 1)
			memset(late_near(0), 0, BYTES);
		late_begin(end, &wr);
		rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	}
	assert_memory_equal(late_near(8), owner_meeting->memory + BESIDE + 8, BYTES - 8);
	assert_int_equal(*late_near(BYTES - 1), NEW);
	memset(late_near(0), NEW, BYTES);
}

static _Noreturn void be_next(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_await(&stage->next, 1);
	connect_from(NEXT, OWNER_ALL);
	request_all(NEXT);
	_exit(0);
}

/* ---- One death ---- */

static uint16_t member_of(int end)
{
	return weft_process.pool->qps[owner_meeting->ours[end] & (WEFT_QPS - 1)].owner;
}

static uint32_t segments_of(uint64_t word)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < WEFT_SEGMENTS; i++)
		n += atomic_load(&weft_process.pool->leases->segment[i]) == word;
	return n;
}

static void is_dead(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* Each byte has its old value, or the one that the request was to write; no byte need have been written. */
static void check_memory(const struct plan *plan)
{
	const uint8_t *at = owner_meeting->memory;
	uint64_t sum;

	memcpy(&sum, at, 8);
	if (plan->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sum -= 0x1111111111111111;
		assert_true(sum == 0 || sum == 5);
		assert_true(plan->place != OWNER_APPLIED || sum == 5);
		return;
	}
	for (uint32_t i = 0; i < BESIDE; i++)
		if (at[i] != OLD && (at[i] != NEW || i >= BYTES))
			fail_msg("byte %u is %02x", i, at[i]);
	if (plan->opcode == IBV_WR_RDMA_READ)
		assert_int_equal(at[0], OLD);
}

/* While the helper is in the middle of the dead requester's ask, nothing that this one had is given to
 * others. */
static void recovers(const struct plan *plan, uint16_t member, uint64_t word)
{
	const struct weft_pool_member *m = weft_pool_member(weft_process.pool, member);
	uint64_t begun_ns = rig_now_ns();

	if (plan->place) {
		usleep(2000);
		weft_pool_recover(weft_process.pool);
		assert_true(segments_of(word) > 0);
		assert_true(atomic_load(&m->incarnation) == word >> 16);
		owner_let_go();
	}
	request_all(0);
	while (atomic_load(&m->incarnation) == word >> 16 || segments_of(word)) {
		assert_in_range(late_took_ns(begun_ns), 0, 10000 * MS);
		weft_pool_recover(weft_process.pool);
	}
	request_all(0);
}

static void dies(const struct plan *plan)
{
	pid_t dying, next, owner_pid;
	uint16_t member;
	uint64_t word;
	int status;

	print_message("%s\n", plan->name);
	memset(stage, 0, sizeof(*stage));
	owner_start(&owner);
	memset(owner_meeting->memory, OLD, BESIDE);
	owner_pid = owner.pid;
	dying = fork();
	if (!dying)
		be_dying(plan);
	next = fork();
	if (!next)
		be_next();
	connect_from(0, DYING);
	owner.pid = owner_pid;
	rig_await(&stage->ready, 1);
	member = member_of(DYING);
	word = atomic_load(&weft_pool_member(weft_process.pool, member)->incarnation) << 16 |
	       (member + 1u);
	owner_hold(plan->place);
	atomic_store(&stage->go, 1);
	if (plan->place)
		owner_await_held();
	if (!plan->step)
		assert_int_equal(kill(dying, SIGKILL), 0);
	is_dead(dying);
	recovers(plan, member, word);
	check_memory(plan);
	atomic_store(&stage->next, 1);
	assert_int_equal(waitpid(next, &status, 0), next);
	assert_int_equal(status, 0);
	owner_end(&owner);
	rig_region_end(late_local);
	rig_close(&rig);
}

static void each(void **state)
{
	for (size_t i = 0; i < COUNT(plans); i++)
		dies(&plans[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each)};

	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (stage == MAP_FAILED || owner_prepare())
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("late-deaths", tests, make_pool, remove_pool);
}
