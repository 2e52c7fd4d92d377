/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/limits.h"
#include "pool/address.h"
#include "transport/direct/grh.h"

#define UDP	   17
#define IB_BTH	   0x1b
#define UDP_HEADER 8u
#define BTH_DETH   20u
#define IMM	   4u
#define ICRC	   4u

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* RFC 791 */
static uint32_t checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16)) & 0xffff;
}

static void fill_ipv4(uint8_t *ip, const struct weft_ah *ah, uint32_t len_bytes)
{
	ip[0] = 0x45;
	ip[1] = ah->traffic_class;
	put16(ip + 2, 20 + len_bytes);
	ip[6] = 0x40; /* not to be fragmented */
	ip[8] = ah->hop_limit;
	ip[9] = UDP;
	__builtin_memcpy(ip + 12, ah->sgid + 12, 4);
	__builtin_memcpy(ip + 16, ah->dgid + 12, 4);
	put16(ip + 10, checksum(ip));
}

uint8_t weft_grh_fill(uint8_t grh[WEFT_GRH_BYTES], const struct weft_ah *ah, bool imm,
		      uint32_t len_bytes)
{
	uint32_t payload = BTH_DETH + (imm ? IMM : 0) + ((len_bytes + 3) & ~3u) + ICRC;

	__builtin_memset(grh, 0, WEFT_GRH_BYTES);
	if (ah->v2 && weft_address_is_ipv4(ah->dgid)) {
		fill_ipv4(grh + 20, ah, UDP_HEADER + payload);
		return 2;
	}
	if (ah->v2)
		payload += UDP_HEADER;
	put16(grh, 6u << 12 | (uint32_t)ah->traffic_class << 4 | ah->flow_label >> 16);
	put16(grh + 2, ah->flow_label);
	put16(grh + 4, payload);
	grh[6] = ah->v2 ? UDP : IB_BTH;
	grh[7] = ah->hop_limit;
	__builtin_memcpy(grh + 8, ah->sgid, 16);
	__builtin_memcpy(grh + 24, ah->dgid, 16);
	return ah->v2;
}
