/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* APEphy: 8b10b and 64b66b to the bit, and lanes that start at any bit, in any order, with any
 * skew. */
#include <stdio.h>
#include <string.h>

#include "../random.h"
#include "cmocka_all.h"
#include "wire/ape/lanes.h"

#define SYMBOLS 10000000u

static struct weft_ape_b8b10 table;

static unsigned int bits_of(const char *bits)
{
	unsigned int value = 0;

	for (unsigned int i = 0; bits[i]; i++)
		value |= (unsigned int)(bits[i] == '1') << i;
	return value;
}

/* ---- 8b10b ---- */

static void test_given_symbols(void **state)
{
	static const struct {
		uint16_t value;
		bool plus;
		const char *bits;
	} given[] = {
		{0, false, "1001110100"},
		{5 << 5 | 21, false, "1010101010"},
		{2 << 5 | 10, false, "0101010101"},
		{7 << 5 | 17, false, "1000110111"},
		{7 << 5 | 11, true, "1101001000"},
		{WEFT_APE_K(28, 0), false, "0011110100"},
		{WEFT_APE_K(28, 1), false, "0011111001"},
		{WEFT_APE_K(28, 2), false, "0011110101"},
		{WEFT_APE_K(28, 3), false, "0011110011"},
		{WEFT_APE_K(28, 4), false, "0011110010"},
		{WEFT_APE_K(28, 5), false, "0011111010"},
		{WEFT_APE_K(28, 6), false, "0011110110"},
		{WEFT_APE_K(28, 7), false, "0011111000"},
		{WEFT_APE_K(23, 7), false, "1110101000"},
		{WEFT_APE_K(27, 7), false, "1101101000"},
		{WEFT_APE_K(29, 7), false, "1011101000"},
		{WEFT_APE_K(30, 7), false, "0111101000"},
		{WEFT_APE_K(28, 5), true, "1100000101"},
		{WEFT_APE_K(30, 7), true, "1000010111"},
		/* The exceptions of the code's two halves. */
		{7, false, "1110001011"},
		{7, true, "0001110100"},
		{3 << 5 | 1, true, "1000101100"},
		{3 << 5 | 1, false, "0111010011"},
		{7 << 5 | 18, false, "0100110111"},
		{7 << 5 | 20, false, "0010110111"},
		{7 << 5 | 13, true, "1011001000"},
		{7 << 5 | 14, true, "0111001000"},
		{7 << 5 | 16, false, "0110110001"},
		{7 << 5 | 16, true, "1001001110"},
	};
	unsigned int codes = 0;

	for (unsigned int i = 0; i < sizeof(given) / sizeof(*given); i++) {
		bool plus = given[i].plus;

		assert_int_equal(weft_ape_b8b10_encode(&table, given[i].value, &plus),
				 bits_of(given[i].bits));
	}
	/* Every value at both disparities comes back, and there are as many codes as 8b10b has. */
	for (unsigned int value = 0; value < WEFT_APE_VALUES; value++)
		for (unsigned int p = 0; p < 2; p++) {
			bool plus = p, back = p;
			uint16_t symbol, found;

			if (table.code[p][value] == WEFT_APE_NO_VALUE)
				continue;
			symbol = weft_ape_b8b10_encode(&table, value, &plus);
			assert_int_equal(weft_ape_b8b10_decode(&table, symbol, &back, &found),
					 WEFT_APE_SYMBOL_GOOD);
			assert_int_equal(found, value);
			assert_int_equal(back, plus);
		}
	for (unsigned int symbol = 0; symbol < 1024; symbol++)
		codes += table.value[0][symbol] < WEFT_APE_VALUES ||
			 table.value[1][symbol] < WEFT_APE_VALUES;
	assert_int_equal(codes, 464);
}

static unsigned int payload(unsigned int kind, unsigned int i, uint64_t *seed)
{
	if (kind == 0)
		return splitmix64(seed) & 255;
	return kind == 1 ? 0 : WEFT_APE_MAGIC >> i % 8 * 8 & 255;
}

