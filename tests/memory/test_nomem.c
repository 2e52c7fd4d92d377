/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each allocation in a scenario of overlapping regions fails once: the registration answers ENOMEM or stays
 * in place, nothing is lost, and at the end nothing is left. Linked with the functions of malloc wrapped.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memfd_source.h"

#define PAGE  4096ul
#define PAGES 16ul

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);

static unsigned int until_failure; /* counts down to the allocation that fails; 0: none does */
static bool failed;

static bool fails(void)
{
	if (!until_failure || --until_failure)
		return false;
	failed = true;
	return true;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, count, size);
}

static void check(const uint8_t *memory)
{
	for (size_t i = 0; i < PAGES * PAGE; i++)
		assert_int_equal(memory[i], (uint8_t)(i / 37));
}

static void check_regions(const struct weft_region *regions, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (unsigned int k = 0; k < regions[i].npieces; k++) {
			const struct weft_piece *piece = &regions[i].pieces[k];

			if (piece->off != WEFT_IN_PLACE)
				assert_memory_equal((void *)piece->va, memfd_source_at(piece->off),
						    piece->len_bytes);
		}
	}
}

static void scenario(uint8_t *memory)
{
	static const struct {
		size_t from, to;
	} ranges[] = {
		{2 * PAGE, 6 * PAGE},
		{PAGE + 5, 9 * PAGE},
		{3 * PAGE, 4 * PAGE},
		{0, PAGES * PAGE},
	};
	struct weft_region regions[4] = {0};

	for (size_t i = 0; i < 4; i++) {
		int err =
			weft_region_acquire(memory + ranges[i].from, ranges[i].to - ranges[i].from,
					    WEFT_REGION_MIGRATE | WEFT_REGION_WRITE, &regions[i]);

		assert_true(err == 0 || err == -ENOMEM);
		if (err)
			regions[i] = (struct weft_region){0};
		check(memory);
		check_regions(regions, 4);
	}
	for (size_t i = 0; i < 4; i++) {
		if (regions[i].pieces)
			weft_region_release(&regions[i]);
		check(memory);
		check_regions(regions, 4);
	}
}

static void test_each_allocation(void **state)
{
	uint8_t *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int n = 0;

	assert_ptr_not_equal(memory, MAP_FAILED);
	for (size_t i = 0; i < PAGES * PAGE; i++)
		memory[i] = (uint8_t)(i / 37);
	do {
		failed = false;
		until_failure = ++n;
		scenario(memory);
		until_failure = 0;
		assert_int_equal(memfd_source_extents(), 0);
	} while (failed);
	assert_true(n > 20);
	munmap(memory, PAGES * PAGE);
}

static int setup(void **state)
{
	memfd_source_attach();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_allocation),
	};

	return cmocka_run_group_tests_name("nomem", tests, setup, NULL);
}
