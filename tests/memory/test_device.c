/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory that migrates to a device, whose mappings the kernel does not join: it ends as few mappings, is whole, comes back,
 * and a child of fork() has a copy. `test-memory-device [DEVICE [MIB]]`: else a memfd plays it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memfd_source.h"
#include "migrate/vma.h"
#include "pool/clock.h"

#define PAGE	      4096ul
#define MIB	      (1ul << 20)
#define MOST_MAPPINGS 8u /* of 256 MiB */
#define TRIES	      600u
#define TRY_US	      100000u
#define LATER_NS      1000000000ull

static const char *device;
static size_t len_bytes = 256 * MIB;
static uint64_t *memory;
static sem_t over;

static void *wait_for_end(void *arg)
{
	sem_wait(&over);
	return NULL;
}

static void fill(uint64_t by)
{
	for (size_t i = 0; i < len_bytes / sizeof(*memory); i += PAGE / sizeof(*memory) + 1)
		memory[i] = i + by;
}

static bool holds(uint64_t by)
{
	for (size_t i = 0; i < len_bytes / sizeof(*memory); i += PAGE / sizeof(*memory) + 1)
		if (memory[i] != i + by)
			return false;
	return true;
}

/* What could not come back, as a thread was not parked in time, comes later. */
static void come_home(void)
{
	for (unsigned int i = 0; weft_region_is_away(); i++) {
		assert_in_range(i, 0, TRIES);
		usleep(TRY_US);
		weft_region_bring_home(weft_clock_now_ns() + LATER_NS);
	}
	assert_int_equal(memfd_source_extents(), 0);
}

/* All of it migrates, unless a thread was not parked in time: then it is tried again. */
static void acquire(size_t bytes, struct weft_region *region)
{
	for (unsigned int i = 0;; i++) {
		bool pooled = true;

		assert_in_range(i, 0, TRIES);
		assert_int_equal(weft_region_acquire(memory, bytes, WEFT_REGION_MIGRATE, region),
				 0);
		for (unsigned int k = 0; k < region->npieces; k++)
			pooled &= region->pieces[k].off != WEFT_IN_PLACE;
		if (pooled)
			return;
		weft_region_release(region);
		come_home();
	}
}

static void test_mappings(void **state)
{
	unsigned int before = weft_vma_count();
	struct weft_region region, again;

	fill(1);
	acquire(len_bytes, &region);
	assert_in_range(weft_vma_count(), 0, before + MOST_MAPPINGS);
	assert_true(holds(1));
	/* what peers store there is seen */
	*memfd_source_at(region.pieces[0].off) ^= 0xff;
	assert_false(holds(1));
	*memfd_source_at(region.pieces[0].off) ^= 0xff;
	/* part of it once more, which is known to be there */
	assert_int_equal(weft_region_acquire(memory, len_bytes / 2, WEFT_REGION_MIGRATE, &again),
			 0);
	assert_int_equal(again.pieces[0].off, region.pieces[0].off);
	weft_region_release(&again);
	fill(2);
	weft_region_release(&region);
	assert_true(holds(2));
	come_home();
	assert_in_range(weft_vma_count(), 0, before + MOST_MAPPINGS);
}

static void test_child(void **state)
{
	struct weft_region region;
	int status;
	pid_t pid;

	fill(3);
	acquire(len_bytes, &region);
	pid = fork();
	if (!pid) {
		bool whole = holds(3);

		fill(4); /* its own */
		_exit(!whole);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(holds(3));
	weft_region_release(&region);
	come_home();
	assert_true(holds(3));
}

/* mremap as it is: elsewhere, and back when it is deregistered. */
static void test_elsewhere(void **state)
{
	struct weft_region region;
	void *there = mmap(NULL, len_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);
	void *here = memory;

	fill(5);
	acquire(len_bytes - PAGE, &region);
	/* all but the last page but one, which is a mapping of its own */
	memory = mremap(here, len_bytes - 2 * PAGE, len_bytes - 2 * PAGE,
			MREMAP_MAYMOVE | MREMAP_FIXED, there);
	assert_true(memory == there);
	memory[0] = 6;
	weft_region_release(&region);
	assert_int_equal(memory[0], 6);
	come_home();
	assert_true(mremap(memory, len_bytes - 2 * PAGE, len_bytes - 2 * PAGE,
			   MREMAP_MAYMOVE | MREMAP_FIXED, here) == here);
	memory = here;
	memory[0] = 5;
	assert_true(holds(5));
}

/* Threads that do nothing make it migrate slice by slice. */
static int begin_threads(void **state)
{
	static pthread_t thread[2];

	memory = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	memfd_source_attach_device(device, len_bytes + 4 * MIB);
	sem_init(&over, 0, 0);
	for (size_t i = 0; i < sizeof(thread) / sizeof(*thread); i++)
		if (pthread_create(&thread[i], NULL, wait_for_end, NULL))
			return -1;
	*state = thread;
	return 0;
}

static int end_threads(void **state)
{
	pthread_t *thread = *state;

	for (size_t i = 0; i < 2; i++)
		sem_post(&over);
	for (size_t i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_elsewhere),
	};

	device = argc > 1 ? argv[1] : NULL;
	if (argc > 2)
		len_bytes = strtoul(argv[2], NULL, 10) * MIB;
	return cmocka_run_group_tests_name("device", tests, begin_threads, end_threads);
}
