/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "late.h"

#include <stdio.h>
#include <string.h>

struct rig rig;
struct owner owner;
struct ibv_mr *late_local;

int late_setup(void **state)
{
	owner_start(&owner);
	memset(&rig, 0, sizeof(rig));
	rig_open(&rig);
	rig_connect(&rig, &(struct rig_wish){0});
	late_local = rig_region(rig.pd, 2 * OWNER_BYTES);
	owner_connect(&owner, &rig, rig.cq[0]);
	return 0;
}

int late_teardown(void **state)
{
	owner_end(&owner);
	rig_region_end(late_local);
	rig_close(&rig);
	return 0;
}

uint8_t *late_near(uint32_t at)
{
	return (uint8_t *)late_local->addr + at;
}

void late_fill(uint8_t *at, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((i * 2654435761u + seed) >> 16);
}

uint64_t late_took_ns(uint64_t begun_ns)
{
	return rig_now_ns() - begun_ns;
}

struct ibv_send_wr late_request(struct ibv_sge *sge, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};

	*sge = (struct ibv_sge){(uintptr_t)late_near(0), bytes, late_local->lkey};
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)owner_meeting->memory;
		wr.wr.atomic.rkey = owner_meeting->rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)owner_meeting->memory;
		wr.wr.rdma.rkey = owner_meeting->rkey;
	}
	if (bytes <= 64 && (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_SEND))
		wr.send_flags |= IBV_SEND_INLINE;
	return wr;
}

void late_begin(int end, struct ibv_send_wr *wr)
{
	uint64_t begun_ns = rig_now_ns();
	struct ibv_send_wr *bad;

	if (end == OWNER_XRC)
		wr->qp_type.xrc.remote_srqn = owner_meeting->queue;
	assert_int_equal(ibv_post_send(owner.qp[end], wr, &bad), 0);
	assert_in_range(late_took_ns(begun_ns), 0, AT_ONCE);
}

void late_post(int end, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = late_request(&sge, opcode, bytes);

	late_begin(end, &wr);
}

/* For how long this thread has run, or waited for a core: all of its time but that in which it slept. */
static uint64_t ready_ns(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	uint64_t ran_ns, waited_ns;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &ran_ns, &waited_ns), 2);
	fclose(file);
	return ran_ns + waited_ns;
}

void late_stands(uint64_t ns)
{
	uint64_t begun_ns = rig_now_ns(), call_ns, took_ns, before_ns;
	struct ibv_wc wc;

	while (late_took_ns(begun_ns) < ns) {
		before_ns = ready_ns();
		call_ns = rig_now_ns();
		assert_int_equal(ibv_poll_cq(rig.cq[0], 1, &wc), 0);
		took_ns = late_took_ns(call_ns);
		if (took_ns > 50 * MS && took_ns > ready_ns() - before_ns + 50 * MS)
			fail_msg("of %lu ns of a poll the thread slept for 50 ms", took_ns);
	}
}
