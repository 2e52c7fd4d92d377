/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Blocks of malloc, registered from their first byte to their last: how much of them migrates, and that
 * whatever the program does with such a block next is right. Without arguments glibc's malloc is tested. With
 * -t a table of sizes and percents is printed, for whatever malloc is preloaded.
 */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"

#define PAGE   4096ul
#define KIB    1024ul
#define MIB    (1ul << 20)
#define BLOCKS 8

static struct weft_region acquire(void *addr, size_t len)
{
	struct weft_region region;

	assert_int_equal(weft_region_acquire(addr, len, WEFT_REGION_MIGRATE, &region), 0);
	return region;
}

static size_t pooled_bytes(const struct weft_region *region)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < region->npieces; i++)
		bytes += region->pieces[i].off == WEFT_IN_PLACE ? 0 : region->pieces[i].len_bytes;
	return bytes;
}

static void fill(uint8_t *memory, size_t len)
{
	for (size_t i = 0; i < len; i++)
		memory[i] = (uint8_t)(i * 31 + i / PAGE);
}

static void check(const uint8_t *memory, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (memory[i] != (uint8_t)(i * 31 + i / PAGE))
			fail_msg("byte %zu is wrong", i);
}

static uint8_t *block_of(size_t len)
{
	uint8_t *block = malloc(len);

	assert_non_null(block);
	fill(block, len);
	return block;
}

/* Registers blocks that lie side by side; returns the percentage of their bytes that is in the pool. */
static unsigned int share(size_t len)
{
	struct weft_region region[BLOCKS];
	uint8_t *block[BLOCKS];
	size_t bytes = 0;

	for (int i = 0; i < BLOCKS; i++) {
		block[i] = calloc(1, len);
		fill(block[i], len);
	}
	for (int i = 0; i < BLOCKS; i++) {
		region[i] = acquire(block[i], len);
		bytes += pooled_bytes(&region[i]);
	}
	for (int i = 0; i < BLOCKS; i++) {
		check(block[i], len);
		weft_region_release(&region[i]);
		check(block[i], len);
		free(block[i]);
	}
	return (unsigned int)(100 * bytes / (BLOCKS * len));
}

/* glibc maps blocks from 128 KiB on for themselves, though to the kernel neighbours are one mapping: all of
 * such a block migrates. */
static void test_whole(void **state)
{
	for (size_t len = 256 * KIB; len <= 16 * MIB; len *= 4) {
		assert_int_equal(share(len), 100);
		assert_int_equal(share(len - 100), 100);
	}
	assert_int_equal(memfd_source_extents(), 0);
}

/* The size in glibc's header of the block. The assembly hides from the compiler which object the address is
 * in. */
static size_t *size_of(const uint8_t *block)
{
	uintptr_t at = (uintptr_t)block;

	__asm__("" : "+r"(at));
	return (size_t *)at - 1;
}

/* Memory that looks like a block: its first and last page may have bytes of other blocks. */
static void test_strangers(void **state)
{
	uint8_t *block = block_of(MIB);
	struct weft_region region = acquire(block + 16, MIB - 16);

	assert_true(pooled_bytes(&region) < MIB - 16);
	weft_region_release(&region);
	/* from the block's beginning, but not up to its last page */
	region = acquire(block, MIB - 2 * PAGE);
	assert_int_equal(region.npieces, 2);
	assert_int_not_equal(region.pieces[0].off, WEFT_IN_PLACE);
	assert_int_equal(region.pieces[1].off, WEFT_IN_PLACE);
	weft_region_release(&region);
	/* a size that glibc would not have made: the block does not end with a page */
	*size_of(block) += 64;
	region = acquire(block, MIB);
	assert_true(pooled_bytes(&region) < MIB);
	weft_region_release(&region);
	*size_of(block) -= 64;
	free(block);
	assert_int_equal(memfd_source_extents(), 0);
}

/* glibc frees and grows such a block by its own munmap and mremap, which Weft does not see. */
static void test_freed(void **state)
{
	for (int registered = 0; registered < 2; registered++) {
		uint8_t *block = block_of(MIB), *next;
		struct weft_region region = acquire(block, MIB);

		assert_int_equal(pooled_bytes(&region), MIB);
		if (!registered)
			weft_region_release(&region);
		free(block);
		next = calloc(1, MIB);
		for (size_t i = 0; i < MIB; i++)
			assert_int_equal(next[i], 0);
		if (registered)
			weft_region_release(&region);
		assert_int_equal(memfd_source_extents(), 0);
		free(next);
	}
}