static void test_line_of_8b10b(void **state)
{
	for (unsigned int kind = 0; kind < 3; kind++) {
		unsigned int run = 0, last = 2, longest = 0, commas = 0, window = 0;
		int sum = 0, most = 0, least = 0;
		uint64_t seed = 1;
		bool plus = false;

		for (unsigned int i = 0; i < SYMBOLS; i++) {
			unsigned int symbol =
				weft_ape_b8b10_encode(&table, payload(kind, i, &seed), &plus);

			for (unsigned int b = 0; b < 10; b++) {
				unsigned int bit = symbol >> b & 1;

				run = bit == last ? run + 1 : 1;
				last = bit;
				longest = run > longest ? run : longest;
				sum += bit ? 1 : -1;
				most = sum > most ? sum : most;
				least = sum < least ? sum : least;
				window = (window << 1 | bit) & 127;
				commas += i && (window == 0x1f || window == 0x60);
			}
		}
		/* The running disparity begins at −1, and stays within ±3 of the middle. */
		assert_in_range(longest, 1, 5);
		assert_true(most - 1 <= 3 && least - 1 >= -3);
		assert_int_equal(commas, 0);
	}
}

/* Every flip in random symbols: seen in its own symbol, in a later one, or never. */
static void test_flips_of_8b10b(void **state)
{
	unsigned int at_once = 0, later = 0, never = 0;
	uint64_t seed = 2;

	for (unsigned int round = 0; round < 20000; round++) {
		bool plus = splitmix64(&seed) & 1, there = plus;
		uint16_t symbol[40], value;
		unsigned int flipped = round % 10, seen = 40;

		for (unsigned int i = 0; i < 40; i++)
			symbol[i] = weft_ape_b8b10_encode(&table, splitmix64(&seed) & 255, &plus);
		symbol[0] ^= 1u << flipped;
		for (unsigned int i = 0; i < 40 && seen == 40; i++)
			if (weft_ape_b8b10_decode(&table, symbol[i], &there, &value) !=
			    WEFT_APE_SYMBOL_GOOD)
				seen = i;
		at_once += !seen;
		later += seen && seen < 40;
		never += seen == 40;
	}
	printf("# 8b10b, single flips: %.1f %% seen at once, %.1f %% within 40 symbols, %.2f %% "
	       "not\n",
	       at_once / 200., later / 200., never / 200.);
	assert_true(at_once * 3 < 20000 * 2 && never < 20);
}

/* ---- 64b66b ---- */

static void test_scrambler(void **state)
{
	uint64_t seed = 3, there = splitmix64(&seed), here = 0, ones = 0;
	struct weft_ape_block_lock lock = {0};

	/* By its definition a bit that is sent is the exclusive or of the data bit and those sent 39 and 58 before it. */
	uint64_t line[2], at = there, block = 0x0123456789abcdefull;

	line[0] = weft_ape_scramble(&at, block);
	for (unsigned int i = 0; i < 64; i++) {
		unsigned int b39 = i >= 39 ? line[0] >> (i - 39) & 1 : there >> (38 - i) & 1;
		unsigned int b58 = i >= 58 ? line[0] >> (i - 58) & 1 : there >> (57 - i) & 1;

		assert_int_equal(line[0] >> i & 1, (block >> i & 1) ^ b39 ^ b58);
	}
	/* A descrambler that began with anything is right after one block. */
	weft_ape_descramble(&here, line[0]);
	for (unsigned int kind = 0; kind < 3; kind++)
		for (unsigned int i = 0; i < SYMBOLS / 8; i++) {
			uint64_t word = kind == 0   ? splitmix64(&seed)
					: kind == 1 ? 0
						    : WEFT_APE_MAGIC;
			uint64_t sent = weft_ape_scramble(&at, word);

			assert_int_equal(weft_ape_descramble(&here, sent), word);
			ones += __builtin_popcountll(sent);
			assert_int_equal(weft_ape_block_lock(&lock, WEFT_APE_BLOCK_DATA),
					 WEFT_APE_LOCK_KEEP);
			assert_int_equal(lock.locked, i + 1 >= 64 || kind);
		}
	assert_in_range(ones, SYMBOLS / 8 * 3 * 31ull, SYMBOLS / 8 * 3 * 33ull);
	/* One flipped bit becomes three. */
	uint64_t other = here, twice = here;

	line[0] = weft_ape_scramble(&at, 0);
	assert_int_equal(weft_ape_descramble(&here, line[0]) ^
				 weft_ape_descramble(&other, line[0] ^ 1),
			 1ull | 1ull << 39 | 1ull << 58);
	assert_int_equal(weft_ape_descramble(&twice, line[0] ^ 1ull << 30), 1ull << 30);
}

