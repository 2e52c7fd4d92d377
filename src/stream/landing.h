/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where datagrams of a list of slots lie: a link has the kernel put them into free places of the buffer
 * that is expected to take them, before anything is known of them. A table beside the buffer says which datagram lies where, so that
 * none has to be copied because another is refused or comes out of order. A datagram that lies in another
 * buffer than it belongs to is copied, once.
 *
 * Context: the receiver's thread.
 */
#ifndef WEFT_STREAM_LANDING_H
#define WEFT_STREAM_LANDING_H

#include "link/stream.h"

struct weft_landing {
	uint32_t slots, slot_bytes, bytes; /* of a buffer; slots 0: packed, nothing lands */
	uint32_t longest;		   /* of a place, what a link may have */
	uint8_t *memory;
	uint32_t *free; /* each buffer: a stack of `slots`; the next is on top */
	uint32_t *left; /* each buffer: how many are on it */
	uint32_t buffer, offered;
	uint64_t used; /* of the offered ones */
};

/* -ENOMEM */
int weft_landing_begin(struct weft_landing *l, uint32_t buffers, uint32_t slots,
		       uint32_t slot_bytes, uint32_t bytes, uint32_t footer_bytes, uint8_t *memory);
void weft_landing_end(struct weft_landing *l);

/* Offers places in the buffer for up to `most` datagrams. Afterwards comes weft_landing_take for each datagram that gets a place in
 * a buffer, and weft_landing_settle at last. If some datagrams lie in offered places and others elsewhere, the caller copies the
 * former aside before, and withdraws the offer. */
void weft_landing_offer(struct weft_landing *l, uint32_t buffer, uint32_t most,
			struct weft_stream_places *places);
void weft_landing_withdraw(struct weft_landing *l);
/* The place of the buffer for a datagram that lies at `place`: that one (*lies), or if it is of another buffer a free one. */
uint32_t weft_landing_take(struct weft_landing *l, uint32_t buffer, uint32_t place, bool *lies);
void weft_landing_settle(struct weft_landing *l);
/* All places of the buffer are free again. */
void weft_landing_reset(struct weft_landing *l, uint32_t buffer);

#endif
