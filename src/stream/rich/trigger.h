/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The primitives of a trigger: one for each event that has rings, those of 6.4 µs in a datagram. The meaning of a
 * primitive's id is Weft's choice: the number of rings in bits 3:0, of hits in bits 15:8.
 */
#ifndef WEFT_STREAM_RICH_TRIGGER_H
#define WEFT_STREAM_RICH_TRIGGER_H

#include "stream/rich/rings.h"
#include "wire/nanet/mtp.h"

const char *weft_trigger_name(enum weft_rings_algorithm algorithm);

/* Adds the event's primitive to those that have not been sent, if it has rings. If the primitives before it are to be sent first, as this
 * one belongs to another 6.4 µs or there is no room, their datagram is written to `to`, and its length returned; else 0. */
uint32_t weft_trigger_add(struct weft_mtp *mtp, const struct weft_decision *decision,
			  uint8_t to[WEFT_MTP_MAX_BYTES]);
/* Writes the datagram of the primitives that have not been sent; its length, or 0. */
uint32_t weft_trigger_flush(struct weft_mtp *mtp, uint8_t to[WEFT_MTP_MAX_BYTES]);

#endif
