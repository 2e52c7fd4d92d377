/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract of transports (contract.h) once more, with memory of a GPU at near, at the peer, and at both: by the machine
 * of a process (process/device.h) and its plugin. With an argument only the tests of which the names match it.
 */
#include "contract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gpu/gpu.h"
#include "asked.h"
#include "process/device.h"
#include "process/reach.h"

/* ---- The machine: all regions are of this process, whose device reaches them ---- */

int weft_reach_check(const struct weft_pool *pool, const struct weft_in_place *memory)
{
	fail_msg("another process's memory was asked for");
	return -ESRCH;
}

int weft_reach_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
			 const struct weft_in_place *memory, void *here, uint64_t len_bytes,
			 bool write)
{
	fail_msg("another process's helper was asked");
	return -ESRCH;
}

int weft_reach_atomic_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
				const struct weft_in_place *memory, bool add, uint64_t compare_add,
				uint64_t swap, uint64_t *value)
{
	fail_msg("another process's helper was asked");
	return -ESRCH;
}

/* Whether it is the peer's, as if that were of another process: its helper is asked (asked.h). */
static bool is_asked(uint64_t id)
{
	return ends_wish.in_place && (uint32_t)id == ends_peer.mr.key;
}

/* Of two regions of this process the nic takes either for the one that is here. Were the peer another process, it would be near's. */
static int move_other_way(void *context, const struct weft_caller *caller,
			  const struct weft_in_place *memory, void *here, uint64_t len_bytes,
			  bool write)
{
	struct weft_in_place there = *memory;

	there.va = (uintptr_t)here;
	there.id = memory->here_id;
	there.here_id = memory->id;
	return asked_copy(context, caller, &there, (void *)(uintptr_t)memory->va, len_bytes,
			  !write);
}

static int move(void *context, const struct weft_caller *caller, const struct weft_in_place *memory,
		void *here, uint64_t len_bytes, bool write)
{
	if (is_asked(memory->id))
		return asked_copy(context, caller, memory, here, len_bytes, write);
	if (is_asked(memory->here_id))
		return move_other_way(context, caller, memory, here, len_bytes, write);
	return weft_device_reach(world.pool, caller, memory, here, len_bytes, write);
}

static int change(void *context, const struct weft_caller *caller,
		  const struct weft_in_place *memory, bool add, uint64_t compare_add, uint64_t swap,
		  uint64_t *value)
{
	if (is_asked(memory->id))
		return asked_atomic(context, caller, memory, add, compare_add, swap, value);
	return weft_device_atomic(world.pool, caller, memory, add, compare_add, swap, value);
}

static int helper_copies(uint64_t id, uint64_t va, void *here, uint64_t len_bytes, bool write)
{
	return weft_device_copy(world.pool, id, va, here, len_bytes, write);
}

static int helper_changes(uint64_t id, uint64_t va, bool add, uint64_t compare_add, uint64_t swap,
			  uint64_t *value)
{
	return weft_device_change(world.pool, id, va, add, compare_add, swap, value);
}

static const struct world_devices devices = {{move, change}, helper_copies, helper_changes};

/* ---- Memory of the GPU ---- */

static void begin_on_gpu(struct end *e)
{
	struct weft_device *device;

	e->memory = (uint8_t *)(uintptr_t)gpu_alloc(ENDS_ALL);
	assert_int_equal(weft_device_begin(world.pool, (uintptr_t)e->memory, ENDS_ALL, &device), 0);
	e->device = device;
	e->off = weft_device_off(device);
}

static void revoke_on_gpu(struct end *e)
{
	weft_device_end(world.pool, e->device, true);
}

static void end_on_gpu(struct end *e)
{
	GPU_OK(cu.cuMemFree_v2((uintptr_t)e->memory));
}

static void write_on_gpu(const struct end *e, uint64_t at, const void *from, uint64_t bytes)
{
	GPU_OK(cu.cuMemcpyHtoD_v2((uintptr_t)e->memory + at, from, bytes));
	GPU_OK(cu.cuStreamSynchronize(NULL));
}

/* As a program that has seen a completion, and does not wait for any stream but its own. */
static void read_on_gpu(const struct end *e, uint64_t at, void *to, uint64_t bytes)
{
	GPU_OK(cu.cuMemcpyDtoH_v2(to, (uintptr_t)e->memory + at, bytes));
}

static const struct ends_memory on_gpu = {begin_on_gpu, revoke_on_gpu, end_on_gpu, write_on_gpu,
					  read_on_gpu};

/* ---- The program ---- */

static const struct {
	const char *name;
	const struct ends_memory *near, *peer;
} sides[] = {
	{"near", &on_gpu, &ends_pooled},
	{"peer", &ends_pooled, &on_gpu},
	{"both", &on_gpu, &on_gpu},
};

/* A test's name, as a word that the filter and tools/gpus.py take. */
static const char *name_of(const char *name, const char *side)
{
	static char text[64];
	unsigned int n = 0;

	for (; *name && n < 40; name++)
		if (*name != ',')
			text[n++] = *name == ' ' ? '_' : *name;
	snprintf(text + n, sizeof(text) - n, "_%s", side);
	return text;
}

static int run(const struct CMUnitTest *test, size_t side)
{
	struct CMUnitTest here = *test;

	ends_near_kind = sides[side].near;
	ends_peer_kind = sides[side].peer;
	here.name = name_of(test->name, sides[side].name);
	return contract_run_test(&here);
}

int main(int argc, char **argv)
{
	weft_cu_context context;
	int failed = 0;

	if (!gpu_load()) {
		print_message("there is no libcuda.so.1\n");
		return 77;
	}
	context = gpu_context();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	world.devices = &devices;
	for (unsigned int i = 0; i < CONTRACT_TESTS; i++)
		/* both ends of a crowd are like near */
		for (size_t side = strstr(contract_list[i].name, "crowd") ? 2 : 0; side < 3; side++)
			failed += run(&contract_list[i], side);
	GPU_OK(cu.cuCtxDestroy_v2(context));
	return failed;
}
