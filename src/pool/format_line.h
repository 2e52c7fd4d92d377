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
 * WEFT_BUSY_BITS a sequence. A revoker is the owner of what ends: a key, a connection, its membership.
 *
 * word             | writer    | transition                             | order
 * `busy`           | executor  | {n, nowhere} to {n + 1, place}         | relaxed, then a fence of the compiler, then it looks
 *                  |           |                                        | at the word that may end
 * `also`           | executor  | to {n + 1, member}, or {n + 1, all}    | relaxed, then the same fence, then that member's
 *                  |           |                                        | `rehomings` and key
 * the word         | revoker   | to what ends it (format_qp.h,          | then a barrier on all threads, which stands in for
 *                  |           | format_region.h, format_member.h)      | the executors' fences; then it looks at all lines
 * `busy`           | executor  | {n + 1, place} to {n + 1, nowhere}     | release, after its last store there
 *                  | recoverer | to 0, and `also`                       | format.h
 *
 * The revoker notes each line that names it, and waits until that reads otherwise, with acquire. One that does not
 * within a second is a suspect of this process (pool/quarantine.c): what it may reach is retired, and not waited for
 * again. Lines are read behind the member's count of them (`lines`, release and acquire).
 *
 * Stale values. A revoker that reads an old line which does not name it, or an old count of lines, has passed the barrier
 * before the executor stored: the executor sees the ended word, and leaves. One that reads an old line which names it
 * waits a little longer, or once more in vain: the sequence tells an execution from the next at the same place. An
 * executor that reads the old word has stored its line before the barrier: the revoker waits for it.
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
 * While it executes there, the thread may touch memory of a further member: of a protection domain that processes
 * share. Its word in `also` names that one, + 1, or WEFT_ALSO_ALL, under the sequence of `busy`; under another one
 * it says nothing, so that it is never cleared.
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

struct weft_pool_busy_line {
	_Atomic uint64_t busy;	       /* [O] the thread */
	struct weft_counters counters; /* [O] the thread */
};

_Static_assert(WEFT_MEMBERS < 1 << WEFT_BUSY_MEMBER_BITS && WEFT_BUSY_BITS < 31,
	       "a busy line has room");
_Static_assert(sizeof(struct weft_pool_busy_line) == WEFT_LINE, "a thread writes one line");

#endif
