/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which pages of a region migrate, how it describes them, and that all is undone at its end. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"

#define PAGE 4096ul
#define MIB  (1ul << 20)

enum kind { IN_PLACE = 1, POOLED = 2, MIXED = IN_PLACE | POOLED };

static uint8_t bss[16 * PAGE];

static struct weft_region acquire(void *addr, size_t len)
{
	uint64_t at = (uintptr_t)addr;
	struct weft_region region;

	assert_int_equal(weft_region_acquire(addr, len, WEFT_REGION_MIGRATE, &region), 0);
	for (unsigned int i = 0; i < region.npieces; i++) {
		assert_int_equal(region.pieces[i].va, at);
		assert_true(region.pieces[i].len_bytes > 0);
		at += region.pieces[i].len_bytes;
	}
	assert_int_equal(at, (uintptr_t)addr + len);
	return region;
}

static enum kind kind_of(const struct weft_region *region)
{
	int kind = 0;

	for (unsigned int i = 0; i < region->npieces; i++)
		kind |= region->pieces[i].off == WEFT_IN_PLACE ? IN_PLACE : POOLED;
	return (enum kind)kind;
}

static void fill(uint8_t *memory, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		memory[i] = (uint8_t)(i * 31 + i / PAGE + seed);
}

static void check(const uint8_t *memory, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++) {
		if (memory[i] != (uint8_t)(i * 31 + i / PAGE + seed))
			fail_msg("byte %zu is wrong", i);
	}
}

/* Registers memory: its bytes are the same before, meanwhile and afterwards, and stores by the program and
 * through the pool are seen by both. */
static enum kind round_trip(void *addr, size_t len)
{
	uint8_t *memory = addr;
	struct weft_region region;
	enum kind kind;

	fill(memory, len, 1);
	region = acquire(memory, len);
	kind = kind_of(&region);
	check(memory, len, 1);
	for (unsigned int i = 0; i < region.npieces; i++) {
		const struct weft_piece *piece = &region.pieces[i];
		size_t from = piece->va - (uintptr_t)memory;

		if (piece->off == WEFT_IN_PLACE)
			continue;
		assert_memory_equal(memfd_source_at(piece->off), memory + from, piece->len_bytes);
		memory[from] ^= 0xff;
		assert_int_equal(memfd_source_at(piece->off)[0], memory[from]);
		memfd_source_at(piece->off)[0] ^= 0xff;
	}
	check(memory, len, 1);
	weft_region_release(&region);
	check(memory, len, 1);
	fill(memory, len, 2);
	check(memory, len, 2);
	assert_int_equal(memfd_source_extents(), 0);
	assert_int_equal(memfd_source_resident(), 0);
	return kind;
}

static void *map(size_t len, int flags)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void test_heap(void **state)
{
	static const size_t lens[] = {3 * PAGE, MIB, 64 * MIB};
	void *memory = malloc(64);

	assert_int_equal(round_trip(memory, 64), IN_PLACE);
	free(memory);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		memory = malloc(lens[i]);
		assert_true(round_trip(memory, lens[i]) & POOLED);
		free(memory);
	}
}

static void test_mmap(void **state)
{
	void *memory = map(MIB, MAP_PRIVATE);

	assert_int_equal(round_trip(memory, MIB), POOLED);
	assert_int_equal(round_trip((uint8_t *)memory + 1, MIB - 1), MIXED);
	assert_int_equal(round_trip((uint8_t *)memory + 1, 2 * PAGE - 2), IN_PLACE);
	munmap(memory, MIB);
}

static void test_huge_pages(void **state)
{
	uint8_t *memory = map(8 * MIB, MAP_PRIVATE);

	madvise(memory, 8 * MIB, MADV_HUGEPAGE);
	assert_int_equal(round_trip(memory, 8 * MIB), POOLED);
	munmap(memory, 8 * MIB);
}

static void test_bss_and_stack(void **state)
{
	uint8_t stack[8 * PAGE];

	assert_int_equal(round_trip(bss, sizeof(bss)), IN_PLACE);
	assert_int_equal(round_trip(stack, sizeof(stack)), IN_PLACE);
}

