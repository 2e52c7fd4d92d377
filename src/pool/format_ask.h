/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a member asks in the pool of another one. Writers: as in format.h. */
#ifndef WEFT_POOL_FORMAT_ASK_H
#define WEFT_POOL_FORMAT_ASK_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

/*
 * What a thread, or a request under way, asks of another member's helper: work on memory that only that
 * one reaches; or, as a call, on a queue pair that that one has made.
 *
 * word        | writer       | transition                                | order
 * `seq`       | asker        | even to the next odd number: asked        | release, after all other fields
 *             | asker, late  | odd to the next odd number: the next part | release, likewise; the one before was answered
 *             | asker        | odd to the next even one: heard, or given | relaxed; given up, then a fence, then it looks
 *             |              | up                                        | whether a line of that member names it
 *             | recoverer,   | odd to the even number below: the asker   | format.h
 *             | asker leaves | has gone                                  |
 * `answered`  | helper       | to the `seq` that it has read             | release, after `value`, `error` and the bytes
 *
 * The helper visits the asker (pool/visit.c) before it looks, behind a fence, whether it is still asked: so an asker that
 * has given up sees it at work, and uses neither the ask nor its bounce buffer again before it has left.
 *
 * Stale values. A helper that reads an old `seq` does nothing, and has been signalled again. One that answers a number
 * which was given up stores an `answered` that no asker waits for: numbers never come twice. An asker that reads an old
 * `answered` looks again, until a second is over or the helper's process is dead. What is asked for by an executor whose
 * grant has ended is refused, as the helper looks at the grant's word itself.
 */
struct weft_pool_ask {
	/* [O] the asker: odd while asked; the answer is due for exactly this number; [L] a recoverer: even */
	_Alignas(WEFT_LINE) _Atomic uint64_t seq;
	uint32_t target; /* member */
	uint32_t kind;	 /* enum weft_ask_kind (ask.h) */
	uint64_t va;
	uint64_t len_bytes;
	uint64_t operand
		[2]; /* of an atomic; of WRITE the id of the asker's region in which its bytes lie, or 0 */
	uint64_t bounce_off; /* where the bytes come from or go to, in a segment of the asker */
	/* id of the region in which all of it lies, at which the helper looks; of calls: the QPN, and above it the
	 * domain */
	uint64_t id;
	/* not of calls: the grant's word, and what it was, at which the helper looks; of changes 0: at none */
	uint64_t grant_off, grant_was;
	/* [P] the helper of `target` */
	_Alignas(WEFT_LINE) _Atomic uint64_t answered; /* the seq it answers, stored last */
	uint64_t value; /* of an atomic the old one; of WRITES how many are done */
	int64_t error;	/* 0 or -errno */
};

/*
 * Of WEFT_ASK_WRITES: `bounce_off` is where a list of these begins, as many as `len_bytes` says, in the order in which they are to
 * be carried out; their bytes follow it. The helper ends at the first that is refused; `value` is the number of those
 * before that. [O] the asker, before `seq`.
 */
struct weft_gathered {
	uint64_t va;
	uint32_t len_bytes;
	uint32_t at; /* of its bytes, from bounce_off on */
};

#define WEFT_GATHERED_MOST 64u

#endif
