/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The copy by string instructions, which each message takes: every length near its bounds, and every
 * alignment of both ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "process/copy.h"

#define ROOM  (20u << 10)
#define ABOUT 70u /* a cache line and a little more */
#define EDGE  64u /* bytes on both sides that must not change */

static uint8_t from[ROOM], to[ROOM], wanted[ROOM];

static void fill(uint8_t *at, unsigned int seed)
{
	for (unsigned int i = 0; i < ROOM; i++)
		at[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

static void copy(unsigned int to_off, unsigned int from_off, size_t n)
{
	fill(to, 7);
	fill(wanted, 7);
	memcpy(wanted + EDGE + to_off, from + EDGE + from_off, n);
	weft_copy_body(to + EDGE + to_off, from + EDGE + from_off, n);
	assert_memory_equal(to, wanted, ROOM);
}

static void test_lengths(void **state)
{
	static const size_t about[] = {ABOUT, 2048, 4096, 8192, 16384};

	fill(from, 1);
	for (size_t i = 0; i < sizeof(about) / sizeof(about[0]); i++)
		for (size_t n = about[i] - ABOUT; n <= about[i] + ABOUT; n++)
			copy((unsigned int)(n % 64), (unsigned int)(n % 13), n);
}

static void test_places(void **state)
{
	fill(from, 1);
	for (unsigned int to_off = 0; to_off <= 64; to_off++)
		for (unsigned int from_off = 0; from_off <= 64; from_off += 7)
			copy(to_off, from_off, 2100);
}

/* Overlapping ranges are copied as memmove does it. */
static void test_overlap(void **state)
{
	static const unsigned int by[] = {0, 1, 8, 63, 64, 65, 4095, 4096, 4097};

	for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		fill(to, 1);
		fill(wanted, 1);
		memmove(wanted + EDGE + by[i], wanted + EDGE, 4096);
		weft_copy_body(to + EDGE + by[i], to + EDGE, 4096);
		assert_memory_equal(to, wanted, ROOM);
		memmove(wanted + EDGE, wanted + EDGE + by[i], 4096);
		weft_copy_body(to + EDGE, to + EDGE + by[i], 4096);
		assert_memory_equal(to, wanted, ROOM);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_overlap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