static void test_block_lock(void **state)
{
	struct weft_ape_block_lock lock = {0};

	for (unsigned int i = 0; i < 63; i++)
		weft_ape_block_lock(&lock, WEFT_APE_BLOCK_DATA);
	assert_int_equal(weft_ape_block_lock(&lock, 3), WEFT_APE_LOCK_SLIP);
	for (unsigned int i = 0; i < 64; i++) {
		assert_false(lock.locked);
		weft_ape_block_lock(&lock, WEFT_APE_BLOCK_CONTROL);
	}
	assert_true(lock.locked);
	for (unsigned int i = 0; i < 640; i++) /* 15 of 64 */
		assert_int_equal(weft_ape_block_lock(&lock, i % 64 < 15 ? 0 : WEFT_APE_BLOCK_DATA),
				 WEFT_APE_LOCK_KEEP);
	for (unsigned int i = 0; i < 15; i++)
		assert_int_equal(weft_ape_block_lock(&lock, 3), WEFT_APE_LOCK_KEEP);
	assert_int_equal(weft_ape_block_lock(&lock, 3), WEFT_APE_LOCK_LOST);
	assert_false(lock.locked);
}

/* ---- Lanes ---- */

#define LINE 4096u

/* What stands between two ends: each lane's own delay in bits, and its place at the other end. */
static struct weft_ape_phy near, far;
static uint8_t line[WEFT_APE_LANES][LINE];
static unsigned int filled[WEFT_APE_LANES], to_lane[WEFT_APE_LANES];
static bool dead[WEFT_APE_LANES];
static uint64_t sent_words, next_word, wrong_words, good_words;

static void begin_lanes(unsigned int code, unsigned int lanes, uint64_t *seed)
{
	weft_ape_phy_init(&near, code, lanes, &table);
	weft_ape_phy_init(&far, code, lanes, &table);
	near.number = splitmix64(seed);
	for (unsigned int i = 0; i < lanes; i++) {
		unsigned int other = splitmix64(seed) % (i + 1);

		to_lane[i] = i;
		to_lane[i] = to_lane[other];
		to_lane[other] = i;
		near.state[i] = splitmix64(seed);
		dead[i] = false;
		filled[i] = splitmix64(seed) % 129;
		for (unsigned int b = 0; b < filled[i]; b++)
			line[i][b] = splitmix64(seed) & 1;
	}
	sent_words = next_word = wrong_words = good_words = 0;
}