static void *on_thread_stack(void *arg)
{
	static _Thread_local uint8_t local[4 * PAGE];
	uint8_t stack[8 * PAGE];

	assert_int_equal(round_trip(stack, sizeof(stack)), IN_PLACE);
	assert_int_equal(round_trip(local, sizeof(local)), IN_PLACE);
	return NULL;
}

static void test_thread_stack(void **state)
{
	pthread_t thread;

	on_thread_stack(NULL); /* the main thread's stack, too */
	assert_int_equal(pthread_create(&thread, NULL, on_thread_stack, NULL), 0);
	pthread_join(thread, NULL);
}

static void *on_stack_below(void *memory)
{
	return (void *)round_trip(memory, 16 * PAGE);
}

/* One mapping holds a thread's stack, with what glibc keeps at its top, and memory that may migrate. */
static void test_behind_stack(void **state)
{
	/* the sanitizers' own part of a stack needs some of it */
	uint8_t *stack = map(8 * MIB, MAP_PRIVATE);
	pthread_attr_t attr;
	pthread_t thread;
	void *kind;

	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, 4 * MIB);
	assert_int_equal(pthread_create(&thread, &attr, on_stack_below, stack + 4 * MIB), 0);
	pthread_join(thread, &kind);
	assert_int_equal((uintptr_t)kind, POOLED);
	pthread_attr_destroy(&attr);
	munmap(stack, 8 * MIB);
}

static uint8_t *below_main;

/* Maps two pages right below the main thread's thread-local storage, before others can be mapped there. */
static __attribute__((constructor)) void map_below_main(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t start, end, self = (uintptr_t)pthread_self();
	char line[512];

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= self && self < end)
			below_main =
				mmap((void *)(start - 2 * PAGE), 2 * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	fclose(maps);
}

/* To the kernel these pages are one mapping with the thread-local storage. */
static void test_below_main(void **state)
{
	if (below_main == MAP_FAILED) {
		print_message("something else lies below the main thread's storage\n");
		skip();
	}
	assert_int_equal(round_trip(below_main, 2 * PAGE), POOLED);
}

static void test_mappings_of_files(void **state)
{
	FILE *file = tmpfile();
	void *memory;

	assert_int_equal(ftruncate(fileno(file), MIB), 0);
	memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
	assert_int_equal(round_trip(memory, MIB), IN_PLACE);
	munmap(memory, MIB);
	memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	assert_int_equal(round_trip(memory, MIB), IN_PLACE);
	munmap(memory, MIB);
	fclose(file);
	memory = map(MIB, MAP_SHARED);
	assert_int_equal(round_trip(memory, MIB), IN_PLACE);
	munmap(memory, MIB);
}

static void test_hugetlb(void **state)
{
	void *memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (memory == MAP_FAILED)
		skip(); /* no huge pages are reserved here */
	assert_int_equal(round_trip(memory, 4 * MIB), IN_PLACE);
	munmap(memory, 4 * MIB);
}

static void *sleeper(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

/* Locked memory, without other threads and beside one; the kernel drops the lock as pages migrate. */
static void test_locked(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint8_t *memory = map(MIB, MAP_PRIVATE);
	pthread_t thread;

	assert_int_equal(mlock(memory, MIB), 0);
	assert_int_equal(round_trip(memory, MIB), POOLED);
	pthread_mutex_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, sleeper, &lock), 0);
	assert_int_equal(mlock(memory, MIB), 0);
	assert_int_equal(round_trip(memory, MIB), POOLED);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	munmap(memory, MIB);
}

