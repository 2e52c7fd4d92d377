/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers in datagrams, at any address. */
#ifndef WEFT_WIRE_NANET_BYTES_H
#define WEFT_WIRE_NANET_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* The first `bytes` ≤ 8 as a number, the least significant first. */
static inline uint64_t weft_bytes_little(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = bytes; i--;)
		value = value << 8 | at[i];
	return value;
}

static inline uint64_t weft_bytes_big(const uint8_t *at, unsigned int bytes)
{
	uint64_t value = 0;

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
