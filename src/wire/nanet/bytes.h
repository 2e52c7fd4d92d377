/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers in datagrams, at any address. */
#ifndef WEFT_WIRE_NANET_BYTES_H
#define WEFT_WIRE_NANET_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "wire/nanet/both.h"

/* 4 or 8 bytes as a number, the least significant first: what most datagrams have, in one load. */
WEFT_BOTH static inline uint64_t weft_bytes_whole(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	if (bytes == 8)
		__builtin_memcpy(&value, at, 8);
	else
		__builtin_memcpy(&value, at, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	value = __builtin_bswap64(value);
#endif
	return value;
}

/* The first `bytes` ≤ 8 as a number, the least significant first. */
WEFT_BOTH static inline uint64_t weft_bytes_little(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	if (bytes == 8 || bytes == 4)
		return weft_bytes_whole(at, bytes);
	for (unsigned int i = bytes; i--;)
		value = value << 8 | at[i];
	return value;
}

static inline uint64_t weft_bytes_big(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	if (bytes == 8 || bytes == 4)
		return __builtin_bswap64(weft_bytes_whole(at, bytes)) >> (64 - 8 * bytes);
	for (unsigned int i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static inline void weft_bytes_put_little(uint8_t *at, unsigned int bytes, uint64_t value)
{
	for (unsigned int i = 0; i < bytes; i++, value >>= 8)
		at[i] = (uint8_t)value;
}

static inline void weft_bytes_put_big(uint8_t *at, unsigned int bytes, uint64_t value)
{
	for (unsigned int i = bytes; i--; value >>= 8)
		at[i] = (uint8_t)value;
}

#endif
