/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The card's arithmetic beside that which goes bit by bit: of short runs by its table, of longer ones by products, of
 * the longest by products of 64 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../random.h"
#include "card/math.h"
#include "link/fold.h"

#define POLYNOMIAL 0xedb88320u
#define MOST	   5000u

static uint64_t state = 1;

static uint32_t crc_by_bits(uint32_t crc, const uint8_t *at, size_t bytes)
{
	for (crc = ~crc; bytes; bytes--) {
		crc ^= *at++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
	}
	return ~crc;
}

static void check_run(const uint8_t *at, size_t bytes)
{
	uint32_t begin = (uint32_t)splitmix64(&state), expected = crc_by_bits(begin, at, bytes);

	assert_int_equal(weft_card_math.crc32(begin, at, bytes), expected);
}

/* Each length to some lines, at each address modulo 16; then longer ones. */
static void crc_is_right(void **unused)
{
	static uint8_t bytes[MOST + 16];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)splitmix64(&state);
	for (size_t n = 0; n <= 600; n++)
		for (size_t from = 0; from < 16; from++)
			check_run(bytes + from, n);
	for (int i = 0; i < 300; i++)
		check_run(bytes + splitmix64(&state) % 16, splitmix64(&state) % MOST);
	assert_int_equal(weft_card_math.crc32(0, (const uint8_t *)"123456789", 9), 0xcbf43926);
}

static void crc_is_right_without_wide_products(void **unused)
{
	weft_folds_wide = false;
	crc_is_right(unused);
}

static void products_are_right(void **unused)
{
	for (int i = 0; i < 10000; i++) {
		uint32_t a = (uint32_t)splitmix64(&state) >> splitmix64(&state) % 32,
			 b = (uint32_t)splitmix64(&state) >> splitmix64(&state) % 32;
		uint64_t product = 0;

		for (int bit = 0; bit < 32; bit++)
			product ^= b >> bit & 1 ? (uint64_t)a << bit : 0;
		assert_true(weft_card_math.clmul(a, b) == product);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_is_right),
		cmocka_unit_test(crc_is_right_without_wide_products),
		cmocka_unit_test(products_are_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
