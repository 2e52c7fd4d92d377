/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fork while memory is registered: the child has its own copies of all of it, even of bytes that libc and the
 * program's own handlers touch before Weft's handler runs, and the parent loses nothing.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"

#define PAGE	    4096ul
#define MIB	    (1ul << 20)
#define PAGE_OF(at) ((uintptr_t)(at) & ~(PAGE - 1))

static unsigned int rounds = 40;
static uint8_t *early; /* the program's first fork handler stores here */

/* Registers all pages that [addr, addr + len) touches, as some programs do. */
static struct weft_region acquire_pages(void *addr, size_t len)
{
	uintptr_t start = PAGE_OF(addr), end = PAGE_OF((uintptr_t)addr + len + PAGE - 1);
	struct weft_region region;

	assert_int_equal(weft_region_acquire((void *)start, end - start, true, &region), 0);
	return region;
}

static void assert_pooled(const struct weft_region *region, const void *at)
{
	for (unsigned int i = 0; i < region->npieces; i++) {
		if ((uintptr_t)at - region->pieces[i].va < region->pieces[i].len_bytes) {
			assert_int_not_equal(region->pieces[i].off, WEFT_IN_PLACE);
			return;
		}
	}
	fail();
}

/* Runs fn in a child, which must exit with 0. */
static void in_child(void (*fn)(void *arg), void *arg)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		fn(arg);
		exit(0); /* exit() writes the counts of coverage */
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void use_malloc(void *arg)
{
	void *blocks[64];

	for (size_t i = 0; i < 64; i++) {
		blocks[i] = malloc(100 << i % 12);
		memset(blocks[i], 1, 100 << i % 12);
	}
	for (size_t i = 0; i < 64; i++)
		free(blocks[i]);
}

/* The heap of a thread begins with its arena, which glibc resets in the child before handlers run. */
static void *with_arena(void *arg)
{
	uint8_t *block = malloc(100), *large = malloc(60000);
	uintptr_t heap = (uintptr_t)block & ~(64 * MIB - 1);
	struct weft_region region;

	memset(large, 7, 60000);
	region = acquire_pages((void *)heap, (uintptr_t)large + 60000 - heap);
	assert_pooled(&region, large + PAGE);
	in_child(use_malloc, NULL);
	use_malloc(NULL);
	weft_region_release(&region);
	for (size_t i = 0; i < 60000; i++)
		assert_int_equal(large[i], 7);
	free(large);
	free(block);
	return NULL;
}

static void test_arena(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, with_arena, NULL), 0);
	pthread_join(thread, NULL);
}

static void read_file(void *file)
{
	char line[64];

	rewind(file);
	if (!fgets(line, sizeof(line), file) || strcmp(line, "line\n") != 0)
		_exit(1);
	use_malloc(NULL);
}

static void *sleeper(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

/* In the child of a process with threads libc resets the locks of all open streams. */
static void test_streams(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	FILE *file = tmpfile();
	struct weft_region region = acquire_pages(file, sizeof(*file));
	pthread_t thread;

	assert_pooled(&region, file);
	fputs("line\n", file);
	fflush(file);
	pthread_mutex_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &lock), 0);
	in_child(read_file, file);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	read_file(file);
	weft_region_release(&region);
	read_file(file);
	fclose(file);
}

static void early_handler(void)
{
	if (early)
		early[0]++;
}

static void check_early(void *arg)
{
	if (early[0] != 6 || early[PAGE] != 5)
		_exit(1);
}

static void test_earlier_handler(void **state)
{
	struct weft_region region;

	early = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	early[0] = early[PAGE] = 5;
	region = acquire_pages(early, 2 * PAGE);
	assert_pooled(&region, early);
	in_child(check_early, NULL);
	assert_int_equal(early[0], 5);
	weft_region_release(&region);
	munmap(early, 2 * PAGE);
	early = NULL;
}

/* Stores of the child stay in the child, and its own child has them. */
static void store_and_leave(void *memory)
{
	memset(memory, 0xff, MIB);
	if (fork() == 0) {
		for (size_t i = 0; i < MIB; i++) {
			if (((uint8_t *)memory)[i] != 0xff)
				_exit(1);
		}
		_exit(0);
	}
	int status = -1;

	if (wait(&status) < 0 || status)
		_exit(1);
}

static _Atomic bool stop;

/* A thread that registers, checks and frees all the time, as an application under load. */
static void *traffic(void *arg)
{
	for (unsigned int i = 0; !atomic_load(&stop); i++) {
		size_t len = (i % 13 + 1) * 9000;
		uint8_t *memory = malloc(len);
		struct weft_region region;

		memset(memory, (int)i, len);
		if (weft_region_acquire(memory, len, true, &region))
			return "cannot register";
		for (unsigned int k = 0; k < region.npieces; k++) {
			const struct weft_piece *piece = &region.pieces[k];

			if (piece->off != WEFT_IN_PLACE)
				memset(memfd_source_at(piece->off), (int)i + 1, piece->len_bytes);
			else
				memset((void *)piece->va, (int)i + 1, piece->len_bytes);
		}
		for (size_t k = 0; k < len; k++) {
			if (memory[k] != (uint8_t)(i + 1))
				return "a peer's store is not in the program's memory";
		}
		weft_region_release(&region);
		free(memory);
	}
	return NULL;
}

static void test_traffic(void **state)
{
	uint8_t *memory = malloc(MIB);
	struct weft_region region;
	pthread_t threads[2];

	memset(memory, 3, MIB);
	assert_int_equal(weft_region_acquire(memory, MIB, true, &region), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, traffic, NULL), 0);
	for (unsigned int i = 0; i < rounds; i++) {
		in_child(i % 2 ? use_malloc : store_and_leave, memory);
		for (size_t k = 0; k < MIB; k++)
			assert_int_equal(memory[k], 3);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		void *complaint;

		pthread_join(threads[i], &complaint);
		assert_ptr_equal(complaint, NULL);
	}
	weft_region_release(&region);
	free(memory);
	assert_int_equal(memfd_source_extents(), 0);
}

static void die(void)
{
	abort();
}

/* A child that dies at once, or that runs no fork handler, delays nothing. */
static void test_dying_child(void **state)
{
	uint8_t *memory = malloc(MIB);
	struct weft_region region = acquire_pages(memory, MIB);
	int status;
	pid_t pid = fork();

	if (!pid)
		die();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): programs use it */
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	weft_region_release(&region);
	free(memory);
}

static int setup(void **state)
{
	pthread_atfork(NULL, NULL, early_handler);
	memfd_source_attach();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arena),		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_earlier_handler), cmocka_unit_test(test_traffic),
		cmocka_unit_test(test_dying_child),
	};

	if (argc > 1)
		rounds = (unsigned int)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests_name("fork", tests, setup, NULL);
}
