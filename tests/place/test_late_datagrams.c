/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagrams that only the helper of the memory's owner can place: one that is stopped makes the sender wait
 * for a while, and then hardly at all, until it looks again. All of libibverbs in one program.
 */
#include <string.h>

#include "../abi/pool.h"
#include "late.h"
#include "pool/format_home.h"
#include "pool/format_region.h"
#include "process/process.h"

#define GRH	 40
#define PATIENCE (100 * MS) /* how long a sender waits for a destination that has always answered */
#define DROPPED	 12	    /* after so many the sender waits no more than 50 µs */

static uint64_t send_ns(struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = {(uintptr_t)late_near(0), 1000, late_local->lkey};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {ah, qpn, RIG_QKEY}},
			   *bad;
	uint64_t begun_ns = rig_now_ns();

	assert_int_equal(ibv_post_send(owner.qp[OWNER_UD], &wr, &bad), 0);
	begun_ns = late_took_ns(begun_ns);
	rig_expect(rig.cq[0], IBV_WC_SUCCESS, 7);
	return begun_ns;
}

/* The shortest time of several, as this thread may lose its core. */
static uint64_t soonest_ns(struct ibv_ah *ah, uint32_t qpn)
{
	uint64_t least_ns = UINT64_MAX, ns;

	for (int i = 0; i < 5; i++) {
		ns = send_ns(ah, qpn);
		least_ns = ns < least_ns ? ns : least_ns;
	}
	return least_ns;
}

/* Waits until the owner's helper has looked at everything that it was asked. */
static void await_look(void)
{
	uint32_t index = owner_meeting->rkey >> WEFT_KEY_BITS;
	const struct weft_pool_near *near =
		weft_pool_near(weft_process.pool, weft_process.pool->mrs[index].owner);
	uint64_t begun_ns = rig_now_ns();

	while (atomic_load(&near->due[WEFT_SIGNAL_ASK]))
		assert_in_range(late_took_ns(begun_ns), 0, 10000 * MS);
}

static struct ibv_ah *address(const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = rig_attr(rig.context, IBV_QPS_RTR, 0).ah_attr;
	struct ibv_ah *ah;

	if (gid)
		attr.grh.dgid = *gid;
	ah = ibv_create_ah(rig.pd, &attr);
	assert_non_null(ah);
	return ah;
}

static void await_datagram(struct ibv_ah *ah, uint32_t qpn)
{
	uint64_t begun_ns = rig_now_ns();

	late_fill(late_near(0), 1000, 1);
	do {
		assert_in_range(late_took_ns(begun_ns), 0, 10000 * MS);
		send_ns(ah, qpn);
	} while (!owner_do(OWNER_COUNT, 0));
	assert_memory_equal(owner_meeting->memory + GRH, late_near(0), 1000);
}

/* While the destination is stopped each datagram is dropped, after half the time of the one before. */
static void datagrams(void **state)
{
	struct ibv_ah *ah = address(NULL);
	uint32_t qpn = owner_meeting->theirs[OWNER_UD];
	uint64_t patience_ns = PATIENCE;

	owner_stop(&owner);
	for (int i = 0; i < DROPPED; i++, patience_ns /= 2)
		assert_true(send_ns(ah, qpn) >= patience_ns);
	assert_in_range(soonest_ns(ah, qpn), 0, PATIENCE / 8);
	owner_continue(&owner);
	assert_int_equal(owner_do(OWNER_COUNT, 0), 0);
	await_look();
	/* the destination is trusted again, and that is no matter of its being quick by chance: it is held
	 * here */
	owner_hold(OWNER_ANSWERING);
	assert_true(send_ns(ah, qpn) >= PATIENCE);
	owner_let_go();
	await_datagram(ah, qpn);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* A sender remembers nothing of the single members of a multicast group. */
static void datagrams_to_a_group(void **state)
{
	struct ibv_ah *ah = address(&owner_group);

	owner_stop(&owner);
	assert_true(send_ns(ah, 0xffffff) >= PATIENCE);
	assert_in_range(soonest_ns(ah, 0xffffff), 0, PATIENCE / 8);
	owner_continue(&owner);
	await_look();
	await_datagram(ah, 0xffffff);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(datagrams, late_setup, late_teardown),
		cmocka_unit_test_setup_teardown(datagrams_to_a_group, late_setup, late_teardown),
	};

	if (owner_prepare())
		return 1;
	rig_forbid_process_vm();
	return cmocka_run_group_tests_name("late-datagrams", tests, make_pool, remove_pool);
}
