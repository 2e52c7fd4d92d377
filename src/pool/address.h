/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* An address of 16 bytes in network order, as GIDs have it: IPv6, or IPv4 behind ::ffff: (RFC 4291, 2.5.5.2). Pure, and
 * for every layer. */
#ifndef WEFT_POOL_ADDRESS_H
#define WEFT_POOL_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

static inline bool weft_address_is_ipv4(const uint8_t address[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !__builtin_memcmp(address, mapped, sizeof(mapped));
}

static inline bool weft_address_is_any(const uint8_t address[16])
{
	static const uint8_t zero[16];

	return !__builtin_memcmp(address, zero, 16) ||
	       (weft_address_is_ipv4(address) && !__builtin_memcmp(address + 12, zero, 4));
}

static inline bool weft_address_is_loopback(const uint8_t address[16])
{
	static const uint8_t one[16] = {[15] = 1};

	return !__builtin_memcmp(address, one, 16) ||
	       (weft_address_is_ipv4(address) && address[12] == 127);
}

/* Multicast, of either version. */
static inline bool weft_address_is_group(const uint8_t address[16])
{
	return weft_address_is_ipv4(address) ? address[12] >> 4 == 14 : address[0] == 0xff;
}

#endif
