/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The card's CRC-32C beside that of a table: of runs shorter and longer than what is folded, than what is summed in parts, and than what is done both ways. */
#include "cmocka_all.h"

#include "../random.h"
#include "crc.h"
#include "link/crc32c.h"
#include "link/fold.h"

#define MOST 9000u

static uint64_t state = 1;

static void check_run(const uint8_t *at, size_t bytes)
{
	uint32_t begin = (uint32_t)splitmix64(&state);

	assert_int_equal(weft_crc32c(begin, at, bytes), crc32c(begin, at, bytes));
}

static void sums_are_right(void **unused)
{
	static uint8_t bytes[MOST + 16];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)splitmix64(&state);
	for (size_t n = 0; n <= 600; n++)
		for (size_t from = 0; from < 3; from++)
			check_run(bytes + from, n);
	for (size_t n = 990; n <= 1030; n++) /* one block of three parts, more and less */
		for (size_t from = 0; from < 8; from++)
			check_run(bytes + from, n);
	for (size_t n = 4000; n <= 4090; n++) /* both ways at once, and just not */
		for (size_t from = 0; from < 8; from++)
			check_run(bytes + from, n);
	for (int i = 0; i < 500; i++)
		check_run(bytes + splitmix64(&state) % 16, splitmix64(&state) % MOST);
	check_run(bytes, 4096);
	assert_int_equal(weft_crc32c(0, "123456789", 9), 0xe3069283u);
}

static void sums_are_right_with_half_folds(void **unused)
{
	weft_folds_wide = false;
	sums_are_right(unused);
}

static void sums_are_right_without_folds(void **unused)
{
	weft_folds_wide = weft_folds_half = false;
	sums_are_right(unused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_right),
		cmocka_unit_test(sums_are_right_with_half_folds),
		cmocka_unit_test(sums_are_right_without_folds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
