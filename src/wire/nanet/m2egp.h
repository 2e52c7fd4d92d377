/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * M2EGP: one merged event of the ring-imaging detector, little-endian. A word of 128 bits,
 *
 *	byte 0		fine time, in 1/256 of 25 ns
 *	bytes 1 … 4	timestamp, in 25 ns
 *	byte 5		number of hits
 *	bytes 6, 7	all ones
 *	bytes 8 … 11	hits of each of four readout boards
 *	bytes 12, 13	zero
 *	byte 14		second label: ours, the number of true rings
 *	byte 15		label, 0 … 3: the event's class
 *
 * then ⌈hits / 8⌉ words of eight 16-bit numbers of photomultipliers each, counted from 1, 0 where
 * there is none. The labels are for tests of a trigger; a trigger does not read them.
 */
#ifndef WEFT_WIRE_NANET_M2EGP_H
#define WEFT_WIRE_NANET_M2EGP_H

#include "wire/nanet/bytes.h"

#define WEFT_M2EGP_HEADER    16u
#define WEFT_M2EGP_MAX_HITS  255u
#define WEFT_M2EGP_MAX_BYTES (WEFT_M2EGP_HEADER + 512u)

struct weft_m2egp {
	uint32_t timestamp; /* 25 ns */
	uint8_t fine;
	uint8_t hits;
	uint8_t board[4];
	uint8_t rings, label;
	const uint8_t *pmts; /* by weft_m2egp_pmt */
};

WEFT_BOTH static inline uint32_t weft_m2egp_bytes(uint32_t hits)
{
	return WEFT_M2EGP_HEADER + (hits + 7) / 8 * 16;
}

/* The event at the beginning of data, which lives as long as it is used. The event's bytes; or 0,
 * if they are not all there or are no event. */
WEFT_BOTH uint32_t weft_m2egp_parse(const uint8_t *data, size_t bytes, struct weft_m2egp *event);

/* The number of hit i < hits, from 1. */
WEFT_BOTH static inline uint16_t weft_m2egp_pmt(const struct weft_m2egp *event, uint32_t i)
{
	return (uint16_t)weft_bytes_little(event->pmts + 2 * (size_t)i, 2);
}

/* Writes weft_m2egp_bytes(event->hits) bytes, and returns them; event->pmts is not looked at. */
uint32_t weft_m2egp_write(const struct weft_m2egp *event, const uint16_t *pmt, uint8_t *to);

#endif