static void test_arguments(void **state)
{
	uint8_t *memory = map(4 * PAGE, MAP_PRIVATE);
	struct weft_region region;

	assert_int_equal(weft_region_acquire(memory, 0, WEFT_REGION_MIGRATE, &region), -EINVAL);
	assert_int_equal(weft_region_acquire(memory, SIZE_MAX, WEFT_REGION_MIGRATE, &region),
			 -EINVAL);
	assert_int_equal(weft_region_acquire(NULL, 1, WEFT_REGION_MIGRATE, &region), -EFAULT);
	munmap(memory + 2 * PAGE, PAGE);
	assert_int_equal(weft_region_acquire(memory, 4 * PAGE, WEFT_REGION_MIGRATE, &region),
			 -EFAULT);
	assert_int_equal(weft_region_acquire(memory, 4 * PAGE, 0, &region), -EFAULT);
	assert_int_equal(weft_region_acquire(memory, PAGE, 0, &region), 0);
	assert_int_equal(kind_of(&region), IN_PLACE);
	weft_region_release(&region);
	assert_int_equal(weft_region_attach(&memfd_source), -EBUSY);
	munmap(memory, 4 * PAGE);
	assert_int_equal(memfd_source_extents(), 0);
}

/* Three overlapping regions are acquired and released in all orders. */
static void test_overlaps(void **state)
{
	static const struct {
		size_t from, to;
	} ranges[] = {
		{0, 10 * PAGE},
		{2 * PAGE + 7, 5 * PAGE + 9},
		{3 * PAGE, 14 * PAGE},
	};
	static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	uint8_t *memory = map(16 * PAGE, MAP_PRIVATE);

	for (int i = 0; i < 36; i++) {
		struct weft_region regions[3];

		fill(memory, 16 * PAGE, 3);
		for (int k = 0; k < 3; k++) {
			int which = orders[i / 6][k];

			regions[which] = acquire(memory + ranges[which].from,
						 ranges[which].to - ranges[which].from);
			check(memory, 16 * PAGE, 3);
		}
		for (int k = 0; k < 3; k++) {
			weft_region_release(&regions[orders[i % 6][k]]);
			check(memory, 16 * PAGE, 3);
		}
		assert_int_equal(memfd_source_extents(), 0);
	}
	munmap(memory, 16 * PAGE);
}

/* Random regions over one mapping; each is compared with the bytes at its addresses. */
static void test_many_overlaps(void **state)
{
	enum { PAGES = 32, REGIONS = 24, ROUNDS = 2000 };
	struct weft_region regions[REGIONS] = {0};
	uint8_t *memory = map(PAGES * PAGE, MAP_PRIVATE);

	srand(1);
	fill(memory, PAGES * PAGE, 4);
	for (int i = 0; i < ROUNDS; i++) {
		struct weft_region *region = &regions[rand() % REGIONS];
		size_t from = (size_t)rand() % (PAGES * PAGE - 1);
		size_t len = (size_t)rand() % (PAGES * PAGE - from) + 1;

		if (region->pieces)
			weft_region_release(region);
		else
			*region = acquire(memory + from, len);
		for (int k = 0; k < REGIONS; k++) {
			for (unsigned int p = 0; p < regions[k].npieces; p++) {
				const struct weft_piece *piece = &regions[k].pieces[p];

				if (piece->off != WEFT_IN_PLACE)
					assert_memory_equal((void *)piece->va,
							    memfd_source_at(piece->off),
							    piece->len_bytes);
			}
		}
	}
	for (int k = 0; k < REGIONS; k++) {
		if (regions[k].pieces)
			weft_region_release(&regions[k]);
	}
	check(memory, PAGES * PAGE, 4);
	munmap(memory, PAGES * PAGE);
	assert_int_equal(memfd_source_extents(), 0);
}

static void test_full_pool(void **state)
{
	uint8_t *memory = map(5 * PAGE, MAP_PRIVATE);

	mprotect(memory + 2 * PAGE, PAGE, PROT_READ); /* so that the memory is two runs */
	for (unsigned int n = 1; n <= 2; n++) {
		struct weft_region region;

		fill(memory, 2 * PAGE, 5);
		fill(memory + 3 * PAGE, 2 * PAGE, 5);
		memfd_source_fail_at(n);
		region = acquire(memory, 5 * PAGE);
		assert_int_equal(kind_of(&region), n == 1 ? IN_PLACE : MIXED);
		check(memory, 2 * PAGE, 5);
		check(memory + 3 * PAGE, 2 * PAGE, 5);
		weft_region_release(&region);
		check(memory, 2 * PAGE, 5);
		check(memory + 3 * PAGE, 2 * PAGE, 5);
		memfd_source_fail_at(0);
	}
	assert_int_equal(memfd_source_extents(), 0);
	munmap(memory, 5 * PAGE);
}

