/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Caches of registrations hook the memory calls of libc, as UCX and Open MPI do. Here all of these calls are
 * hooked, mremap in the same harmful way as by UCX: Weft must call none of them for the pages of a region, or
 * bytes would be lost.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"

#define PAGE  4096ul
#define BYTES (40 * PAGE)

static uint8_t *memory;
static unsigned int seen; /* how many hooked calls were about the region's pages */

static void hook(const void *at, size_t len_bytes)
{
	uintptr_t start = (uintptr_t)at, region = (uintptr_t)memory;

	if (memory && start < region + BYTES && region < start + len_bytes)
		seen++;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	hook(at, len);
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
}

int munmap(void *at, size_t len)
{
	hook(at, len);
	return (int)syscall(SYS_munmap, at, len);
}

void *mremap(void *at, size_t old_len, size_t new_len, int flags, ...)
{
	seen++;
	return (void *)syscall(SYS_mremap, at, old_len, new_len, flags, NULL);
}

int mprotect(void *at, size_t len, int prot)
{
	hook(at, len);
	return (int)syscall(SYS_mprotect, at, len, prot);
}

int madvise(void *at, size_t len, int advice)
{
	hook(at, len);
	return (int)syscall(SYS_madvise, at, len, advice);
}

static void fill(uint8_t first)
{
	for (size_t i = 0; i < BYTES; i++)
		memory[i] = (uint8_t)(first + i % 251);
}

static void assert_filled(uint8_t first)
{
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(memory[i], (uint8_t)(first + i % 251));
}

static void assert_child_sees(uint8_t first)
{
	int status;
	pid_t child = fork();

	if (!child) {
		for (size_t i = 0; i < BYTES; i++) {
			if (memory[i] != (uint8_t)(first + i % 251))
				_exit(1);
		}
		_exit(seen ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void there_and_back(const char *way)
{
	struct weft_region region;

	assert_return_code(setenv("WEFT_MIGRATE", way, 1), 0);
	memfd_source_attach();
	fill(1);
	seen = 0;
	assert_int_equal(weft_region_acquire(memory, BYTES, WEFT_REGION_MIGRATE | WEFT_REGION_WRITE,
					     &region),
			 0);
	assert_int_equal(region.npieces, 1);
	assert_int_not_equal(region.pieces[0].off, WEFT_IN_PLACE);
	assert_filled(1);
	fill(2);
	assert_child_sees(2);
	weft_region_release(&region);
	assert_filled(2);
	assert_int_equal(seen, 0);
	weft_region_detach();
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void test_alone(void **state)
{
	there_and_back("copy");
}

static void test_beside_a_thread(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
	there_and_back("uffd");
	there_and_back("segv");
}

static void test_hooks_are_seen(void **state)
{
	seen = 0;
	assert_int_equal(madvise(memory, BYTES, MADV_NORMAL), 0);
	assert_int_equal(seen, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hooks_are_seen),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_beside_a_thread),
	};

	/* between two guard pages: a mapping that is merged with thread-local storage would not migrate */
	char *at = mmap(NULL, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + PAGE, BYTES, PROT_READ | PROT_WRITE))
		return 1;
	memory = (uint8_t *)at + PAGE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
