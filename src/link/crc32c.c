/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CRC-32C: by products of long runs (link/fold.h), by the processor's instruction where there is one, else by a table. The instruction
 * waits three clocks for itself, so that of a long run three parts go side by side; what a part leaves goes on over the zeros of
 * the next by a table.
 */
#include "link/crc32c.h"

#include <string.h>

#include "link/fold.h"

#define POLYNOMIAL 0x82f63b78u
#define PARTS	   3u
#define PART_BYTES 336u /* four blocks of three parts are a payload of 4,096 bytes, but 64 */

static uint32_t table[256];
/* zeros[k][b]: what a byte b at place k of the register leaves behind PART_BYTES zeros */
static uint32_t zeros[4][256];
static struct weft_fold fold;

static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t count)
{
	while (count--)
		crc = crc >> 8 ^ table[(crc ^ *at++) & 255];
	return crc;
}

__attribute__((constructor)) static void make_tables(void)
{
	static const uint8_t none[PART_BYTES];

	weft_fold_init(&fold, POLYNOMIAL);
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t rest = i;

		for (int bit = 0; bit < 8; bit++)
			rest = rest & 1 ? rest >> 1 ^ POLYNOMIAL : rest >> 1;
		table[i] = rest;
	}
	for (uint32_t bit = 0; bit < 32; bit++)
		zeros[bit / 8][1u << bit % 8] = by_table(1u << bit, none, sizeof(none));
	/* the rest by sums: an index is its lowest bit and what is above */
	for (uint32_t k = 0; k < 4; k++)
		for (uint32_t i = 1; i < 256; i++)
			if (i & (i - 1))
				zeros[k][i] = zeros[k][i & -i] ^ zeros[k][i & (i - 1)];
}

#ifdef __x86_64__
#define CRCS __attribute__((target("sse4.2")))

static uint32_t over_zeros(uint32_t crc)
{
	return zeros[0][crc & 255] ^ zeros[1][crc >> 8 & 255] ^ zeros[2][crc >> 16 & 255] ^
	       zeros[3][crc >> 24];
}

static inline CRCS uint64_t one_word(uint64_t sum, const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return __builtin_ia32_crc32di(sum, word);
}

static CRCS uint32_t by_instruction(uint32_t crc, const uint8_t *at, size_t count)
{
	uint8_t rest[WEFT_FOLD_BYTES];
	uint64_t sum = crc, second, third;

	if (weft_folds_wide && count >= WEFT_FOLD_LEAST) {
		size_t folded = weft_fold_wide(&fold, crc, at, count, rest);

		sum = one_word(one_word(0, rest), rest + sizeof(sum));
		at += folded;
		count -= folded;
	}
	for (; count >= PARTS * PART_BYTES; count -= PARTS * PART_BYTES, at += PARTS * PART_BYTES) {
		second = third = 0;
		for (size_t i = 0; i < PART_BYTES; i += sizeof(sum)) {
			sum = one_word(sum, at + i);
			second = one_word(second, at + PART_BYTES + i);
			third = one_word(third, at + 2 * PART_BYTES + i);
		}
		sum = over_zeros((uint32_t)sum) ^ second;
		sum = over_zeros((uint32_t)sum) ^ third;
	}
	for (; count >= sizeof(sum); count -= sizeof(sum), at += sizeof(sum))
		sum = one_word(sum, at);
	return by_table((uint32_t)sum, at, count);
}
#endif

uint32_t weft_crc32c(uint32_t crc, const void *bytes, size_t count)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return ~by_instruction(~crc, bytes, count);
#endif
	return ~by_table(~crc, bytes, count);
}
