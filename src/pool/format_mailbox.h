/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What connection management has in the pool. Writers: as in format.h. */
#ifndef WEFT_POOL_FORMAT_MAILBOX_H
#define WEFT_POOL_FORMAT_MAILBOX_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

/*
 * Datagrams of connection management, posted by one member for any other: slots that each
 * addressee walks. Number n, counted from incarnation << 32 of the poster, stands in slot n % size
 * until it is overwritten; a reader copies it between two equal looks at its seq.
 *
 * word        | writer    | transition               | order
 * `seq`       | poster    | any to 0                 | relaxed, then a release fence, then the datagram
 *             | poster    | 0 to n + 1               | release, after it
 * `posted`    | poster    | grows                    | release, after that; then the addressee is signalled
 * member's    | addressee | grows: looked at so far, | release, after the copy
 * `taken`     |           | by poster                |
 *
 * Stale values. An addressee that reads an old `posted` is signalled after it looked. A poster that reads an old `taken`
 * passes over that slot; where all slots wait, one whose addressee has not looked for three seconds is overwritten, and
 * that datagram is lost, as any may be (12.9.8: the sender repeats it).
 */
struct weft_pool_mailbox_slot {
	_Atomic uint64_t seq; /* [O] all: 0 while it is written, then n + 1 */
	uint64_t incarnation; /* of the addressee */
	uint16_t member;
	/* beyond a card: the host, and our address there; zeros: none */
	uint8_t far[16], near[16];
	uint8_t bytes[WEFT_DATAGRAM_BYTES];
};

struct weft_pool_mailbox {
	_Atomic uint64_t posted; /* [O] the next number */
	_Alignas(WEFT_LINE) struct weft_pool_mailbox_slot slot[WEFT_MAILBOX_SLOTS];
};

enum weft_port_flags {
	WEFT_PORT_BOUND = 1 << 0,
	WEFT_PORT_LISTENS = 1 << 1,
	WEFT_PORT_SHARED = 1 << 2,     /* with others that say so, as long as none listens */
	WEFT_PORT_ONE_FAMILY = 1 << 3, /* any address means: any of IPv4, or of IPv6 */
	WEFT_PORT_LEFT = 1 << 4,       /* alone: free, but its owner listened here until then */
};

/* When it was left: the time in units of 2^20 ns, modulo 2^24, above the flags. */
#define WEFT_PORT_LEFT_SHIFT 8u
#define WEFT_PORT_LEFT_UNIT  20u

/* A port that a connection identifier holds. IPv4 addresses as ::ffff:a.b.c.d, any as zeros. */
struct weft_pool_port {
	uint8_t addr[16];
	uint16_t port, space;
	_Atomic uint32_t
		flags; /* enum weft_port_flags; 0, or left: free, which its owner says without the lock */
};

#endif
