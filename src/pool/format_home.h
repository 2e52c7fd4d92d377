/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A host's home: what only one kernel can use, or what only its own members look at. Locks, proof of life,
 * busy lines, the words that helpers sleep on, counters. In a pool that is a file it is a part of that file;
 * where several kernels share a pool, each host has a small file of its own, mapped in this place. All else
 * is far: what members of any host see. Writers: as in format.h, all of the same host.
 */
#ifndef WEFT_POOL_FORMAT_HOME_H
#define WEFT_POOL_FORMAT_HOME_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/format_line.h"
#include "pool/sizes.h"

#define WEFT_HOME_MAGIC 0x454d4f4854464557ull /* "WEFTHOME" */

struct weft_pool_home {
	/* [L] how often the lock was taken by members: shows those that wait for it that it goes on */
	_Atomic uint32_t turns;
	uint32_t host; /* [L] the number of the host, below `hosts` of the header */
	/* [L] of the pool that has it; 0 where the home is the pool */
	uint64_t magic, pool_id;
	uint64_t life;		       /* [L] of the host with this home; 0: it has not come yet */
	uint64_t id;		       /* [L] random: another home with this number has another */
	uint64_t incarnations;	       /* [L] the last one given out */
	struct weft_counters departed; /* [L] sums of the members that have gone */
	/* [L] While `merging` names a member, + 1, `merged` is what becomes of `departed`, and the
	 * counters of its lines are void. */
	struct weft_counters merged;
	_Atomic uint64_t merging;
};

/* A member, as those of its own host see it. */
struct weft_pool_near {
	_Alignas(WEFT_PAGE) struct weft_pool_busy_line line[WEFT_MEMBER_LINES];
	/* by line */
	_Atomic uint64_t also[WEFT_MEMBER_LINES]; /* [O] the thread */

	/*
	 * What wakes the helper.
	 *
	 * word        | writer | transition | order
	 * `due`       | any    | to 1       | release, after the work
	 * `signalled` | any    | to 1       | release, after `due`; then a fence of the compiler, then `asleep` is read
	 * `asleep`    | helper | to 1       | then a barrier on all threads, then `signalled` is read
	 * `asleep`    | helper | to 0       | as it wakes
	 * `signalled` | helper | to 0       | then a fence, then `due` is read
	 * `due`       | helper | to 0       | then a fence, then the work is looked at
	 *
	 * Stale values. A signaller that reads `asleep` 0 has stored `signalled` before the helper's barrier, and the helper
	 * does not sleep. One that reads 1 of a helper that is awake wakes it in vain. A helper that reads `due` 0 is
	 * signalled after it looked.
	 */
	_Alignas(WEFT_LINE) _Atomic uint32_t signalled; /* [*] 1, [O] the helper: 0 */
	_Atomic uint32_t due[8];		     /* [*] 1, [O] 0: by enum weft_signal_reason */
	_Alignas(WEFT_LINE) _Atomic uint32_t asleep; /* [O] the helper */
};

_Static_assert(sizeof(struct weft_pool_home) <= WEFT_PAGE &&
		       WEFT_OFF_NEAR + WEFT_MEMBERS * sizeof(struct weft_pool_near) <=
			       WEFT_OFF_HOME_END,
	       "a home has room");

#endif
