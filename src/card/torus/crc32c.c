/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CRC-32C: by the processor's instruction where there is one, else by a table. */
#include <string.h>

#include "card/torus/torus.h"

#define POLYNOMIAL 0x82f63b78u

static uint32_t table[256];

__attribute__((constructor)) static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t rest = i;

		for (int bit = 0; bit < 8; bit++)
			rest = rest & 1 ? rest >> 1 ^ POLYNOMIAL : rest >> 1;
		table[i] = rest;
	}
}

static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t count)
{
	while (count--)
		crc = crc >> 8 ^ table[(crc ^ *at++) & 255];
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *at,
								 size_t count)
{
	uint64_t sum = crc, word;

	for (; count >= sizeof(word); count -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sum = __builtin_ia32_crc32di(sum, word);
	}
	return by_table((uint32_t)sum, at, count);
}
#endif

uint32_t weft_torus_crc32c(uint32_t crc, const void *bytes, size_t count)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return ~by_instruction(~crc, bytes, count);
#endif
	return ~by_table(~crc, bytes, count);
}
