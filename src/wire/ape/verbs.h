/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Packets of verbs: what an engine of verbs (wire/roce) would send to another host goes to another
 * node as the payload of one packet, in the flow of requests. So it comes exactly once and in order, unless the
 * node is given up; whatever is done with it there, it is taken at once.
 *
 * Each peer has a ring of WEFT_APE_VERBS_RING of them, in memory of the owner's: from
 * weft_ape_verbs_put until the peer has acknowledged them.
 */
#ifndef WEFT_WIRE_APE_VERBS_H
#define WEFT_WIRE_APE_VERBS_H

#include "wire/ape/ni.h"

/* The owner's memory for all peers; without it there is no room for any. */
#define WEFT_APE_VERBS_MEMORY                                                                      \
	((size_t)WEFT_APE_PEERS * WEFT_APE_VERBS_RING * WEFT_APE_PAYLOAD_BYTES)

void weft_ape_verbs_begin(struct weft_ape_ni *c, uint8_t *memory);

/* Where the payload of the next packet to that node is to be written; NULL: no such node, or not now. Then
 * c->verbs_room becomes true when it may be asked for again; the owner makes it false. */
uint8_t *weft_ape_verbs_room(struct weft_ape_ni *c, struct weft_ape_coord to);

enum weft_ape_verbs_kind {
	WEFT_APE_VERBS_REQUEST,
	WEFT_APE_VERBS_RESPONSE, /* somebody waits for it */
	WEFT_APE_VERBS_ACK,	 /* says only that something came: it may go with a request */
};

/* So many bytes were written there: the packet goes; an acknowledgement after times.late_ns at the latest. */
void weft_ape_verbs_put(struct weft_ape_ni *c, struct weft_ape_coord to, uint16_t bytes,
			enum weft_ape_verbs_kind kind, uint64_t now_ns);

/* ---- Between the files of the network interface ---- */

/* A packet has come from that node. */
void weft_ape_verbs_came(struct weft_ape_ni *c, struct weft_ape_peer *p);
/* Lets go what has waited long enough. */
void weft_ape_verbs_timer(struct weft_ape_ni *c, struct weft_ape_peer *p);
/* One packet more into a flow that takes one. */
bool weft_ape_verbs_cut(struct weft_ape_ni *c);
/* The payload of a slot of that type. */
const uint8_t *weft_ape_verbs_payload(const struct weft_ape_ni *c, const struct weft_ape_peer *p,
				      const struct weft_ape_slot *slot);
/* The peer has acknowledged `count` packets of the flow of requests, the first `from`. */
void weft_ape_verbs_acked(struct weft_ape_ni *c, struct weft_ape_peer *p, uint32_t from,
			  uint32_t count);
/* The peer was given up. */
void weft_ape_verbs_lost(struct weft_ape_ni *c, struct weft_ape_peer *p);

#endif
