/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One end of a cable whose beats travel in UDP datagrams, both ways. Each datagram says in 40 bytes, little-endian: the cookie of the
 * cable's direction, the sender's and the receiver's life, a number, how many beats, of how many quads. What is not of this cable,
 * is of another life, or comes again or behind a later one, is counted and dropped; what is lost is not asked for.
 * A life is a random number. A datagram is taken when it names the receiver's: so both ends have to have heard each
 * other, and nothing recorded earlier passes. It is no protection from one that can read the datagrams.
 *
 * Context: one thread. Nothing blocks.
 */
#ifndef WEFT_LINK_CABLE_UDP_H
#define WEFT_LINK_CABLE_UDP_H

#include <stdbool.h>
#include <stdint.h>

struct weft_udp;

#define WEFT_CABLE_UDP_HEAD  40u
#define WEFT_CABLE_UDP_BYTES 1408u /* of a datagram, so that Ethernet carries it whole */

struct weft_cable_udp {
	struct weft_udp *udp;
	uint64_t cookie_out, cookie_in;
	uint64_t life, other; /* that of the other end, as it is told to it; 0: not heard */
	uint64_t taken,
		before; /* of the last datagram that was taken; the one before it, which never comes back */
	uint64_t number, seen;
	uint8_t to[16];
	uint16_t to_port; /* 0: not known; nothing goes */
	uint32_t quads;
	uint64_t foreign, stale, old,
		lost; /* of another cable; of another life; come again or too late; not sent */
	uint64_t beats[WEFT_CABLE_UDP_BYTES / 8];
};

/* At an address and port of this host, 0: any. As weft_udp_open. */
int weft_cable_udp_open(struct weft_cable_udp *u, const uint8_t address[16], uint16_t port,
			uint32_t quads);
void weft_cable_udp_close(struct weft_cable_udp *u);

void weft_cable_udp_send(struct weft_cable_udp *u, const uint64_t *quad, uint32_t beats);
/* The beats of the next datagram that has come; they stand in u->beats. 0: none has; *more: others have. */
uint32_t weft_cable_udp_receive(struct weft_cable_udp *u, bool *more);

#endif
