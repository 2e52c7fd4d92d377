/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What has come in on a port and waits: for each virtual channel the headers and footers in one
 * FIFO, the payload in another. Depths are parameters; nothing is ever deeper.
 */
#ifndef WEFT_WIRE_APE_FIFO_H
#define WEFT_WIRE_APE_FIFO_H

#include "wire/ape/packet.h"

#define WEFT_APE_HEADER_DEPTH 128u /* as the hardware has it */
#define WEFT_APE_DATA_DEPTH   512u
#define WEFT_APE_DEPTH_MAX    1920u /* with its margin below 2,048: as much may stand in a credit */
#define WEFT_APE_HEADERS_MAX  128u

struct weft_ape_fifo {
	struct weft_ape_word *word; /* depth of them, the owner's */
	uint32_t depth, first, count, deepest;
};

static inline void weft_ape_fifo_push(struct weft_ape_fifo *f, struct weft_ape_word w)
{
	uint32_t place = f->first + f->count++;

	f->word[place < f->depth ? place : place - f->depth] = w;
	if (f->count > f->deepest)
		f->deepest = f->count;
}

static inline struct weft_ape_word weft_ape_fifo_pop(struct weft_ape_fifo *f)
{
	struct weft_ape_word w = f->word[f->first];

	f->first = f->first + 1 < f->depth ? f->first + 1 : 0;
	f->count--;
	return w;
}

/* One virtual channel of a port. */
struct weft_ape_queue {
	struct weft_ape_fifo headers, data;
};

/* The least room with which a packet is granted: for its header and its footer. */
#define WEFT_APE_HEADER_ROOM 2u

static inline bool weft_ape_queue_has_room(const struct weft_ape_queue *q, unsigned int words)
{
	return q->headers.count + WEFT_APE_HEADER_ROOM <= q->headers.depth &&
	       q->data.count + words <= q->data.depth;
}

#endif
