/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The host's memory beside CUDA: what CUDA has pinned stays where it is, at registration and at its end; what it does not
 * know moves into the pool and back. The stand-in ends the process when a device reaches for pages that have
 * moved.
 */
#include "../verbs/rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "../random.h"
#include "gpu.h"

#define PAGE  4096ul
#define PAGES 16u
#define BYTES (PAGES * PAGE)

static unsigned long rounds = 300;
static weft_cu_context context;

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

/* The helper brings home what could not move at the end of its region, within a second or so. */
static bool comes_home(const void *at)
{
	for (int i = 0; i < 100 && is_pooled(at); i++)
		usleep(100000);
	return !is_pooled(at);
}

static struct ibv_mr *registered(struct rig *rig, uint8_t *at)
{
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, at, BYTES, RIG_ALL);

	assert_non_null(mr);
	return mr;
}

/* A device writes there, and the CPU sees it. */
static void device_writes(uint8_t *at, size_t bytes, uint8_t value)
{
	weft_cu_ptr device = gpu_alloc(bytes);

	GPU_OK(cu.cuMemsetD8_v2(device, value, bytes));
	GPU_OK(cu.cuMemcpyDtoHAsync_v2(at, device, bytes, NULL));
	GPU_OK(cu.cuCtxSynchronize());
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(at[i], value);
	GPU_OK(cu.cuMemFree_v2(device));
}

static void begin_cuda(void)
{
	if (context)
		return;
	assert_true(gpu_load());
	context = gpu_context();
}

