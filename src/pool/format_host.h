/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a host tells the others, in a page of its own that only members of it write, but for `asked` and `evicted`. Writers:
 * as in format.h, [O] being any member of that host. In a pool of one host nothing looks here.
 *
 * Ending a right where others may use it:
 *
 * word                  | writer                | transition            | order
 * `uses` of the owner   | executor's host       | grows to the owner's  | then a fence, then the owner's entries are read
 *                       |                       | incarnation, by       |
 *                       |                       | exchange in that host |
 * conn, id              | owner                 | as in their headers   | before the next
 * `quiesce` of it       | owner, or recoverer   | its sequence grows    | then a fence, then `uses` of each host is read
 * `asked` of the host   | asker                 | 0 to 1                | after `quiesce`
 *                       | any helper there      | 1 to 0                | then a fence, then every `quiesce` is read
 * `answered` of it      | any helper there      | to the sequence in    | after a barrier on that host's members, and when none of
 *                       |                       | `quiesce`, as read    | its busy lines names the owner
 * `answered_qp` of it   | any helper there      | to `quiesce`, as read | the same, when none names that queue pair of the owner
 * `evicted` of it       | `weft pool evict`     | to `life`, as read    | stands in for all answers of that life
 *
 * Stale values. An owner that reads an old `uses` has ended the right before its fence, so that the executor, whose
 * fence comes later, reads the end. Two helpers may store an older answer after a newer one: the asker waits on, and
 * `asked` is stored again. An asker that reads in `answered` a later sequence is right to take it: no executor was at the
 * owner then. What is said of one queue pair answers that very question alone.
 */
#ifndef WEFT_POOL_FORMAT_HOST_H
#define WEFT_POOL_FORMAT_HOST_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_OFF_HOSTS		    (34ull << 20)
#define WEFT_HOST_NAME		    40u

#define WEFT_QUIESCE(sequence, qp)  ((sequence) << WEFT_QP_INDEX_BITS | (qp))
#define WEFT_QUIESCE_SEQUENCE(word) ((word) >> WEFT_QP_INDEX_BITS)
#define WEFT_QUIESCE_QP(word)	    ((uint32_t)((word) & (WEFT_QPS - 1)))

struct weft_pool_host {
	/* [O] how often the host has come with a new home; 0: never. Stored last */
	_Alignas(WEFT_PAGE) _Atomic uint64_t life;
	_Atomic uint64_t beat;	  /* [O] changes while a member of it goes on */
	_Atomic uint64_t home;	  /* [O] `id` of its home; stored before `life` */
	_Atomic uint64_t evicted; /* [*] the life which is over for good, as an operator has said */
	char name
		[WEFT_HOST_NAME]; /* [O] of the machine, for people; ends with a zero unless it is longer */
	_Alignas(WEFT_LINE) _Atomic uint32_t asked; /* [*] 1, [O] a helper: 0 */
	/* by member of any host: the incarnation of it that a member of this host has used */
	_Alignas(WEFT_LINE) _Atomic uint64_t uses[WEFT_MEMBERS]; /* [O] */
	/* by member of any host: when none of this host was at it, and at the queue pair it named */
	_Atomic uint64_t answered[WEFT_MEMBERS];    /* [O] */
	_Atomic uint64_t answered_qp[WEFT_MEMBERS]; /* [O] */
};

#endif
