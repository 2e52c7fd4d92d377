/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * MGP: one datagram of events, little-endian. The layout is Weft's choice, as that of the detector is not
 * public:
 *
 *	bytes 0 … 3	sequence of this source
 *	byte 4, 5	source, sub-source
 *	bytes 6, 7	length of the datagram
 *	bytes 8 … 11	timestamp of the first event, in 25 ns
 *	byte 12		number of events
 *	byte 13		flags: WEFT_MGP_LAST, WEFT_MGP_SENT; others are zero
 *	bytes 14, 15	zero
 *
 * then, by WEFT_MGP_SENT, eight bytes of the time at which it was sent, in ns; then whole events
 * (M2EGP), and nothing behind them.
 */
#ifndef WEFT_WIRE_NANET_MGP_H
#define WEFT_WIRE_NANET_MGP_H

#include <stdbool.h>

#include "wire/nanet/m2egp.h"

#define WEFT_MGP_HEADER	   16u
#define WEFT_MGP_MAX_BYTES 1472u /* of a datagram in a frame of Ethernet */
#define WEFT_MGP_LAST	   1u	 /* of the burst */
#define WEFT_MGP_SENT	   2u	 /* has its time */

struct weft_mgp {
	uint32_t sequence;
	uint8_t source, sub_source;
	uint16_t bytes;
	uint32_t timestamp;
	uint8_t events, flags;
	uint64_t sent_ns; /* by WEFT_MGP_SENT */
};

/* Checks the header alone. Returns the offset of the first event, or 0 if it is no MGP. */
WEFT_BOTH uint32_t weft_mgp_parse_header(const uint8_t *data, size_t bytes, struct weft_mgp *mgp);
/* The same, and checks each event. */
uint32_t weft_mgp_parse(const uint8_t *data, size_t bytes, struct weft_mgp *mgp);

WEFT_BOTH static inline uint32_t weft_mgp_header_bytes(uint8_t flags)
{
	return WEFT_MGP_HEADER + (flags & WEFT_MGP_SENT ? 8 : 0);
}

/* Writes the header of a datagram of mgp->bytes; its bytes. */
uint32_t weft_mgp_write(const struct weft_mgp *mgp, uint8_t *to);

#endif
