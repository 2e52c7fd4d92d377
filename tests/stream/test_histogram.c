/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Quantiles against those of the sorted values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "stream/histogram.h"

#define VALUES 20000u

static struct weft_histogram h, more;
static uint64_t value[VALUES];

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void check(uint32_t count)
{
	static const uint32_t parts[] = {0,	 1,	 250000, 500000, 900000,
					 990000, 999000, 999999, 1000000};

	qsort(value, count, sizeof(*value), compare);
	assert_int_equal(h.count, count);
	assert_int_equal(h.min, value[0]);
	assert_int_equal(h.max, value[count - 1]);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		uint64_t rank = ((uint64_t)count * parts[i] + 999999) / 1000000;
		uint64_t exact = value[rank ? rank - 1 : 0],
			 said = weft_histogram_quantile(&h, parts[i]);

		assert_true(said >= exact && said - exact <= exact / 1024);
	}
}

static void quantiles(void **state)
{
	uint64_t seed = 1;

	for (unsigned int bits = 1; bits <= 64; bits++) {
		uint32_t count = 1 + (uint32_t)(splitmix64(&seed) % VALUES);

		memset(&h, 0, sizeof(h));
		for (uint32_t i = 0; i < count; i++) {
			value[i] = splitmix64(&seed) >> (64 - bits) >> splitmix64(&seed) % bits;
			weft_histogram_add(&h, value[i]);
		}
		check(count);
	}
}

static void merged(void **state)
{
	uint64_t seed = 2;

	memset(&h, 0, sizeof(h));
	memset(&more, 0, sizeof(more));
	weft_histogram_merge(&h, &more); /* nothing */
	assert_int_equal(weft_histogram_quantile(&h, 500000), 0);
	for (uint32_t i = 0; i < VALUES; i++) {
		value[i] = 5000 + splitmix64(&seed) % 1000000;
		weft_histogram_add(i % 3 ? &h : &more, value[i]);
	}
	weft_histogram_merge(&h, &more);
	check(VALUES);
}

/* Each step of the histogram begins behind the one before, and holds its own first value. */
static void steps(void **state)
{
	for (uint32_t i = 0; i < WEFT_HISTOGRAM_STEPS; i++) {
		uint64_t from = weft_histogram_from(i);

		assert_int_equal(weft_histogram_step(from), i);
		if (i) {
			assert_true(from > weft_histogram_from(i - 1));
			assert_int_equal(weft_histogram_step(from - 1), i - 1);
		}
	}
	assert_int_equal(weft_histogram_step(UINT64_MAX), WEFT_HISTOGRAM_STEPS - 1);
	assert_int_equal(weft_histogram_step(2047), 2047);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles),
		cmocka_unit_test(merged),
		cmocka_unit_test(steps),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
