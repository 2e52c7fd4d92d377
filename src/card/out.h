/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Packets on their way to a socket. Those in a row for one destination, as long as each other but the last, are one
 * message that the kernel cuts: so the i-th is to be sealed with identification i (link/udp.h). Room is bounded: while the socket
 * takes no more, there is none.
 *
 * Context: one thread.
 */
#ifndef WEFT_CARD_OUT_H
#define WEFT_CARD_OUT_H

#include "link/udp.h"

#define WEFT_OUT_MESSAGES 16u

struct weft_out_message {
	struct iovec piece;
	uint32_t packets, packet_bytes;
	uint8_t to[16];
	uint8_t traffic_class, hop_limit;
	bool closed; /* nothing more goes into it */
	uint8_t bytes[WEFT_UDP_BYTES];
};

struct weft_out;

/* Another medium than a socket: each packet by itself. No path MTU has the length that fits it best; both ends of a queue pair
 * have the same medium, and so take the same. */
struct weft_out_medium {
	uint8_t *(*reserve)(struct weft_out *out, const uint8_t to[16], uint32_t bytes);
	void (*commit)(struct weft_out *out, uint32_t bytes);
	uint32_t
		message_bytes; /* in a packet of a connected queue pair whose path MTU is the port's */
	bool checks;	       /* whether a packet is whole: its ICRC is zero, and not looked at */
};

struct weft_out {
	const struct weft_out_medium *medium; /* NULL: the socket */
	struct weft_udp *udp;
	uint32_t interface; /* of a link-local address */
	uint16_t port;
	uint32_t first, end; /* messages that wait: numbers modulo WEFT_OUT_MESSAGES */
	bool full;	     /* the socket takes no more just now */
	uint64_t packets, sent_bytes, unsent;
	struct weft_out_message message[WEFT_OUT_MESSAGES];
};

/* How a packet travels. hop_limit 0: as the system has it. */
struct weft_out_way {
	const uint8_t *to; /* 16 bytes */
	uint8_t traffic_class, hop_limit;
};

/* Room for a packet of so many bytes, and the identification to seal it with. NULL: not now. */
uint8_t *weft_out_reserve(struct weft_out *out, struct weft_out_way way, uint32_t bytes,
			  uint16_t *id);
/* The packet has been written there, and goes. Without this call nothing was reserved. */
void weft_out_commit(struct weft_out *out, uint32_t bytes);
/* Gives the socket what it takes. Whether nothing waits any more. */
bool weft_out_flush(struct weft_out *out);

#endif
