/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a network header for IPv4 is made with, as a datagram shows it (A17.4.5). */
#ifndef WEFT_NIC_IPV4_H
#define WEFT_NIC_IPV4_H

#include <stdint.h>

static inline void weft_ipv4_put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* Of a header without options, whose own checksum is zero (RFC 791). */
static inline uint32_t weft_ipv4_checksum(const uint8_t header[20])
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16)) & 0xffff;
}

#endif
