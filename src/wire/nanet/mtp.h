/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * MTP: the primitives that a trigger sends, big-endian words of 32 bits:
 *
 *	source 8, timestamp's high 24
 *	sub-source 8, number of primitives 8, length of the datagram in bytes 16
 *	timestamp
 *	each primitive: id 16, timestamp's low 8, fine time 8
 *
 * so that those of one datagram have the high 24 bits of their timestamps in common: 6.4 µs.
 */
#ifndef WEFT_WIRE_NANET_MTP_H
#define WEFT_WIRE_NANET_MTP_H

#include <stdbool.h>

#include "wire/nanet/bytes.h"

#define WEFT_MTP_HEADER	   12u
#define WEFT_MTP_MAX	   255u /* primitives */
#define WEFT_MTP_MAX_BYTES (WEFT_MTP_HEADER + 4 * WEFT_MTP_MAX)

struct weft_mtp_primitive {
	uint16_t id;
	uint32_t timestamp; /* 25 ns */
	uint8_t fine;
};

struct weft_mtp {
	uint8_t source, sub_source;
	uint32_t timestamp; /* of the first primitive, or of the frame if there is none */
	uint8_t count;
	struct weft_mtp_primitive primitive[WEFT_MTP_MAX];
};

/* All primitives have the high 24 bits of the timestamp. The bytes written, ≤ WEFT_MTP_MAX_BYTES. */
uint32_t weft_mtp_write(const struct weft_mtp *mtp, uint8_t *to);
/* Whether it is an MTP. */
bool weft_mtp_parse(const uint8_t *data, size_t bytes, struct weft_mtp *mtp);

#endif
