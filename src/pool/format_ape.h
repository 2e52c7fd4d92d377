/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the card of a torus and the programs of its node say to each other: the card's own page, and
 * for each of 64 processes the rings of descriptors, commands and events. It has a place of its own
 * in the file, which is never leased: what a process that has died wrote last can be read for ever.
 *
 * Counts only ever grow, over all processes that had the slot; place n of a ring is n % size.
 *
 * Writers: [C] the card, [P] the process that has the slot, [L] and [*] as in format.h.
 */
#ifndef WEFT_POOL_FORMAT_APE_H
#define WEFT_POOL_FORMAT_APE_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_OFF_APE		 (192ull << 20) /* beside those of format.h */

#define WEFT_POOL_APE_SLOTS	 64u
#define WEFT_POOL_APE_BUFFERS	 64u /* of a process */
#define WEFT_POOL_APE_POSTS	 64u
#define WEFT_POOL_APE_COMMANDS	 64u
#define WEFT_POOL_APE_EVENTS	 256u
#define WEFT_POOL_APE_CABLES	 6u
#define WEFT_POOL_APE_KINDS	 7u /* of beats */
#define WEFT_POOL_APE_DESCRIPTOR 64u

/* For a process's door, as link/door.h has it. */
struct weft_pool_ape_door {
	_Atomic uint32_t words[2]; /* [*] */
};

enum weft_pool_ape_op {
	WEFT_POOL_APE_REGISTER,
	WEFT_POOL_APE_UNREGISTER,
};

/* How a command ended. */
enum weft_pool_ape_result {
	WEFT_POOL_APE_DONE,
	WEFT_POOL_APE_WRONG, /* no such operation, buffer, range or right */
	WEFT_POOL_APE_GONE,  /* a SEND has taken the buffer that was to be withdrawn */
};

struct weft_pool_ape_command {
	uint32_t op, buffer;
	uint64_t rights, addr, bytes; /* rights: enum weft_ape_rights */
	uint64_t zero[4];
};

struct weft_pool_ape_event {
	uint8_t kind, status; /* enum weft_ape_event_kind, weft_ape_status */
	uint16_t channel;
	uint32_t from; /* packed coordinate */
	uint64_t tag, bytes;
	uint64_t zero;
};

/*
 * word       | writer  | transition                      | order
 * `owner`    | process | 0 to its lease word             | release, after `base`, `life`, and its counts, which are made
 *            |         |                                 | equal to the card's; under the lock
 * `claims`   | process | grows                           | release, after `owner`; under the lock
 * `leaves`   | process | to its lease word: it is through| release
 * `owner`    | card    | to 0                            | release, when that process leaves or has died, and nothing of
 *            |         |                                 | it is under way any more
 * `posted`   | process | grows                           | release, after the descriptor; then it knocks at the card
 * `taken`    | card    | grows, up to `posted`           | release, after it has read the descriptor
 * `asked`    | process | grows                           | release, after the command; then it knocks
 * `answered` | card    | grows, up to `asked`            | release, after `answer`
 * `events`   | card    | grows                           | release, after the event
 * `polled`   | process | grows, up to `events`           | release, after it has read the event
 * `lost`     | card    | grows: an event had no room     |
 * `count`    | card    | grows by each message; to 0     | release, after the bytes; relaxed, before `answered`
 *            |         | when the buffer is registered   |
 * `told`     | card    | grows                           | release, after all of the above; then it knocks
 * card's     | card    | 0 to its lease word; to 0       | release, after its page; before programs are told that it
 * `word`     |         |                                 | has ended
 * `life`     | card    | another one                     | relaxed, before `word`
 *
 * Each side reads the other's counts with acquire.
 *
 * Stale values. A reader of an old count finds less than there is: it is knocked for after the count was stored, and
 * looks again. A process that reads an old `taken`, and a card that reads an old `polled`, takes the ring for full: the
 * process is told to come again (-EAGAIN), the card counts the event as lost, which libweft-ape does not let happen
 * (struct ape's `owed`). A program that reads an old `word` posts to a card that has ended, and finds at its next wait
 * that this lives no more. A slot with the `life` of another card is served by none, and freed when its process has gone.
 */
struct weft_pool_ape_slot {
	_Alignas(WEFT_LINE) _Atomic uint64_t owner; /* [L], [C] */
	_Atomic uint64_t leaves;		    /* [P] */
	uint64_t base; /* [P] where the pool's bytes begin in its address space */
	uint64_t life; /* [P] of the card that it came to */
	_Alignas(WEFT_LINE) _Atomic uint64_t posted; /* [P] descriptors */
	_Atomic uint64_t asked;			     /* [P] commands */
	_Alignas(WEFT_LINE) _Atomic uint64_t taken;  /* [C] */
	_Atomic uint64_t answered;		     /* [C] */
	_Atomic uint64_t events;		     /* [C] */
	_Atomic uint64_t lost;			     /* [C] events without room */
	_Atomic uint64_t told; /* [C] grows when something was written here; then it knocks */
	_Alignas(WEFT_LINE) _Atomic uint64_t polled; /* [P] */
	_Alignas(WEFT_LINE) struct weft_pool_ape_door door;
	_Alignas(WEFT_LINE) _Atomic uint64_t count[WEFT_POOL_APE_BUFFERS]; /* [C] messages */
	uint32_t answer[WEFT_POOL_APE_COMMANDS]; /* [C] enum weft_pool_ape_result */
	_Alignas(WEFT_LINE) uint8_t post[WEFT_POOL_APE_POSTS][WEFT_POOL_APE_DESCRIPTOR]; /* [P] */
	struct weft_pool_ape_command command[WEFT_POOL_APE_COMMANDS];			 /* [P] */
	struct weft_pool_ape_event event[WEFT_POOL_APE_EVENTS];				 /* [C] */
};

/* What the card says of a cable. */
struct weft_pool_ape_cable {
	_Atomic uint64_t sent[WEFT_POOL_APE_KINDS], received[WEFT_POOL_APE_KINDS]; /* [C] beats */
	_Atomic uint64_t went_down;						   /* [C] */
};

struct weft_pool_ape_card {
	_Atomic uint64_t word; /* [C] its lease word, stored last; 0: none runs */
	_Atomic uint64_t life; /* [C] of each card of the node another than of the one before */
	uint8_t size[3], line[3], at[3];	     /* [C] */
	uint8_t locals, engines;		     /* [C] */
	_Alignas(WEFT_LINE) _Atomic uint64_t claims; /* [L] slots that were taken, ever */
	/* [C] as they were when it went to sleep last, or within some milliseconds */
	_Alignas(WEFT_LINE) struct weft_pool_ape_cable cable[WEFT_POOL_APE_CABLES];
	_Atomic uint64_t up;					/* cables, as bits */
	_Atomic uint64_t packets, again, refused, no_room, bad; /* bad: by footer, way or life */
	_Atomic uint64_t put_bytes, get_bytes, send_bytes;
	_Atomic uint64_t sleeps;
};

struct weft_pool_ape {
	struct weft_pool_ape_card card;
	_Alignas(WEFT_PAGE) struct weft_pool_ape_slot slot[WEFT_POOL_APE_SLOTS];
};

_Static_assert(sizeof(struct weft_pool_ape_command) == 64 &&
		       sizeof(struct weft_pool_ape_event) == 32,
	       "rings of whole lines");

#endif
