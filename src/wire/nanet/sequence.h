/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The numbers of a source's datagrams: which is new, which came before, which is too late, how many
 * never came. A field of few bits is unwrapped to 64. A number that lies far from all that came last
 * is a restart: what came before is remembered beside it, so that stragglers are judged as they were.
 *
 * Of a source, the caller serializes all calls.
 */
#ifndef WEFT_WIRE_NANET_SEQUENCE_H
#define WEFT_WIRE_NANET_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_sequence_options {
	uint8_t bits;	 /* of the field: 16, 24, 32, 64 */
	uint64_t step;	 /* by which it grows */
	uint32_t window; /* a packet more than that behind the highest is late; ≤ history */
	uint32_t
		history; /* numbers of which it is known whether they came: a power of two from 64 */
	uint64_t jump;	 /* the most that may be lost in one piece; beyond, it is a restart */
};

/* One numbering: between restarts. */
struct weft_sequence_run {
	bool begun;
	uint64_t field;	    /* of the highest */
	uint64_t low, high; /* numbers, unwrapped; compared by their difference */
	uint64_t came;	    /* different ones */
	uint64_t *seen;	    /* a bit each for the last `history` up to high */
};

struct weft_sequence {
	struct weft_sequence_options options;
	struct weft_sequence_run run[2];
	uint32_t current;
	uint64_t missed; /* of runs that are forgotten */
	uint64_t restarts, wraps;
};

enum weft_sequence_verdict {
	WEFT_SEQUENCE_NEW,
	WEFT_SEQUENCE_AGAIN,
	WEFT_SEQUENCE_LATE, /* it came for the first time, but behind the window */
};

struct weft_sequence_judged {
	enum weft_sequence_verdict verdict;
	uint64_t number;
	bool behind;	/* the highest: reordered */
	bool restarted; /* with this one */
	bool straggler; /* of the numbering before the restart */
};

/* Whether the options make sense; then so many bytes of memory, aligned to 8, are needed. */
bool weft_sequence_valid(const struct weft_sequence_options *options);
size_t weft_sequence_bytes(const struct weft_sequence_options *options);
void weft_sequence_begin(struct weft_sequence *s, const struct weft_sequence_options *options,
			 void *memory);

void weft_sequence_judge(struct weft_sequence *s, uint64_t field,
			 struct weft_sequence_judged *judged);

/* The numbers between the lowest and the highest that came, in each run, that did not come. */
uint64_t weft_sequence_missing(const struct weft_sequence *s);

#endif
