/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a thread says in the pool of what it does. Writers: as in format.h. */
#ifndef WEFT_POOL_FORMAT_LINE_H
#define WEFT_POOL_FORMAT_LINE_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/counters.h"
#include "pool/sizes.h"

/*
 * One line a thread. busy: where the thread is executing (weft_busy_at; 0: nowhere), and above
 * WEFT_BUSY_BITS a sequence. A revoker waits until no line names it with the same value.
 */
#define WEFT_BUSY_MEMBER_BITS 11
#define WEFT_BUSY_BITS	      (WEFT_BUSY_MEMBER_BITS + WEFT_QP_INDEX_BITS)

/* At which member, and at which of its queue pairs; 0: at none of them. */
static inline uint64_t weft_busy_at(uint16_t member, uint32_t qp_index)
{
	return (member + 1u) | qp_index << WEFT_BUSY_MEMBER_BITS;
}

/* Without the sequence. */
static inline uint64_t weft_busy_place(uint64_t busy)
{
	return busy & ((1u << WEFT_BUSY_BITS) - 1);
}

/* The member, + 1; 0: nowhere. */
static inline uint32_t weft_busy_member(uint64_t busy)
{
	return busy & ((1u << WEFT_BUSY_MEMBER_BITS) - 1);
}

static inline uint32_t weft_busy_qp(uint64_t busy)
{
	return (uint32_t)(weft_busy_place(busy) >> WEFT_BUSY_MEMBER_BITS);
}

/*
 * While it executes there, the thread may touch memory of a further member: of a protection domain that
 * processes share. Its word in `also` names that one, + 1, or WEFT_ALSO_ALL, under the sequence of `busy`;
 * under another one it says nothing, so that nobody need clear it.
 */
#define WEFT_ALSO_ALL ((1u << WEFT_BUSY_MEMBER_BITS) - 1)

static inline uint32_t weft_also_member(uint64_t also, uint64_t busy)
{
	return (also ^ busy) >> WEFT_BUSY_BITS ? 0 : weft_busy_member(also);
}

/* What it is once it names `member`, too. */
static inline uint64_t weft_also_add(uint64_t also, uint64_t busy, uint16_t member)
{
	uint32_t named = weft_also_member(also, busy);

	return busy >> WEFT_BUSY_BITS << WEFT_BUSY_BITS |
	       (named && named != member + 1u ? WEFT_ALSO_ALL : member + 1u);
}

struct weft_pool_line {
	_Atomic uint64_t busy;	       /* [O] the thread */
	struct weft_counters counters; /* [O] the thread */
};

/* What a thread, or a request under way, asks of another member's helper: work on memory that only that
 * one reaches; or, as a call, on a queue pair that that one has made. */
struct weft_pool_ask {
	/* [O] the asker: odd while asked; the answer is due for exactly this number */
	_Alignas(WEFT_LINE) _Atomic uint64_t seq;
	uint32_t target; /* member */
	uint32_t kind;	 /* enum weft_ask_kind (ask.h) */
	uint64_t va;
	uint64_t len_bytes;
	uint64_t operand[2];
	uint64_t bounce_off; /* where the bytes come from or go to, in a segment of the asker */
	/* of the region in which all of it lies: the helper looks; of calls: the QPN, and above it the domain */
	uint64_t id;
	/* not of calls: the word by which it is allowed, and what that was: the helper looks */
	uint64_t grant_off, grant_was;
	/* [P] the helper of `target` */
	_Alignas(WEFT_LINE) _Atomic uint64_t answered; /* the seq it answers, stored last */
	uint64_t value;
	int64_t error; /* 0 or -errno */
};

_Static_assert(WEFT_MEMBERS < 1 << WEFT_BUSY_MEMBER_BITS && WEFT_BUSY_BITS < 31,
	       "a busy line has room");
_Static_assert(sizeof(struct weft_pool_line) == WEFT_LINE, "a thread writes one line");

#endif
