/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Pages that cannot migrate just now, or only some of them: nothing is lost, in whatever order regions are
 * made and deregistered, and all pages are home in the end. Linked with the two functions that migrate
 * wrapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"
#include "pool/clock.h"
#include "migrate/migrate.h"

#define PAGE 4096ul
#define LEN  (8 * PAGE)

size_t __real_weft_migrate_in(const struct weft_migrate *pages);
size_t __real_weft_migrate_out(const struct weft_migrate *pages);
size_t __wrap_weft_migrate_in(const struct weft_migrate *pages);
size_t __wrap_weft_migrate_out(const struct weft_migrate *pages);

static unsigned int outs;			       /* calls of weft_migrate_out */
static size_t in_most = SIZE_MAX, out_most = SIZE_MAX; /* the most bytes that a call migrates */

static struct weft_migrate cut(const struct weft_migrate *pages, size_t most)
{
	struct weft_migrate part = *pages;

	part.len_bytes = part.len_bytes < most ? part.len_bytes : most;
	return part;
}

size_t __wrap_weft_migrate_in(const struct weft_migrate *pages)
{
	struct weft_migrate part = cut(pages, in_most);

	return part.len_bytes ? __real_weft_migrate_in(&part) : 0;
}

size_t __wrap_weft_migrate_out(const struct weft_migrate *pages)
{
	struct weft_migrate part = cut(pages, out_most);

	outs++;
	return part.len_bytes ? __real_weft_migrate_out(&part) : 0;
}

static uint8_t *memory;

static struct weft_region acquire(void *addr, size_t len)
{
	struct weft_region region;

	assert_int_equal(weft_region_acquire(addr, len, WEFT_REGION_MIGRATE, &region), 0);
	return region;
}

static void check(void)
{
	for (size_t i = 0; i < LEN; i++)
		if (memory[i] != (uint8_t)(i * 31 + i / PAGE))
			fail_msg("byte %zu is wrong", i);
}

static void check_pieces(const struct weft_region *region)
{
	for (unsigned int i = 0; i < region->npieces; i++)
		if (region->pieces[i].off != WEFT_IN_PLACE)
			assert_memory_equal(memfd_source_at(region->pieces[i].off),
					    (void *)region->pieces[i].va,
					    region->pieces[i].len_bytes);
}

/* Brings some pages home, at a time when each next try is due. */
static void bring_some_home(void)
{
	static uint64_t later_ns;

	later_ns += 2000000000;
	weft_region_bring_home(weft_clock_now_ns() + later_ns);
}

static void bring_home(void)
{
	for (int i = 0; i < 100 && weft_region_is_away(); i++)
		bring_some_home();
	assert_false(weft_region_is_away());
	check();
	assert_int_equal(memfd_source_extents(), 0);
	assert_int_equal(madvise(memory, LEN, MADV_DONTNEED), 0);
	assert_int_equal(memory[0] | memory[LEN - 1], 0);
}

/* At each try none, one, or some of the pages come home. */
static void test_not_back(void **state)
{
	for (size_t most = 0; most < 4 * PAGE; most += PAGE) {
		struct weft_region region = acquire(memory, LEN);

		out_most = most;
		weft_region_release(&region);
		assert_true(weft_region_is_away());
		check();
		/* a try that brings nothing, or some pages */
		bring_some_home();
		check();
		out_most = SIZE_MAX;
		bring_home();
		for (size_t i = 0; i < LEN; i++)
			memory[i] = (uint8_t)(i * 31 + i / PAGE);
	}
}

/* A region that covers pages that are away has them at once, and those of its pages that came home in between
 * migrate again. */
static void test_again(void **state)
{
	for (size_t most = 0; most < 3 * PAGE; most += PAGE) {
		struct weft_region region = acquire(memory, LEN), part;
		uint64_t off = region.pieces[0].off;

		out_most = most;
		weft_region_release(&region);
		part = acquire(memory + 5 * PAGE, PAGE);
		assert_int_equal(part.pieces[0].off, off + 5 * PAGE);
		check_pieces(&part);
		region = acquire(memory + 100, LEN - 200);
		check_pieces(&region);
		check();
		weft_region_release(&part);
		check_pieces(&region);
		weft_region_release(&region);
		check();
		out_most = SIZE_MAX;
		bring_home();
		for (size_t i = 0; i < LEN; i++)
			memory[i] = (uint8_t)(i * 31 + i / PAGE);
	}
}

static void test_not_in(void **state)
{
	for (size_t most = 0; most < 4 * PAGE; most += PAGE) {
		struct weft_region region, other;

		in_most = most;
		region = acquire(memory, LEN);
		assert_int_equal(region.npieces, most ? 2 : 1);
		assert_int_equal(region.pieces[region.npieces - 1].off, WEFT_IN_PLACE);
		check_pieces(&region);
		check();
		in_most = SIZE_MAX;
		other = acquire(memory, LEN);
		assert_int_equal(other.npieces, region.npieces);
		weft_region_release(&region);
		check_pieces(&other);
		weft_region_release(&other);
		check();
		assert_int_equal(memfd_source_extents(), 0);
	}
}

