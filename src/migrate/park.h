/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Parking: the other threads of the process stand still in a signal handler while pages change
 * their place. Before it gets there a thread has left the system call it was in: the kernel writes
 * to no page on its behalf any more, and a sleep on a futex begins anew afterwards; calls that fail
 * when a signal comes are made again (migrate/again.h).
 *
 * A thread that does not come, since no signal ends the call that it sleeps in (fsync), is left
 * there, if the call is harmless (migrate/asleep.h): when it wakes up, it comes before it does anything
 * else. One that has blocked the signal may do so, too; hence the caller holds stores back if any
 * was left, and then asks whether they still sleep.
 *
 * One thread at a time parks the others; it does not hold what one of them could hold: between
 * weft_park and weft_park_end no malloc, no stdio, no lock.
 */
#ifndef WEFT_MIGRATE_PARK_H
#define WEFT_MIGRATE_PARK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Parks all threads but those left asleep, as they may be for the pages [start, end); hearing: none
 * that blocks SIGSEGV may. Called again before the end, it parks those that woke up. 0; -EAGAIN: a thread could not
 * be stopped in time; -errno: parking is not possible here. Then all run again.
 */
int weft_park(uintptr_t start, uintptr_t end, bool hearing);

/* How many were left asleep. None: nothing runs but this thread. */
unsigned int weft_park_left(void);

/* Whether those that were left asleep sleep harmlessly now, and no other thread runs. */
bool weft_park_still(void);

/* All run again. */
void weft_park_end(void);

#endif