/* Registered, then pinned, then deregistered: it must not move back. Neither does that keep back what is not pinned. */
static void pinned_between(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = memory(), *other = memory();
	struct ibv_mr *mr = registered(rig, at), *other_mr = registered(rig, other);

	assert_true(is_pooled(at) && is_pooled(other)); /* else this would test nothing */
	begin_cuda();
	GPU_OK(cu.cuMemHostRegister_v2(at, BYTES, 0));
	device_writes(at, BYTES, 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(is_pooled(at));
	device_writes(at, BYTES, 3);
	assert_int_equal(ibv_dereg_mr(other_mr), 0);
	assert_true(comes_home(other));
	/* and once more, while it is pinned */
	mr = registered(rig, at);
	device_writes(at, BYTES, 4);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	device_writes(at, BYTES, 5);
	usleep(300000); /* the helper has looked at it in the meantime */
	device_writes(at, BYTES, 6);
	assert_true(is_pooled(at));
	GPU_OK(cu.cuMemHostUnregister(at));
	assert_true(comes_home(at));
	assert_int_equal(at[BYTES - 1], 6);
	munmap(at, BYTES);
	munmap(other, BYTES);
}

/* Pinned, then registered: it does not move at all. */
static void pinned_before(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = memory();
	struct ibv_mr *mr;

	begin_cuda();
	GPU_OK(cu.cuMemHostRegister_v2(at, BYTES, 0));
	mr = registered(rig, at);
	assert_false(is_pooled(at));
	device_writes(at, BYTES, 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	device_writes(at, BYTES, 3);
	GPU_OK(cu.cuMemHostUnregister(at));
	munmap(at, BYTES);
}

/* Pages in the middle of a region are pinned: they stay, from the first byte's page to the last one's, and the others move. */
static void pinned_in_part(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = memory();
	struct ibv_mr *mr;

	begin_cuda();
	GPU_OK(cu.cuMemHostRegister_v2(at + 4 * PAGE + 100, 2 * PAGE, 0));
	mr = registered(rig, at);
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(is_pooled(at + i * PAGE), i < 4 || i > 6);
	device_writes(at + 4 * PAGE + 100, 2 * PAGE, 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	device_writes(at + 4 * PAGE + 100, 2 * PAGE, 3);
	assert_true(comes_home(at) && comes_home(at + 7 * PAGE));
	GPU_OK(cu.cuMemHostUnregister(at + 4 * PAGE + 100));
	munmap(at, BYTES);
}

/* What CUDA does not know moves as without it, also where CUDA has copied from and to it. */
static void unknown_moves(void **state)
{
	struct rig *rig = *state;
	uint8_t *at = memory();
	struct ibv_mr *mr;

	begin_cuda();
	device_writes(at, BYTES, 2);
	mr = registered(rig, at);
	assert_true(is_pooled(at));
	device_writes(at, BYTES, 3);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(comes_home(at));
	device_writes(at, BYTES, 4);
	munmap(at, BYTES);
}

/* ---- beside copies ---- */

static _Atomic bool over;

struct copier {
	pthread_t thread;
	uint8_t *at;
	unsigned long copies, wrong;
	uint64_t seed;
};

/* To the device and back again, with other bytes each time. */
static void copy_once(struct copier *c, weft_cu_ptr device, uint8_t value)
{
	memset(c->at, value, BYTES);
	GPU_OK(cu.cuMemcpyHtoDAsync_v2(device, c->at, BYTES, NULL));
	GPU_OK(cu.cuCtxSynchronize());
	memset(c->at, 0, BYTES);
	GPU_OK(cu.cuMemcpyDtoHAsync_v2(c->at, device, BYTES, NULL));
	GPU_OK(cu.cuCtxSynchronize());
	for (size_t i = 0; i < BYTES; i++)
		c->wrong += c->at[i] != value;
	c->copies += 2;
}

static void *copies(void *arg)
{
	struct copier *c = arg;
	weft_cu_ptr device;

	GPU_OK(cu.cuCtxPushCurrent_v2(context));
	device = gpu_alloc(BYTES);
	while (!over || !c->copies)
		copy_once(c, device, (uint8_t)splitmix64(&c->seed));
	GPU_OK(cu.cuMemFree_v2(device));
	return NULL;
}

/* Of the memory that other threads are copying from and to, some of it pinned, and of other memory: registered and
 * deregistered all the time. No byte of a copy is lost, whether the pages move under it or not. */
static void beside_copies(void **state)
{
	enum { PAGEABLE, PINNED, IDLE, USED };

	struct copier copier[2] = {{.seed = 1}, {.seed = 2}};
	struct rig *rig = *state;
	uint8_t *at[USED] = {memory(), memory(), memory()};
	unsigned long moved = 0;
	uint64_t seed = 3;

	begin_cuda();
	GPU_OK(cu.cuMemHostRegister_v2(at[PINNED], BYTES, 0));
	over = false;
	for (int i = 0; i < 2; i++) {
		copier[i].at = at[i];
		assert_int_equal(pthread_create(&copier[i].thread, NULL, copies, &copier[i]), 0);
	}
	for (unsigned long i = 0; i < rounds; i++) {
		uint64_t which = splitmix64(&seed) % USED;
		struct ibv_mr *mr = registered(rig, at[which]);

		moved += is_pooled(at[which]);
		assert_true(which != PINNED || !is_pooled(at[which]));
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	over = true;
	for (int i = 0; i < 2; i++) {
		pthread_join(copier[i].thread, NULL);
		assert_int_equal(copier[i].wrong, 0);
	}
	print_message("%lu registrations, %lu moved, beside %lu pageable and %lu pinned copies\n",
		      rounds, moved, copier[PAGEABLE].copies, copier[PINNED].copies);
	assert_true(moved > rounds / 10);
	GPU_OK(cu.cuMemHostUnregister(at[PINNED]));
	for (int i = 0; i < USED; i++)
		munmap(at[i], BYTES);
}

/* test_pinned [REGISTRATIONS [TEST]] */
int main(int argc, char **argv)
{
	/* in this order: the first begins before there is a libcuda */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pinned_between, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(pinned_before, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(pinned_in_part, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(unknown_moves, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(beside_copies, rig_setup, rig_teardown),
	};

	if (argc > 1)
		rounds = strtoul(argv[1], NULL, 10);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests_name("pinned", tests, make_pool, remove_pool);
}
