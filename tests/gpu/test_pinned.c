/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registered memory that CUDA pins, too: its pages stay where they are, at registration and at its
 * end. The stand-in ends the process when a device reaches for pages that have moved. */
#include "../verbs/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "gpu.h"

#define BYTES (64ul << 10)

static uint8_t *memory(void)
{
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	memset(at, 1, BYTES);
	return at;
}

/* Whether the pool's file is mapped there. */
static bool is_pooled(const void *at)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, inode = 0;
	char line[512];
	bool found = false;

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %*x %*s %lu", &start, &end, &inode) == 3 &&
		    start <= (uintptr_t)at && (uintptr_t)at < end)
			found = inode;
	fclose(maps);
	return found;
}

/* A device writes there, and the CPU sees it. */
static void device_writes(uint8_t *at, uint8_t value)
{
	weft_cu_ptr device;

	GPU_OK(cu.cuMemAlloc_v2(&device, BYTES));
	GPU_OK(cu.cuMemsetD8_v2(device, value, BYTES));
	GPU_OK(cu.cuMemcpyDtoHAsync_v2(at, device, BYTES, NULL));
	GPU_OK(cu.cuCtxSynchronize());
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(at[i], value);
	GPU_OK(cu.cuMemFree_v2(device));
}

/* Registered, then pinned, then deregistered: it must not move back. */
static void pinned_between(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = memory();
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, at, BYTES, RIG_ALL);

	assert_non_null(mr);
	assert_true(is_pooled(at)); /* else this would test nothing */
	assert_true(gpu_load());
	gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(at, BYTES, 0));
	device_writes(at, 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	device_writes(at, 3);
	/* and once more, while it is pinned */
	mr = ibv_reg_mr(rig->pd, at, BYTES, RIG_ALL);
	assert_non_null(mr);
	device_writes(at, 4);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	device_writes(at, 5);
	GPU_OK(cu.cuMemHostUnregister(at));
	munmap(at, BYTES);
}

/* Pinned, then registered: it does not move at all. */
static void pinned_before(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = memory();
	struct ibv_mr *mr;

	GPU_OK(cu.cuMemHostRegister_v2(at, BYTES, 0));
	mr = ibv_reg_mr(rig->pd, at, BYTES, RIG_ALL);
	assert_non_null(mr);
	device_writes(at, 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	device_writes(at, 3);
	GPU_OK(cu.cuMemHostUnregister(at));
	munmap(at, BYTES);
}

int main(void)
{
	/* in this order: memory moves only before there is a libcuda */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pinned_between, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(pinned_before, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("pinned", tests, make_pool, remove_pool);
}
