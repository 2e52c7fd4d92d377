/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A door in shared memory: its owner sleeps behind it, and a process that has brought something knocks. A
 * knock at one that is awake is a fence and a load. Zeroed memory is a door.
 *
 * The owner: seen = weft_door_lie_down(); looks at all that it waits for; weft_door_sleep(seen)
 * unless there is something; weft_door_get_up(). Either it finds what was brought, or the one that
 * brought it finds it asleep.
 *
 * word     | writer  | transition          | order
 * `asleep` | owner   | to 1                | relaxed, behind its look at `knocks`; then a fence, then it looks for what was
 *          |         |                     | brought
 *          | knocker | 1 to 0, by exchange | behind a fence after what it has brought
 *          | owner   | to 0                | relaxed, awake
 * `knocks` | knocker | grows               | after its exchange; then the futex is woken
 *
 * Stale values. A knocker that reads `asleep` 0 has brought its news before the owner's look behind the fence. One that
 * reads 1 of an owner that is awake makes one system call for nothing. An owner that reads an old `knocks` sleeps on
 * another value than there is, and the futex returns at once.
 */
#ifndef WEFT_LINK_DOOR_H
#define WEFT_LINK_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"

struct weft_door {
	_Atomic uint32_t knocks; /* [*] grows with each that found the owner asleep */
	_Atomic uint32_t asleep; /* [O] 1, 0; [*] 0, by exchange */
};

/* Any thread that maps it, after what it has brought was stored. */
void weft_door_knock(struct weft_door *door);

/* The owner; or several threads of it, each of which is woken. */
uint32_t weft_door_lie_down(struct weft_door *door);
/* Until a knock behind lie_down; timeout_ns negative: for ever. May return without a reason. */
void weft_door_sleep(struct weft_door *door, uint32_t seen, int64_t timeout_ns);
/* The same, also until a wake of that other word, if it is still 0; until then by CLOCK_MONOTONIC, UINT64_MAX: for ever. Where
 * weft_door_can_sleep_beside. */
void weft_door_sleep_beside(struct weft_door *door, uint32_t seen, _Atomic uint32_t *other,
			    uint64_t until_ns);
/* Whether the kernel waits for two words: not before 5.16, nor where it may not. */
bool weft_door_can_sleep_beside(void);
static inline void weft_door_get_up(struct weft_door *door)
{
	atomic_store_explicit(&door->asleep, 0, memory_order_relaxed);
}

#endif
