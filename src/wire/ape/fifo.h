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
#define WEFT_APE_DEPTH_TOLD   3840u /* with its margin below 4,096: as much may stand in a credit */
#define WEFT_APE_DEPTH_NARROW                                                                      \
	1920u /* the same of cables of 64 bits: half a credit must not look like MAGIC */
#define WEFT_APE_SHIFT_MAX   4u /* deeper FIFOs are told in units of up to 1 << 4 words */
#define WEFT_APE_DEPTH_MAX   (WEFT_APE_DEPTH_TOLD << WEFT_APE_SHIFT_MAX)
#define WEFT_APE_HEADERS_MAX 128u

struct weft_ape_fifo {
	struct weft_ape_word *word; /* depth of them, the owner's */
	uint32_t depth, first, count, deepest;
};

/* The place of the next word. */
static inline uint32_t weft_ape_fifo_end(const struct weft_ape_fifo *f)
{
	uint32_t place = f->first + f->count;

	return place < f->depth ? place : place - f->depth;
}

static inline void weft_ape_fifo_push(struct weft_ape_fifo *f, struct weft_ape_word w)
{
	f->word[weft_ape_fifo_end(f)] = w;
	f->count++;
	if (f->count > f->deepest)
		f->deepest = f->count;
}

/* The same for a run of words, of bytes; there is room. */
static inline void weft_ape_fifo_push_bytes(struct weft_ape_fifo *f, const uint8_t *bytes,
					    uint32_t count)
{
	uint32_t place = weft_ape_fifo_end(f);
	uint32_t run = weft_ape_least(count, f->depth - place);

	weft_ape_words_load(f->word + place, bytes, run);
	if (run < count)
		weft_ape_words_load(f->word, bytes + (size_t)run * WEFT_APE_WORD_BYTES,
				    count - run);
	f->count += count;
	if (f->count > f->deepest)
		f->deepest = f->count;
}

/* Where the next words go, if so many have room there side by side; else NULL. */
static inline uint8_t *weft_ape_fifo_place(const struct weft_ape_fifo *f, uint32_t count)
{
	uint32_t place = weft_ape_fifo_end(f);

	return count <= f->depth - f->count && count <= f->depth - place
		       ? (uint8_t *)(f->word + place)
		       : NULL;
}

/* Takes out so many words. An empty FIFO begins at its front again, so that little memory is touched while little waits. */
static inline void weft_ape_fifo_drop(struct weft_ape_fifo *f, uint32_t count)
{
	f->first += count;
	f->count -= count;
	if (f->first >= f->depth)
		f->first -= f->depth;
	if (!f->count)
		f->first = 0;
}

static inline struct weft_ape_word weft_ape_fifo_pop(struct weft_ape_fifo *f)
{
	struct weft_ape_word w = f->word[f->first];

	weft_ape_fifo_drop(f, 1);
	return w;
}

/* Words that lie side by side at the front. */
static inline uint32_t weft_ape_fifo_run(const struct weft_ape_fifo *f)
{
	return weft_ape_least(f->count, f->depth - f->first);
}

/* Takes out so many words as the bytes that they stand for: where they lie until others come, or in `aside`. */
static inline const uint8_t *weft_ape_fifo_pop_bytes(struct weft_ape_fifo *f, uint32_t count,
						     uint8_t *aside)
{
	struct weft_ape_word *at = f->word + f->first;
	uint32_t run = weft_ape_least(count, f->depth - f->first);

	if (run == count)
		aside = (uint8_t *)at;
	weft_ape_words_store(at, aside, run);
	if (run < count)
		weft_ape_words_store(f->word, aside + (size_t)run * WEFT_APE_WORD_BYTES,
				     count - run);
	weft_ape_fifo_drop(f, count);
	return aside;
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
