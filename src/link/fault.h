/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A bad wire in front of a socket: what is sent through it is lost, doubled, held back or corrupted as often
 * as it is told, by random numbers that a seed decides. What is corrupted has a UDP checksum that holds: the
 * kernel computes it of the wrong bytes.
 *
 * Context: as the socket's.
 */
#ifndef WEFT_LINK_FAULT_H
#define WEFT_LINK_FAULT_H

#include "link/udp.h"

/* A datagram that is held back is overtaken by at most so many. */
#define WEFT_FAULT_LATE 64u
/* The longest that can pass. */
#define WEFT_FAULT_BYTES 9000u

struct weft_fault;

struct weft_fault_config {
	uint64_t seed;
	uint32_t lost, doubled, late, corrupted; /* of 65,536 datagrams */
};

/* What has befallen datagrams so far. */
struct weft_fault_counters {
	uint64_t lost, doubled, late, corrupted;
};

/* NULL: there is no memory. */
struct weft_fault *weft_fault_open(const struct weft_fault_config *config);
void weft_fault_close(struct weft_fault *fault);

/*
 * As weft_udp_send, but that faults befall datagrams: a message that is cut is refused with -EINVAL, one that
 * is too long with -EMSGSIZE. What the socket does not take of doubled and late ones is lost.
 */
int weft_fault_send(struct weft_fault *fault, struct weft_udp *udp,
		    const struct weft_udp_message *messages, uint32_t count);
/* Sends what is held back: nothing overtakes it any more. */
void weft_fault_flush(struct weft_fault *fault, struct weft_udp *udp);

struct weft_fault_counters weft_fault_counters(const struct weft_fault *fault);

#endif
