/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CRC-32C by a table, which the engine asks of its world. */
#ifndef WEFT_TESTS_APE_CRC_H
#define WEFT_TESTS_APE_CRC_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
	static uint32_t table[256];
	const uint8_t *at = bytes;

	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t rest = i;

			for (int bit = 0; bit < 8; bit++)
				rest = rest & 1 ? rest >> 1 ^ 0x82f63b78u : rest >> 1;
			table[i] = rest;
		}
	crc = ~crc;
	while (count--)
		crc = crc >> 8 ^ table[(crc ^ *at++) & 255];
	return ~crc;
}

#endif
