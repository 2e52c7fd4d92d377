/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One direction of a cable, in shared memory: a ring of beats in a file of its own, which only the cards
 * of the two nodes at its ends map. One writer, one reader; each sleeps behind a door of its own
 * (link/door.h), at which the owner of the other end knocks when a function here says so.
 *
 * A cable that is cut loses what is written; one that is bad loses some beats of a million, and flips a bit of others; one that is long
 * shows the reader what is written a while later.
 *
 * Context: each end one thread. What stands in the file is read once and checked.
 */
#ifndef WEFT_LINK_RING_H
#define WEFT_LINK_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"

#define WEFT_RING_QUADS	      5u /* of the widest beat: four lanes of 66 bits */
#define WEFT_RING_MANY	      1000000u
#define WEFT_CABLE_RING_MAGIC 0x474e495254464557ull

/*
 * word    | writer             | transition                | order
 * `sent`  | writer             | grows                     | release, after the beats; then the reader is knocked for
 * `taken` | reader             | grows, up to `sent`       | release, after it has read the beats; then a fence, then
 *         |                    |                           | `waits` is read
 * `waits` | writer             | to 1: it has no room      | relaxed, then a fence, then `taken` is read once more
 *         | reader             | 1 to 0                    | relaxed, then it knocks for the writer
 * `port`  | writer             | from 0, once a life       | relaxed; one that reads 0 or an old one sends in vain for a while
 * `cut`, `flips`, `losses`, `delay_us` | the lattice's owner | any | relaxed
 *
 * Stale values. A reader of an old `sent` finds the rest when it is knocked for. A writer that reads an old `taken` has
 * stored `waits` before the reader's fence, and is knocked for; it looks again before it sleeps, and sets `waits` anew, so
 * that a 0 which the reader stores over it costs nothing. A writer that reads an old `cut` loses the next beat instead; both ends
 * are knocked for when it changes.
 */
struct weft_ring_file {
	uint64_t magic;
	uint32_t quads;			    /* of a beat */
	uint32_t beats;			    /* a power of two */
	_Alignas(64) _Atomic uint64_t sent; /* [writer] */
	_Atomic uint32_t waits;		    /* [writer] 1: for room; [reader] 0, then it knocks */
	_Atomic uint32_t
		port; /* [writer] of UDP, where its end hears the other, in front of all that it sends; 0: none */
	_Alignas(64) _Atomic uint64_t taken; /* [reader] */
	_Alignas(64) _Atomic uint32_t cut;   /* [the lattice's owner] */
	_Atomic uint32_t flips, losses;	     /* [the lattice's owner] of WEFT_RING_MANY beats */
	_Atomic uint32_t delay_us;	     /* [the lattice's owner] */
	_Alignas(64) uint64_t quad[];	     /* [writer] */
};

/* What of a long cable the reader does not see yet, in so many pieces at most. */
#define WEFT_RING_PIECES 32u

struct weft_ring_piece {
	uint64_t end, due_ns;
};

struct weft_cable_ring {
	struct weft_ring_file *file;
	uint64_t bytes;
	uint32_t quads, beats;
	uint64_t mine, others; /* the count of this end; the other's, as it was seen last */
	uint64_t
		lost; /* of the writer: to a cut or a bad cable; of the reader: to a damaged file */
	uint64_t flipped, random; /* of the writer */
	uint64_t shown;		  /* of the writer: the reader sees those before it */
	struct weft_ring_piece piece[WEFT_RING_PIECES];
	uint32_t first_piece, pieces;
};

/* Makes the file. 0; -EINVAL, or open(2)'s and write(2)'s. */
int weft_ring_make(const char *path, uint32_t quads, uint32_t beats);
/* 0; -EPROTO (it is no such file), or open(2)'s and mmap(2)'s. A reader begins behind all that was
 * sent before. */
int weft_ring_open(struct weft_cable_ring *r, const char *path, bool reads);
void weft_ring_close(struct weft_cable_ring *r);

/* ---- The writer ---- */

/* For so many beats. False: there is none, and the reader is asked to knock when it takes next. */
bool weft_ring_has_room(struct weft_cable_ring *r, uint32_t beats);
/* To be called when there is room. The reader sees the beats after weft_ring_flush, or weft_ring_show. */
void weft_ring_put(struct weft_cable_ring *r, const uint64_t *quad);
void weft_ring_put_run(struct weft_cable_ring *r, const uint64_t *quad, uint32_t beats);
void weft_ring_flush(struct weft_cable_ring *r);
/* The same, when the cable's delay is over. When that will be of what is next; 0: all is shown. */
uint64_t weft_ring_show(struct weft_cable_ring *r, uint64_t now_ns);

/* ---- The reader ---- */

bool weft_ring_take(struct weft_cable_ring *r, uint64_t quad[WEFT_RING_QUADS]);
/* Beats that lie side by side, at most so many; they are read where they lie, once, and then skipped. */
uint32_t weft_ring_look(struct weft_cable_ring *r, uint32_t most, const uint64_t **quad);
void weft_ring_skip(struct weft_cable_ring *r, uint32_t beats);
/* The writer has carried on by other means what was shown (link/cable_udp.h): nothing reads the ring, its content stays to be looked at. */
void weft_ring_pass(struct weft_cable_ring *r);

/* Gives the room of what was taken back to the writer. Returns whether more is there. */
bool weft_ring_give_back(struct weft_cable_ring *r);
/* After weft_ring_give_back and a fence: whether the writer is to be woken. */
bool weft_ring_is_awaited(struct weft_cable_ring *r);

#endif