/* The first try is soon, later ones are ever farther apart, and one that brings pages begins anew. */
static void test_tries(void **state)
{
	struct weft_region region = acquire(memory, LEN);
	uint64_t now_ns, due_ns, wait_ns = 0;

	out_most = 0;
	weft_region_release(&region);
	now_ns = weft_clock_now_ns();
	due_ns = weft_region_bring_home(now_ns);
	assert_in_range(due_ns, now_ns, now_ns + 20000000);
	for (int i = 0; i < 20; i++) {
		uint64_t next_ns = weft_region_bring_home(due_ns);

		assert_true(next_ns - due_ns >= wait_ns);
		wait_ns = next_ns - due_ns;
		due_ns = next_ns;
	}
	assert_in_range(wait_ns, 500000000, 2000000000);
	out_most = SIZE_MAX;
	assert_true(weft_region_bring_home(due_ns) == UINT64_MAX);
	check();
	assert_int_equal(memfd_source_extents(), 0);
}

static void test_fork(void **state)
{
	struct weft_region region = acquire(memory, LEN);
	int status;
	pid_t pid;

	out_most = 3 * PAGE;
	weft_region_release(&region);
	out_most = 0;
	pid = fork();
	if (!pid) {
		check();
		/* in the child nothing is away: it has private copies */
		if (weft_region_is_away() || madvise(memory, LEN, MADV_DONTNEED) || memory[LEN - 1])
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	check();
	out_most = SIZE_MAX;
	bring_home();
	for (size_t i = 0; i < LEN; i++)
		memory[i] = (uint8_t)(i * 31 + i / PAGE);
}

/* A thread that cannot be parked does not delay each deregistration anew. */
static void test_few_tries(void **state)
{
	struct weft_region region[LEN / PAGE];

	for (size_t i = 0; i < LEN / PAGE; i++)
		region[i] = acquire(memory + i * PAGE, PAGE);
	outs = 0;
	out_most = 0;
	for (size_t i = 0; i < LEN / PAGE; i++)
		weft_region_release(&region[i]);
	assert_in_range(outs, 1, 3);
	check();
	out_most = SIZE_MAX;
	bring_home();
	for (size_t i = 0; i < LEN; i++)
		memory[i] = (uint8_t)(i * 31 + i / PAGE);
}

static void test_unmapped(void **state)
{
	uint8_t *gone = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct weft_region region = acquire(gone, LEN);

	out_most = 0;
	weft_region_release(&region);
	munmap(gone, LEN);
	assert_true(weft_region_is_away());
	bring_some_home();
	assert_false(weft_region_is_away());
	assert_int_equal(memfd_source_extents(), 0);
	out_most = SIZE_MAX;
}

/* Regions are rehomed, but only a part of their pages can leave the extent. */
static void test_rehome(void **state)
{
	for (size_t most = 0; most < 4 * PAGE; most += PAGE) {
		struct weft_region region = acquire(memory, LEN), again;

		weft_region_expose(1);
		in_most = most;
		out_most = most ? SIZE_MAX : PAGE;
		weft_region_rehome();
		assert_true(weft_region_follow(&region));
		assert_int_equal(region.pieces[0].off, WEFT_IN_PLACE);
		check();
		in_most = out_most = SIZE_MAX;
		again = acquire(memory, LEN);
		check_pieces(&again);
		weft_region_release(&region);
		check_pieces(&again);
		weft_region_release(&again);
		check();
		memfd_source_go_on();
		assert_int_equal(memfd_source_extents(), 0);
	}
}

static void test_detach(void **state)
{
	struct weft_region region = acquire(memory, LEN), left = acquire(memory, PAGE);

	out_most = 0;
	weft_region_release(&region);
	assert_false(weft_region_detach());
	assert_int_equal(memfd_source_extents(), 1);
	check();
	out_most = SIZE_MAX;
	assert_true(weft_region_detach());
	check();
	weft_region_release(&left);
	check();
}

static int setup(void **state)
{
	memfd_source_attach();
	memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < LEN; i++)
		memory[i] = (uint8_t)(i * 31 + i / PAGE);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_back), cmocka_unit_test(test_again),
		cmocka_unit_test(test_not_in),	 cmocka_unit_test(test_tries),
		cmocka_unit_test(test_fork),	 cmocka_unit_test(test_few_tries),
		cmocka_unit_test(test_unmapped), cmocka_unit_test(test_rehome),
		cmocka_unit_test(test_detach),
	};

	return cmocka_run_group_tests_name("away", tests, setup, NULL);
}