/* One slot of the lanes; counts the words that come, each of which says which one it is. Returns whether any came. */
static bool step_lanes(bool data)
{
	uint8_t bits[WEFT_APE_LANES][WEFT_APE_SLOT_BITS];
	unsigned int count = weft_ape_phy_bits(&near);
	struct weft_ape_beat beat = {{0}};
	bool came = false;

	for (unsigned int i = 0; i < weft_ape_phy_quads(&near); i++)
		beat.quad[i] = (sent_words + 1) * 0x9e3779b97f4a7c15ull + i;
	data = data && !weft_ape_phy_must_mark(&near);
	sent_words += data;
	weft_ape_phy_send(&near, data ? &beat : NULL, bits);
	for (unsigned int i = 0; i < near.lanes; i++) {
		memcpy(line[i] + filled[i], bits[i], count);
		if (dead[i])
			memset(line[i] + filled[i], 0, count);
		weft_ape_phy_bits_in(&far, to_lane[i], line[i], count);
		memmove(line[i], line[i] + count, filled[i]);
	}
	while (weft_ape_phy_receive(&far, &beat)) {
		/* The inverse of the odd factor tells which word this is. */
		uint64_t which = beat.quad[0] * 0xf1de83e19937733dull;
		bool good = which > next_word && which <= sent_words;

		for (unsigned int i = 0; i < weft_ape_phy_quads(&near); i++)
			good &= beat.quad[i] == which * 0x9e3779b97f4a7c15ull + i;
		if (good)
			next_word = which;
		good_words += good;
		wrong_words += !good;
		came = true;
	}
	return came;
}

static const unsigned int widths[] = {1, 2, 4};

static void test_starts(void **state)
{
	uint64_t seed = 4;
	unsigned int longest = 0;

	for (unsigned int round = 0; round < 10000; round++) {
		unsigned int slots = 0;

		begin_lanes(round & 1, widths[round % 3], &seed);
		while (!far.up) {
			step_lanes(splitmix64(&seed) % 4);
			assert_in_range(++slots, 1, 1000);
		}
		longest = slots > longest ? slots : longest;
		for (unsigned int i = 0; i < 40; i++)
			step_lanes(true);
		assert_int_equal(wrong_words, 0);
		assert_true(good_words >= 30);
		assert_int_equal(far.downs, 0);
	}
	printf("# 10,000 starts: up after at most %u slots\n", longest);
}

/* A bit slips, or a lane dies and comes back: the channel goes down, that is counted, and it comes up again. Every word is right, but
 * for those that came before the loss was seen, which are counted apart. */
static void test_slips(void **state)
{
	uint64_t seed = 5, before = 0;

	for (unsigned int round = 0; round < 1200; round++) {
		unsigned int code = round & 1, lanes = widths[round / 2 % 3], lane, slots = 0;
		bool dies = round / 6 & 1;

		begin_lanes(code, lanes, &seed);
		for (unsigned int i = 0; i < 1200 && (i < 900 || !far.up); i++)
			step_lanes(i % 3);
		assert_true(far.up);
		assert_int_equal(wrong_words, 0);
		lane = splitmix64(&seed) % lanes;
		if (dies) {
			dead[lane] = true;
		} else {
			filled[lane] += 1 + splitmix64(&seed) % 9;
			line[lane][filled[lane]] = 0;
		}
		while (!far.downs) {
			step_lanes(true);
			assert_in_range(++slots, 1, 400);
		}
		before += wrong_words;
		for (unsigned int i = 0; i < 20 && dies; i++)
			assert_false(step_lanes(true));
		dead[lane] = false;
		wrong_words = 0;
		slots = 0;
		while (!far.up || slots < 300) {
			step_lanes(splitmix64(&seed) % 4);
			assert_in_range(++slots, 1, 2000);
		}
		good_words = 0;
		for (unsigned int i = 0; i < 100; i++)
			step_lanes(true);
		assert_in_range(good_words, 90, 100);
	}
	printf("# 1,200 slips and dead lanes: %ju wrong words before the loss was seen\n",
	       (uintmax_t)before);
}

static int fill_table(void **state)
{
	weft_ape_b8b10_init(&table);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_symbols),  cmocka_unit_test(test_line_of_8b10b),
		cmocka_unit_test(test_flips_of_8b10b), cmocka_unit_test(test_scrambler),
		cmocka_unit_test(test_block_lock),     cmocka_unit_test(test_starts),
		cmocka_unit_test(test_slips),
	};

	return cmocka_run_group_tests(tests, fill_table, NULL);
}
