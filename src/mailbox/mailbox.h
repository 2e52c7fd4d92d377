/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Datagrams between members, for connection management: unreliable as InfiniBand's are, though one is lost only
 * when no addressee of the whole mailbox has looked for three seconds.
 *
 * Context: any thread, but one at a time.
 */
#ifndef WEFT_MAILBOX_MAILBOX_H
#define WEFT_MAILBOX_MAILBOX_H

#include "pool/pool.h"
#include "pool/sizes.h"

/* A member and its incarnation; or, behind one that is a card, a host, and which of our addresses that knows. */
struct weft_address {
	uint16_t member;
	uint64_t incarnation;
	uint8_t far[16], near[16]; /* GIDs; zeros: the member itself */
};

static inline struct weft_address weft_pool_address(const struct weft_pool *pool)
{
	return (struct weft_address){.member = pool->me, .incarnation = pool->incarnation};
}

/* Of a member in the life that it has; incarnation 0: there is none. */
struct weft_address weft_mailbox_address(struct weft_pool *pool, uint16_t member);
/* Posts and wakes the addressee's helper. 0; -EAGAIN (the mailbox is full: later); -ESRCH (it is gone);
 * -ENOMEM, -ENOSPC. */
int weft_mailbox_post(struct weft_pool *pool, struct weft_address to,
		      const uint8_t bytes[WEFT_DATAGRAM_BYTES], uint64_t now_ns);
/* The next datagram for us; false when there is none. */
bool weft_mailbox_take(struct weft_pool *pool, struct weft_address *from,
		       uint8_t bytes[WEFT_DATAGRAM_BYTES]);

#endif
