/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "math.h"

static uint32_t table[8][256];

static void __attribute__((constructor)) fill(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
		table[0][byte] = crc;
	}
	for (int more = 1; more < 8; more++)
		for (uint32_t byte = 0; byte < 256; byte++)
			table[more][byte] =
				table[more - 1][byte] >> 8 ^ table[0][table[more - 1][byte] & 0xff];
}

static uint32_t crc32(uint32_t crc, const uint8_t *at, size_t bytes)
{
	crc = ~crc;
	for (; bytes >= 8; bytes -= 8, at += 8) {
		uint64_t word;
		uint32_t next = 0;

		__builtin_memcpy(&word, at, 8);
		word ^= crc;
		for (int i = 0; i < 8; i++)
			next ^= table[7 - i][word >> 8 * i & 0xff];
		crc = next;
	}
	while (bytes--)
		crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
	return ~crc;
}

static uint64_t clmul(uint32_t a, uint32_t b)
{
	uint64_t product = 0;

	for (int bit = 0; bit < 32; bit++)
		product ^= b >> bit & 1 ? (uint64_t)a << bit : 0;
	return product;
}

const struct weft_roce_math plain_math = {crc32, clmul};
