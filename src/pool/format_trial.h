/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where `weft pool test` tries a memory of several hosts: between leases and members, which is the same place in the memory
 * whatever its size, and whether a pool is there or not. Two processes at a time, each a *side* with a place of its own, in
 * which no other stores; of two that have taken one place the first goes to another. Nothing else of a pool looks here.
 *
 * Page 0 of a place is for what has to arrive also where the memory is not coherent: its stores are written back to the
 * memory, and its lines are given up before they are loaded. Page 1 is what is tried, by plain stores and loads.
 *
 * word             | writer | transition                  | order
 * `id`             | side   | 0 to its number, to 0       | release; last when it comes, first when it goes
 * `peer`           | side   | the `id` of another, or 0   | release
 * `stage`          | side   | grows                       | release, after all that the stage before has stored
 * `stored`,`chunk` | side   | grow                        | release
 * `pulse`          | side   | grows while it goes on      | release
 * `number`, `word` | side   | grow                        | `word` relaxed, then `number` release
 * `sum`            | both   | grows, by fetch and add     | relaxed; of the side with the lesser `id`
 *
 * Stale values. A side that was killed leaves its place as it is: its pulse stands still, and the next that comes there
 * wipes it. A side that reads an old `peer` finds no match yet, and looks again.
 */
#ifndef WEFT_POOL_FORMAT_TRIAL_H
#define WEFT_POOL_FORMAT_TRIAL_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_TRIAL_MAGIC                                                                           \
	0x5453455454464557ull /* "WEFTTEST"; another where this layout is another */
#define WEFT_OFF_TRIAL	      (512ull << 10)
#define WEFT_TRIAL_SIDES      16u
#define WEFT_TRIAL_LINES      16u
#define WEFT_TRIAL_LINE_WORDS (WEFT_LINE / 8)
#define WEFT_TRIAL_NAME_WORDS 5u

enum weft_trial_stage {
	WEFT_TRIAL_MEETING,
	WEFT_TRIAL_MET,	   /* its peer is the one that it names, for good */
	WEFT_TRIAL_STORED, /* `stored` is the last number */
	WEFT_TRIAL_READY,  /* to add */
	WEFT_TRIAL_ADDED,
	WEFT_TRIAL_SAID, /* `found` is all that it has found */
	WEFT_TRIAL_HEARD,
};

enum weft_trial_finding {
	WEFT_TRIAL_READ,     /* numbers of the peer's that it has seen */
	WEFT_TRIAL_BACK,     /* loads of a number less than that word had before */
	WEFT_TRIAL_STALE,    /* loads of a number less than the peer had stored there before */
	WEFT_TRIAL_TORN,     /* loads of a word whose halves are of two stores */
	WEFT_TRIAL_MISSING,  /* words that never had the peer's last number */
	WEFT_TRIAL_MET_ADDS, /* additions between which and the one before the peer's came */
	WEFT_TRIAL_SUM,
	WEFT_TRIAL_LOAD_NS, /* what a load takes of a word that was just loaded */
	WEFT_TRIAL_FINDINGS,
};

struct weft_trial_line {
	_Alignas(WEFT_LINE) _Atomic uint64_t word[WEFT_TRIAL_LINE_WORDS];
};

struct weft_trial_side {
	_Alignas(WEFT_PAGE) _Atomic uint64_t id;
	_Atomic uint64_t peer;
	_Atomic uint64_t stage; /* enum weft_trial_stage */
	_Atomic uint64_t pulse;
	_Atomic uint64_t stored;
	_Atomic uint64_t chunk;
	_Atomic uint64_t adds;	 /* whether it is to */
	_Atomic uint64_t kernel; /* that it runs on: the same number for all of one kernel */
	_Alignas(WEFT_LINE) _Atomic uint64_t name[WEFT_TRIAL_NAME_WORDS]; /* of its machine */
	_Alignas(WEFT_LINE) _Atomic uint64_t found[WEFT_TRIAL_FINDINGS];

	_Alignas(WEFT_PAGE) _Atomic uint64_t number;
	_Alignas(WEFT_LINE) _Atomic uint64_t sum;
	struct weft_trial_line line[WEFT_TRIAL_LINES];
};

struct weft_trial_room {
	_Alignas(WEFT_PAGE) _Atomic uint64_t magic; /* [*] */
	struct weft_trial_side side[WEFT_TRIAL_SIDES];
};

#endif