static void test_grown(void **state)
{
	static const size_t to[] = {8 * MIB, 512 * KIB, 300 * KIB};

	for (int i = 0; i < 6; i++) {
		uint8_t *block = block_of(MIB), *other = block_of(MIB);
		size_t kept = to[i % 3] < MIB ? to[i % 3] : MIB;
		struct weft_region region = acquire(block, MIB);
		struct weft_region neighbour = acquire(other, MIB);

		if (i < 3)
			weft_region_release(&region);
		block = realloc(block, to[i % 3]);
		assert_non_null(block);
		check(block, kept);
		if (to[i % 3] > MIB)
			memset(block + MIB, 0xee, to[i % 3] - MIB);
		check(other, MIB);
		if (i >= 3)
			weft_region_release(&region);
		check(block, kept);
		weft_region_release(&neighbour);
		check(other, MIB);
		free(block);
		free(other);
		assert_int_equal(memfd_source_extents(), 0);
	}
}

/* A block of one page: if realloc grew it by mremap, it would reach the extent behind it in the pool. */
static void test_small(void **state)
{
	mallopt(M_MMAP_THRESHOLD, 2000);
	for (size_t len = 2048; len < 4 * PAGE; len += 1000) {
		uint8_t *block = block_of(len), *other = block_of(len);
		struct weft_region region = acquire(block, len);
		struct weft_region neighbour = acquire(other, len);

		block = realloc(block, 64 * KIB);
		memset(block + len, 0xee, 64 * KIB - len);
		check(block, len);
		check(other, len);
		weft_region_release(&region);
		weft_region_release(&neighbour);
		check(block, len);
		check(other, len);
		free(block);
		free(other);
	}
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	assert_int_equal(memfd_source_extents(), 0);
}

/* In an aligned block glibc's header lies further inside. */
static void test_aligned(void **state)
{
	for (size_t align = 64; align <= 64 * KIB; align *= 4) {
		struct weft_region region;
		void *block = NULL;

		assert_int_equal(posix_memalign(&block, align, MIB - 64), 0);
		fill(block, MIB - 64);
		region = acquire(block, MIB - 64);
		assert_int_equal(pooled_bytes(&region), MIB - 64);
		check(block, MIB - 64);
		weft_region_release(&region);
		check(block, MIB - 64);
		free(block);
	}
	assert_int_equal(memfd_source_extents(), 0);
}

static void in_child(void *parent_block)
{
	uint8_t *block = parent_block;

	check(block, MIB);
	free(block);
	block = block_of(MIB);
	free(block);
	_exit(0);
}

/* The child has a copy of the header as well, at once: the program's fork handlers may free the block. */
static void test_fork(void **state)
{
	uint8_t *block = block_of(MIB);
	struct weft_region region = acquire(block, MIB);
	int status;
	pid_t pid = fork();

	if (!pid)
		in_child(block);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	check(block, MIB);
	weft_region_release(&region);
	check(block, MIB);
	free(block);
	assert_int_equal(memfd_source_extents(), 0);
}

/* Smaller blocks share pages with their neighbours. This test must be the last: it leaves glibc free room
 * that the others would be given. */
static void test_shared(void **state)
{
	assert_in_range(share(64 * KIB), 90, 99);
	assert_int_equal(memfd_source_extents(), 0);
}

static int table(void)
{
	memfd_source_attach();
	for (size_t len = 4 * KIB; len <= 16 * MIB; len *= 4)
		printf("%zu %u\n", len, share(len));
	return 0;
}

static int setup(void **state)
{
	/* set explicitly, as otherwise glibc adapts it to the blocks that are freed */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	memfd_source_attach();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole), cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_freed), cmocka_unit_test(test_grown),
		cmocka_unit_test(test_small), cmocka_unit_test(test_aligned),
		cmocka_unit_test(test_fork),  cmocka_unit_test(test_shared),
	};

	if (argc > 1)
		return table();
	return cmocka_run_group_tests_name("blocks", tests, setup, NULL);
}
