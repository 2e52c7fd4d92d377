/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/ipv4.h"
#include "nic/limits.h"
#include "pool/address.h"
#include "transport/direct/grh.h"

#define UDP	   17
#define IB_BTH	   0x1b
#define UDP_HEADER 8u
#define BTH_DETH   20u
#define IMM	   4u
#define ICRC	   4u

static void fill_ipv4(uint8_t *ip, const struct weft_ah *ah, uint32_t len_bytes)
{
	ip[0] = 0x45;
	ip[1] = ah->traffic_class;
	weft_ipv4_put16(ip + 2, 20 + len_bytes);
	ip[6] = 0x40; /* not to be fragmented */
	ip[8] = ah->hop_limit;
	ip[9] = UDP;
	__builtin_memcpy(ip + 12, ah->sgid + 12, 4);
	__builtin_memcpy(ip + 16, ah->dgid + 12, 4);
	weft_ipv4_put16(ip + 10, weft_ipv4_checksum(ip));
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
	weft_ipv4_put16(grh, 6u << 12 | (uint32_t)ah->traffic_class << 4 | ah->flow_label >> 16);
	weft_ipv4_put16(grh + 2, ah->flow_label);
	weft_ipv4_put16(grh + 4, payload);
	grh[6] = ah->v2 ? UDP : IB_BTH;
	grh[7] = ah->hop_limit;
	__builtin_memcpy(grh + 8, ah->sgid, 16);
	__builtin_memcpy(grh + 24, ah->dgid, 16);
	return ah->v2;
}
