/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "../abi/pool.h"
#include "asked.h"
#include "nic/cq.h"
#include "nic/nic.h"
#include "pool/format_member.h"

struct world world;
const uint8_t world_gid[16] = {[0] = 0x20, [15] = 1}, unused_gid[16] = {[0] = 0x20, [15] = 2};

/* ---- What the nic needs of its machine ---- */

static void *zeroed(void *context, size_t bytes)
{
	return calloc(1, bytes ? bytes : 1);
}

static void free_it(void *context, void *at)
{
	free(at);
}

static void yields(void *context)
{
	if (world.yields)
		world.yields();
}

static void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	if (world.copies)
		world.copies();
	memmove(to, from, bytes);
}

static int move_device(void *context, const struct weft_caller *caller,
		       const struct weft_in_place *memory, void *here, uint64_t len_bytes,
		       bool write)
{
	return world.devices->row.copy(context, caller, memory, here, len_bytes, write);
}

static int change_device(void *context, const struct weft_caller *caller,
			 const struct weft_in_place *memory, bool add, uint64_t compare_add,
			 uint64_t swap, uint64_t *value)
{
	return world.devices->row.atomic(context, caller, memory, add, compare_add, swap, value);
}

static void completion(struct weft_cq *cq)
{
}

static void async(struct weft_qp *qp, struct weft_cq *cq, enum weft_event event)
{
	world.drained_events += event == WEFT_EVENT_SQ_DRAINED;
	world.fatal_events += event == WEFT_EVENT_QP_FATAL;
}

static void failed(const struct weft_qp *qp, const struct weft_wqe *wqe, enum weft_cause cause)
{
	world.failed_of = cause;
}

static uint64_t stamp_ns(void *context)
{
	return world.now_ns;
}

static uint32_t self(void *context)
{
	return 0;
}

static void kick(void *context)
{
	world.kicks++;
}

/* ---- The member, and its looks ---- */

void world_publish(const uint8_t gid[16])
{
	struct weft_pool_member *self = world.pool->self;
	struct weft_pool_gid *at = &self->gid[self->ngids];
	uint64_t half[2];

	memcpy(half, gid, 16);
	at->half[0] = half[0];
	at->half[1] = half[1];
	at->guard |= 1;
	self->ngids++;
}

int world_join(void)
{
	static const struct weft_machine machine = {
		.alloc = zeroed,
		.free = free_it,
		.yield = yields,
		.copy = copy,
		.memory = {[WEFT_MEMORY_THERE] = {asked_copy, asked_atomic},
			   [WEFT_MEMORY_DEVICE] = {move_device, change_device}},
		.answered = asked_answered,
		.carried_out = asked_carried_out,
		.take_back = asked_take_back,
		.stamp_ns = stamp_ns,
		.self = self,
		.kick = kick};
	static const struct weft_nic_api api = {
		.completion = completion, .async = async, .failed = failed};
	static char where[4096];
	const char *why;

	if (weft_pool_get(NULL, &world.pool, where, &why))
		return -1;
	weft_pool_caller_get(world.pool, &world.caller);
	world.now_ns = 1;
	world.nic.pool = world.pool;
	world.nic.machine = &machine;
	world.nic.api = &api;
	world.nic.qps = calloc(WEFT_QPS, sizeof(*world.nic.qps));
	world.nic.windows = calloc(WEFT_MRS, sizeof(*world.nic.windows));
	world.nic.srq_of = calloc(WEFT_QPS, sizeof(*world.nic.srq_of));
	world_publish(world_gid);
	return !world.nic.qps || !world.nic.windows || !world.nic.srq_of ||
	       weft_cq_create(&world.nic, &world.cq, 256);
}

int world_attach(void **state)
{
	return make_pool(state) || world_join();
}

void world_leave(void)
{
	weft_cq_destroy(&world.cq);
	free(world.nic.qps);
	free(world.nic.windows);
	free(world.nic.srq_of);
	weft_pool_caller_put(world.pool, &world.caller);
	weft_pool_put(world.pool);
}

int world_detach(void **state)
{
	world_leave();
	return remove_pool(state);
}

int world_attach_with_card(void **state)
{
	if (world_attach(state))
		return -1;
	weft_pool_caller_get(world.pool, &world.card);
	return 0;
}

int world_detach_with_card(void **state)
{
	weft_pool_caller_put(world.pool, &world.card);
	return world_detach(state);
}

void world_look(void)
{
	if (world.works)
		world.works();
	weft_nic_progress(&world.nic, &world.caller, world.now_ns);
}

void world_expect(uint64_t wr_id, enum weft_wc_status status)
{
	struct weft_wc wc;

	assert_int_equal(weft_cq_poll(&world.cq, 1, &wc, 0), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

void world_expect_none(void)
{
	struct weft_wc wc;

	assert_int_equal(weft_cq_poll(&world.cq, 1, &wc, 0), 0);
}
