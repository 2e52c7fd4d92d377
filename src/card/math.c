/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/math.h"

#ifdef WEFT_ISAL
#include <isa-l/crc.h>

static uint32_t crc32(uint32_t crc, const uint8_t *at, size_t bytes)
{
	return crc32_gzip_refl(crc, at, bytes);
}
#else
#define POLYNOMIAL 0xedb88320u
#define AT_ONCE	   8

/* table[k][b]: what a byte b leaves that is followed by k zeros */
static uint32_t table[AT_ONCE][256];

static void __attribute__((constructor)) fill_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[0][byte] = crc;
	}
	for (int k = 1; k < AT_ONCE; k++)
		for (uint32_t byte = 0; byte < 256; byte++)
			table[k][byte] =
				table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 0xff];
}

static uint32_t crc32(uint32_t crc, const uint8_t *at, size_t bytes)
{
	crc = ~crc;
	for (; bytes >= AT_ONCE; bytes -= AT_ONCE, at += AT_ONCE) {
		uint64_t word;
		uint32_t next = 0;

		__builtin_memcpy(&word, at, sizeof(word));
		word ^= crc;
		for (int i = 0; i < AT_ONCE; i++)
			next ^= table[AT_ONCE - 1 - i][word >> 8 * i & 0xff];
		crc = next;
	}
	while (bytes--)
		crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
	return ~crc;
}
#endif

/* Four bits of `b` at a time. */
static uint64_t clmul(uint32_t a, uint32_t b)
{
	uint64_t of[16] = {0}, product = 0;

	for (uint32_t i = 1; i < 16; i++)
		of[i] = of[i >> 1] << 1 ^ (i & 1 ? a : 0);
	for (int shift = 28; shift >= 0; shift -= 4)
		product = product << 4 ^ of[b >> shift & 15];
	return product;
}

const struct weft_roce_math weft_card_math = {crc32, clmul};
