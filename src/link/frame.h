/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Frames of Ethernet with a UDP datagram in them, as captures have them. Over IPv4 and IPv6, with
 * VLAN tags; what else there is, fragments too, is no such frame.
 */
#ifndef WEFT_LINK_FRAME_H
#define WEFT_LINK_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_FRAME_UDP_BYTES 42u /* before the payload: Ethernet, IPv4, UDP */
/* What a frame takes on a wire beside its payload: preamble, the headers, checksum, gap. */
#define WEFT_FRAME_WIRE_BYTES (8u + WEFT_FRAME_UDP_BYTES + 4u + 12u)
#define WEFT_FRAME_WIRE_LEAST 84u

/* What the first bytes of a frame are: captures' numbers LINKTYPE_…. */
enum weft_frame_kind {
	WEFT_FRAME_ETHERNET = 1,
	WEFT_FRAME_IP = 101,
	WEFT_FRAME_SLL = 113, /* captured on Linux's `any` */
	WEFT_FRAME_SLL2 = 276,
};

enum weft_frame_verdict {
	WEFT_FRAME_UDP,
	WEFT_FRAME_OTHER, /* not UDP, or a fragment */
	WEFT_FRAME_CUT,	  /* not all there */
	WEFT_FRAME_WRONG, /* a checksum or length is wrong */
};

struct weft_frame {
	uint8_t from[16], to[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t from_port, to_port;
	const uint8_t *payload;
	uint16_t bytes;
};

/* Looks at a frame of which `bytes` were captured; *frame is set for WEFT_FRAME_UDP, and lives as
 * long as data does. kind may be any other LINKTYPE, too: that frame is WEFT_FRAME_OTHER. Checksums of UDP that are zero over IPv4, or for the card to fill in (only the
 * pseudo header summed), are not checked. */
enum weft_frame_verdict weft_frame_parse(enum weft_frame_kind kind, const uint8_t *data,
					 size_t bytes, struct weft_frame *frame);

/* Writes the WEFT_FRAME_UDP_BYTES before the payload of a datagram over IPv4, with checksums. The addresses are the
 * last four bytes of frame->from and frame->to. */
void weft_frame_write(const struct weft_frame *frame, uint8_t *to);

/* The time that a datagram of so many bytes takes on a wire, in bits. */
static inline uint64_t weft_frame_wire_bits(uint32_t payload_bytes)
{
	uint64_t bytes = payload_bytes + WEFT_FRAME_WIRE_BYTES;

	return 8 * (bytes < WEFT_FRAME_WIRE_LEAST ? WEFT_FRAME_WIRE_LEAST : bytes);
}

#endif