/* The program unmaps registered memory, maps other memory there and registers that. */
static void test_unmapped(void **state)
{
	uint8_t *memory = map(8 * PAGE, MAP_PRIVATE);
	struct weft_region old = acquire(memory, 8 * PAGE), new;

	munmap(memory, 8 * PAGE);
	weft_region_release(&old);
	assert_int_equal(memfd_source_extents(), 0);

	memory = map(8 * PAGE, MAP_PRIVATE);
	old = acquire(memory, 8 * PAGE);
	assert_ptr_equal(mmap(memory + PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 memory + PAGE);
	fill(memory, 8 * PAGE, 6);
	new = acquire(memory, 8 * PAGE);
	assert_int_equal(new.npieces, 3);
	assert_int_equal(kind_of(&new), POOLED);
	assert_int_equal(memfd_source_extents(), 2);
	check(memory, 8 * PAGE, 6);
	weft_region_release(&old);
	check(memory, 8 * PAGE, 6);
	for (int i = 0; i < 3; i++)
		assert_memory_equal((void *)new.pieces[i].va, memfd_source_at(new.pieces[i].off),
				    new.pieces[i].len_bytes);
	weft_region_release(&new);
	check(memory, 8 * PAGE, 6);
	assert_int_equal(memfd_source_extents(), 0);
	munmap(memory, 8 * PAGE);
}

/* As long as there is something that may pin pages unseen, memory stays in place. */
static enum kind kind_now(void)
{
	uint8_t *memory = map(2 * PAGE, MAP_PRIVATE);
	enum kind kind = round_trip(memory, 2 * PAGE);

	munmap(memory, 2 * PAGE);
	return kind;
}

static void test_aio(void **state)
{
	unsigned long context = 0;

	if (syscall(SYS_io_setup, 1, &context))
		skip();
	assert_int_equal(kind_now(), IN_PLACE);
	assert_int_equal(syscall(SYS_io_destroy, context), 0);
	assert_int_equal(kind_now(), POOLED);
}

static void test_cuda(void **state)
{
	void *library = dlopen(FAKE_CUDA, RTLD_NOW);

	assert_non_null(library);
	assert_int_equal(kind_now(), IN_PLACE);
	dlclose(library);
	assert_int_equal(kind_now(), POOLED);
}

/* A peer that stopped in the middle of a copy goes on after the deregistration. */
static void test_late_peer(void **state)
{
	uint8_t *memory = map(4 * PAGE, MAP_PRIVATE);
	struct weft_region region = acquire(memory, 4 * PAGE), next;
	uint64_t off = region.pieces[0].off;

	fill(memory, 4 * PAGE, 9);
	weft_region_quarantine(&region);
	weft_region_release(&region);
	check(memory, 4 * PAGE, 9);
	next = acquire(memory, 4 * PAGE);
	assert_int_equal(memfd_source_extents(), 2);
	memset(memfd_source_at(off), 0, 4 * PAGE);
	check(memory, 4 * PAGE, 9);
	memfd_source_go_on();
	assert_int_equal(memfd_source_extents(), 1);
	weft_region_release(&next);
	check(memory, 4 * PAGE, 9);
	assert_int_equal(memfd_source_extents(), 0);
	munmap(memory, 4 * PAGE);
}

/* Each pooled piece has the same bytes as the program's memory. */
static void check_pieces(const struct weft_region *region)
{
	for (unsigned int i = 0; i < region->npieces; i++) {
		const struct weft_piece *piece = &region->pieces[i];

		if (piece->off != WEFT_IN_PLACE)
			assert_memory_equal(memfd_source_at(piece->off), (void *)piece->va,
					    piece->len_bytes);
	}
}

/* Rehomes all regions, out of the suspect's reach. */
static void rehome(struct weft_region *region, struct weft_region *other)
{
	assert_true(weft_region_any_exposed());
	weft_region_rehome();
	assert_true(weft_region_follow(region));
	if (other)
		assert_true(weft_region_follow(other));
	assert_false(weft_region_any_exposed());
	assert_false(weft_region_follow(region));
	check_pieces(region);
}

/* Regions that stay leave their extent to a peer that stopped in the middle of a copy, and share the new one
 * as they shared the old one. */
static void test_rehome(void **state)
{
	uint8_t *memory = map(8 * PAGE, MAP_PRIVATE);
	struct weft_region whole = acquire(memory + 8, 8 * PAGE - 16), part;
	uint64_t off = whole.pieces[1].off;

	fill(memory, 8 * PAGE, 9);
	part = acquire(memory + 2 * PAGE, 2 * PAGE);
	assert_false(weft_region_any_exposed());
	weft_region_expose(1);
	rehome(&whole, &part);
	assert_int_equal(kind_of(&whole), MIXED);
	assert_int_equal(kind_of(&part), POOLED);
	assert_int_equal(part.pieces[0].off, whole.pieces[1].off + PAGE);
	memset(memfd_source_at(off), 0, 6 * PAGE);
	check(memory, 8 * PAGE, 9);
	check_pieces(&part);
	assert_int_equal(memfd_source_extents(), 2);
	memfd_source_go_on();
	assert_int_equal(memfd_source_extents(), 1);
	weft_region_release(&whole);
	check_pieces(&part);
	weft_region_release(&part);
	check(memory, 8 * PAGE, 9);
	assert_int_equal(memfd_source_extents(), 0);
	munmap(memory, 8 * PAGE);
}

/* The part of an extent that is still in use after a region's end is rehomed into the pool if it is one run,
 * else in place. */
static void test_rehome_rest(void **state)
{
	uint8_t *memory = map(8 * PAGE, MAP_PRIVATE);

	fill(memory, 8 * PAGE, 9);
	for (int runs = 1; runs <= 2; runs++) {
		struct weft_region whole = acquire(memory, 8 * PAGE);
		struct weft_region rest = acquire(memory + 5 * PAGE, 2 * PAGE), other = {0};
		uint64_t off = whole.pieces[0].off;

		if (runs == 2)
			other = acquire(memory + PAGE, PAGE);
		weft_region_quarantine(&whole);
		weft_region_release(&whole);
		rehome(&rest, runs == 2 ? &other : NULL);
		assert_int_equal(kind_of(&rest), runs == 1 ? POOLED : IN_PLACE);
		memset(memfd_source_at(off), 0, 8 * PAGE);
		check(memory, 8 * PAGE, 9);
		memfd_source_go_on();
		weft_region_release(&rest);
		if (runs == 2)
			weft_region_release(&other);
		assert_int_equal(memfd_source_extents(), 0);
	}
	check(memory, 8 * PAGE, 9);
	munmap(memory, 8 * PAGE);
}

/* Pages are rehomed in place when they may not migrate, or when the pool has no room. */
static void test_rehome_in_place(void **state)
{
	uint8_t *memory = map(4 * PAGE, MAP_PRIVATE);

	for (int full = 0; full < 2; full++) {
		struct weft_region region = acquire(memory, 4 * PAGE);
		uint64_t off = region.pieces[0].off;

		assert_int_equal(kind_of(&region), POOLED);
		fill(memory, 4 * PAGE, 9);
		weft_region_expose(1);
		if (full)
			memfd_source_fail_at(1);
		else
			weft_region_hold(true);
		rehome(&region, NULL);
		memfd_source_fail_at(0);
		if (!full)
			weft_region_hold(false);
		assert_int_equal(kind_of(&region), IN_PLACE);
		memset(memfd_source_at(off), 0, 4 * PAGE);
		check(memory, 4 * PAGE, 9);
		memfd_source_go_on();
		weft_region_release(&region);
		assert_int_equal(memfd_source_extents(), 0);
	}
	check(memory, 4 * PAGE, 9);
	munmap(memory, 4 * PAGE);
}

/* A full pool takes back memory that the program has unmapped without deregistering it. */
static void test_collection(void **state)
{
	uint8_t *memory = map(8 * PAGE, MAP_PRIVATE), *target = map(2 * PAGE, MAP_PRIVATE);
	struct weft_region kept = acquire(memory, PAGE);
	struct weft_region gone = acquire(memory + 2 * PAGE, 2 * PAGE);
	struct weft_region moved = acquire(memory + 5 * PAGE, PAGE), new;
	unsigned int revoked = memfd_source_revoked();

	memory[0] = 1;
	memory[5 * PAGE] = 2;
	munmap(memory + 2 * PAGE, 2 * PAGE);
	assert_ptr_equal(
		mremap(memory + 5 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target),
		target);
	memfd_source_limit(4 * PAGE);
	new = acquire(target + PAGE, PAGE);
	assert_int_equal(kind_of(&new), POOLED);
	assert_int_equal(memfd_source_revoked() - revoked, 1);
	assert_int_equal(memfd_source_extents(), 3);
	memfd_source_limit(0);
	weft_region_release(&gone);
	weft_region_release(&kept);
	weft_region_release(&moved);
	weft_region_release(&new);
	assert_int_equal(memory[0], 1);
	assert_int_equal(target[0], 2);
	assert_int_equal(memfd_source_extents(), 0);
	munmap(memory, 2 * PAGE);
	munmap(memory + 4 * PAGE, 4 * PAGE);
	munmap(target, 2 * PAGE);
}

static bool child_called;

static void on_fork_child(void)
{
	child_called = true;
}

static void test_fork(void **state)
{
	uint8_t *memory = map(MIB, MAP_PRIVATE);
	struct weft_region region;
	int status;
	pid_t pid;

	fill(memory, MIB, 7);
	region = acquire(memory, MIB);
	mprotect(memory + PAGE, PAGE, PROT_READ);
	weft_region_on_fork_child(on_fork_child);
	pid = fork();
	if (!pid) {
		check(memory, MIB, 7);
		if (!child_called)
			_exit(1);
		mprotect(memory + PAGE, PAGE, PROT_READ | PROT_WRITE);
		memset(memory, 0, MIB);
		weft_region_release(&region);
		if (weft_region_acquire(memory, MIB, WEFT_REGION_MIGRATE, &region) ||
		    region.npieces != 1)
			_exit(2);
		weft_region_release(&region);
		munmap(memory, MIB);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	check(memory, MIB, 7);
	mprotect(memory + PAGE, PAGE, PROT_READ | PROT_WRITE);
	memory[100 * PAGE] ^= 1;
	assert_memory_equal(memory, memfd_source_at(region.pieces[0].off), MIB);
	memory[100 * PAGE] ^= 1;
	weft_region_release(&region);
	check(memory, MIB, 7);
	assert_int_equal(memfd_source_extents(), 0);
	munmap(memory, MIB);
}

static void test_detach(void **state)
{
	uint8_t *memory = map(MIB, MAP_PRIVATE);
	struct weft_region region;

	fill(memory, MIB, 8);
	region = acquire(memory, MIB);
	weft_region_detach();
	check(memory, MIB, 8);
	weft_region_release(&region);
	check(memory, MIB, 8);
	munmap(memory, MIB);
}

static int setup(void **state)
{
	memfd_source_attach();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_mmap),
		cmocka_unit_test(test_huge_pages),
		cmocka_unit_test(test_bss_and_stack),
		cmocka_unit_test(test_thread_stack),
		cmocka_unit_test(test_behind_stack),
		cmocka_unit_test(test_below_main),
		cmocka_unit_test(test_mappings_of_files),
		cmocka_unit_test(test_hugetlb),
		cmocka_unit_test(test_locked),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_many_overlaps),
		cmocka_unit_test(test_full_pool),
		cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_aio),
		cmocka_unit_test(test_cuda),
		cmocka_unit_test(test_late_peer),
		cmocka_unit_test(test_rehome),
		cmocka_unit_test(test_rehome_rest),
		cmocka_unit_test(test_rehome_in_place),
		cmocka_unit_test(test_collection),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_detach),
	};

	return cmocka_run_group_tests_name("region", tests, setup, NULL);
}
