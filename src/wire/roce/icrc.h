/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The invariant CRC of RoCE v2 (annex A17.3.4): CRC-32 over what no router changes, the addresses
 * included. Over IPv4 it covers the identification, which a socket neither sets nor tells. A CRC is
 * affine in these 16 bits: they are solved from the ICRC that came. A solution that was expected leaves
 * all 32 bits of strength, any other one 16.
 */
#ifndef WEFT_WIRE_ROCE_ICRC_H
#define WEFT_WIRE_ROCE_ICRC_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

/* What the engine does not compute itself. */
struct weft_roce_math {
	/* CRC-32 of Ethernet, continued from the value for what came before; 0 to begin with. */
	uint32_t (*crc32)(uint32_t crc, const uint8_t *at, size_t bytes);
	/* The product of two polynomials over GF(2): 63 bits. */
	uint64_t (*clmul)(uint32_t a, uint32_t b);
};

/* Where a datagram comes from and goes to. Addresses as in GIDs: of IPv4 they are mapped. */
struct weft_roce_route {
	uint8_t src[16], dst[16];
	uint16_t src_port, dst_port;
};

/* UDP payloads, ICRC included, up to this length. */
#define WEFT_ROCE_MAX_BYTES 4144u

struct weft_roce_icrc {
	const struct weft_roce_math *math;
	/* for each length of a UDP payload, in words: what takes a difference of CRCs back to the ID */
	uint32_t back[WEFT_ROCE_MAX_BYTES / 4 + 1];
};

/* The IDs of one source, a host at an address. Zeros, to begin with. */
struct weft_roce_source {
	uint64_t last_ns; /* `last` did not come before */
	uint16_t last, doubtful;
	bool doubts;
	uint8_t trust; /* grows with each ID that follows a rule; below WEFT_ROCE_TRUST any is taken */
};

#define WEFT_ROCE_TRUST 16u

enum weft_roce_icrc_verdict {
	WEFT_ROCE_ICRC_WRONG,
	WEFT_ROCE_ICRC_RIGHT,
	WEFT_ROCE_ICRC_WEAK, /* taken on 16 bits */
};

void weft_roce_icrc_init(struct weft_roce_icrc *icrc, const struct weft_roce_math *math);

bool weft_roce_is_ipv4(const struct weft_roce_route *route);

/* Of a packet of `bytes`, the ICRC's own four included, whose first `head_bytes` stand at `head` and the
 * rest but the ICRC at `rest`. To be stored with the lowest byte first. */
uint32_t weft_roce_icrc(const struct weft_roce_icrc *icrc, const struct weft_roce_route *route,
			uint16_t id, const uint8_t *head, size_t head_bytes, const uint8_t *rest,
			size_t bytes);

/*
 * Checks a UDP payload, a multiple of 4 from 16 to WEFT_ROCE_MAX_BYTES bytes, that was the i-th segment
 * of a batch, and came between those times. *id: the identification that it must have had (IPv4; also of one that is refused).
 */
enum weft_roce_icrc_verdict weft_roce_icrc_check(const struct weft_roce_icrc *icrc,
						 struct weft_roce_source *source,
						 const struct weft_roce_route *route,
						 const uint8_t *at, size_t bytes, uint16_t segment,
						 uint64_t since_ns, uint64_t now_ns, uint16_t *id);

/* Of a solved ID: does it follow a rule of its source? That is noted. */
enum weft_roce_icrc_verdict weft_roce_source_judge(struct weft_roce_source *source, uint16_t id,
						   uint16_t segment, uint64_t since_ns,
						   uint64_t now_ns);

#endif
