/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How the application is told of buffers, and gives them back: a ring of records, a word for each
 * buffer, and a descriptor. All of it lies in memory that a child of fork shares, and nothing there is a
 * lock: a process that is killed at any step keeps at most the one buffer that it had in hand.
 *
 * Buffers are numbered through all lists. A buffer is told of only after it was given back, and its
 * record was taken before: so the ring has room for as many records as there are buffers.
 *
 * word      | writer      | transition                     | order
 * `held`    | receiver    | 0 to TOLD, or at once to TAKEN | relaxed, before `word`
 *           |             | if it is told by the word alone|
 * `word`    | receiver    | to {generation, bytes}         | release, after the buffer's bytes
 * `tail`    | receiver    | grows                          | release, after the record and `word`
 * `head`    | taker       | grows by one, by exchange      | acquire and release, after it has read the record
 * `held`    | taker       | TOLD to TAKEN                  | release, after that
 *           | application | TAKEN to 0, by exchange        | acquire
 * `given`,  | application | bits to 1: first `given`       | release, after that
 * `some`    | receiver    | to 0, by exchange: first `some`| acquire, before the buffer is filled anew
 * `armed`   | taker       | to 1                           | relaxed; then a fence, then `tail` and `stopped` are read
 *           | receiver    | 1 to 0, by exchange            | behind a fence after what it told; then the descriptor is
 *           |             |                                | written to
 *           | taker       | to 0: there is something       | relaxed
 * `stopped` | receiver    | 0 to 1                         | release, after the last record
 *
 * Stale values. A taker that reads an old `tail` finds nothing, and the descriptor readable if it is armed. One that
 * reads an old `head` loses its exchange, and drops what it has read. An application that reads an old `word` polls on.
 * One that gives a buffer back before the taker has stored TAKEN is told so (-EBUSY). A receiver that reads `some` 0 has
 * the buffer at its next look; of a bit of `given` whose `some` comes later that look finds nothing left. A receiver that
 * reads `armed` 0 has told before the taker's fence, and the taker finds it.
 *
 * Context: weft_tell_put and weft_tell_returned are the receiver's; all else any thread's.
 */
#ifndef WEFT_STREAM_TELL_H
#define WEFT_STREAM_TELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/stream.h"

#define WEFT_TELL_WORDS (sizeof(struct weft_stream_event) / 8)

struct weft_tell_shared {
	_Atomic uint64_t tail; /* records put; the receiver's */
	_Atomic uint64_t head; /* records taken */
	_Atomic uint32_t armed;
	_Atomic uint32_t stopped; /* the receiver's: no more will come */
};

struct weft_tell {
	struct weft_tell_shared *shared;
	_Atomic uint64_t (*record)[WEFT_TELL_WORDS]; /* a ring of a power of two */
	_Atomic uint64_t *held; /* a buffer: 0, or its generation and whether its record is taken */
	_Atomic uint64_t *word; /* a buffer: weft_stream_words */
	_Atomic uint64_t *given; /* a bit each: given back */
	_Atomic uint64_t *some;	 /* a bit for each 64 of those: there may be one */
	uint64_t mask;
	uint32_t buffers;
	void *memory;
	size_t bytes;
	int fd;
};

/* -ENOMEM, or of the descriptor by errno. */
int weft_tell_begin(struct weft_tell *t, uint32_t buffers);
void weft_tell_end(struct weft_tell *t);

/* The receiver tells; by the word alone, or by a record, too. */
void weft_tell_put(struct weft_tell *t, uint32_t buffer, const struct weft_stream_event *event,
		   bool word_only);
/* Calls back for each buffer that was given back since. */
void weft_tell_returned(struct weft_tell *t, void (*free)(void *context, uint32_t buffer),
			void *context);
/* No more will be told. */
void weft_tell_stop(struct weft_tell *t);

/* -EAGAIN: there is nothing; -ESHUTDOWN: nor will be. base: the number of the first buffer of each
 * list. */
int weft_tell_take(struct weft_tell *t, const uint32_t base[], struct weft_stream_event *event);
/* -EAGAIN: there is something, or nothing will come. */
int weft_tell_arm(struct weft_tell *t);
/* -ESTALE, -EBUSY: weft_stream_give_back. */
int weft_tell_give_back(struct weft_tell *t, uint32_t buffer, uint32_t generation);

#endif
