/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A circular list of persistent buffers (CLOP): which buffer is filled, and where in it a datagram
 * goes. A buffer is free, open (being filled) or out (told, until it is given back). The bytes are
 * the caller's: here are only their places.
 *
 *	packed	payloads behind each other
 *	slots	a place for each datagram; ordered: the place that its number says, so that reordering
 *		is undone. Then a buffer holds the numbers from a multiple of `slots`, and the last two
 *		begun are open, as what is within the window may still come.
 *
 * The caller serializes all calls on a list.
 */
#ifndef WEFT_WIRE_NANET_CLOP_H
#define WEFT_WIRE_NANET_CLOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_CLOP_OPEN 2u

struct weft_clop_options {
	uint32_t buffers;
	uint32_t bytes;	       /* of each */
	uint32_t slots;	       /* in each; 0: packed */
	uint32_t slot_bytes;   /* slots × slot_bytes ≤ bytes */
	uint32_t footer_bytes; /* at the end of each slot, which no datagram may use */
	bool ordered;	       /* slots is a power of two, the list has one numbered source */
	/* A buffer is told of when it is full, and: */
	uint32_t datagrams;  /* holds so many; 0: however many */
	uint32_t events;     /* holds so many of the protocol, or more; 0: however many */
	uint64_t timeout_ns; /* so long after its first byte; 0: never */
	bool bursts;	     /* a burst ended */
};

enum weft_clop_why {
	WEFT_CLOP_FULL, /* no room for the next, or none at all */
	WEFT_CLOP_DATAGRAMS,
	WEFT_CLOP_EVENTS,
	WEFT_CLOP_TIME,
	WEFT_CLOP_BURST,
	WEFT_CLOP_FLUSHED,
	WEFT_CLOP_RESTARTED, /* the numbers of the next begin anew */
	WEFT_CLOP_WHYS,
};

enum weft_clop_state {
	WEFT_CLOP_STATE_FREE,
	WEFT_CLOP_STATE_OPEN,
	WEFT_CLOP_STATE_OUT,
};

struct weft_clop_buffer {
	enum weft_clop_state state;
	uint32_t generation; /* how often it was opened */
	uint32_t bytes;	     /* of payloads */
	uint32_t used;	     /* up to where there are payloads */
	uint32_t datagrams, events;
	uint32_t numbered; /* of the datagrams, those with low ≤ number ≤ high */
	uint64_t first_ns, last_ns;
	uint64_t low, high;
	uint64_t block; /* ordered: number / slots */
};

/* What is told of a buffer. low, high, missing: of a list with one numbered source, else 0. */
struct weft_clop_record {
	uint32_t list, buffer, generation;
	enum weft_clop_why why;
	uint32_t bytes; /* up to where there are payloads */
	uint32_t datagrams, events;
	uint64_t first_sequence, last_sequence; /* the lowest and the highest, unwrapped */
	uint64_t missing;			/* of the numbers between */
	uint64_t first_ns, last_ns;
};

/* A datagram that wants a place. */
struct weft_clop_datagram {
	uint32_t bytes, events;
	bool last;     /* of a burst */
	bool numbered; /* in the run of numbers that counts */
	uint64_t number;
};

struct weft_clop_place {
	uint32_t buffer,
		slot; /* slot: its number among the buffer's datagrams, or ordered its place */
	uint32_t offset;
};

struct weft_clop {
	struct weft_clop_options options;
	uint32_t longest; /* that a datagram may be */
	struct weft_clop_buffer *buffer;
	uint32_t next, free; /* where to look for a free one; how many there are */
	uint32_t open[WEFT_CLOP_OPEN], opened; /* oldest first */
	bool has_closed;
	uint64_t closed; /* ordered: the highest block told of */
};

/* What comes of a datagram: at most one place, and before and after it buffers to tell of. */
enum weft_clop_verdict {
	WEFT_CLOP_PLACED,
	WEFT_CLOP_NO_BUFFER,
	WEFT_CLOP_TOO_LATE, /* ordered: its buffer has been told of */
};

struct weft_clop_out {
	enum weft_clop_verdict verdict;
	uint32_t before, after;				    /* records */
	struct weft_clop_record record[2 * WEFT_CLOP_OPEN]; /* those before, then those after */
	struct weft_clop_place place;
};

bool weft_clop_valid(const struct weft_clop_options *options);
/* The memory that a list needs, aligned to 8. */
size_t weft_clop_bytes(const struct weft_clop_options *options);
void weft_clop_begin(struct weft_clop *c, const struct weft_clop_options *options, void *memory);

/* Whether a datagram of so many bytes can have a place at all. */
static inline bool weft_clop_takes(const struct weft_clop *c, uint32_t bytes)
{
	return bytes <= c->longest;
}
void weft_clop_put(struct weft_clop *c, const struct weft_clop_datagram *d, uint64_t now_ns,
		   struct weft_clop_out *out);
/* Ends all open buffers, oldest first, and makes their records; returns how many, at most WEFT_CLOP_OPEN. */
uint32_t weft_clop_end(struct weft_clop *c, enum weft_clop_why why,
		       struct weft_clop_record record[]);
/* Ends the oldest open buffer whose time is up; returns whether there is one. */
bool weft_clop_expire(struct weft_clop *c, uint64_t now_ns, struct weft_clop_record *record);
/* When the first time is up, or UINT64_MAX. */
uint64_t weft_clop_deadline(const struct weft_clop *c);
/* Whether the buffer was out with this generation; it is free then. */
bool weft_clop_give_back(struct weft_clop *c, uint32_t buffer, uint32_t generation);

/* For lists of slots: the buffer that the next datagram will go to if it is new and follows the others; returns for how
 * many datagrams that is so. 0: there is no such buffer. */
uint32_t weft_clop_expect(const struct weft_clop *c, uint32_t *buffer);

/* For packed lists: where the next datagrams lie behind each other if they are new, and none ends a buffer but by being too long
 * for what is left of it; then those after them, in the next buffer. How many of both there are. */
struct weft_clop_rest {
	uint32_t buffer, offset, bytes;
};
uint32_t weft_clop_rests(const struct weft_clop *c, struct weft_clop_rest rest[2]);

const char *weft_clop_why_str(enum weft_clop_why why);

#endif
