/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Parking: the other threads of the process stand still in a signal handler while pages change
 * their place. Before it gets there a thread has left the system call it was in: the kernel writes
 * to no page on its behalf any more, and a sleep on a futex begins anew afterwards. A thread that
 * sleeps in a harmless call (pool/asleep.h) is left alone, since some calls fail when a signal
 * comes; it may wake at any time, so the caller holds stores back, and then asks whether it still
 * sleeps.
 *
 * One thread at a time parks the others; it does not hold what one of them could hold: between
 * weft_park and weft_park_end no malloc, no stdio, no lock.
 */
#ifndef WEFT_POOL_PARK_H
#define WEFT_POOL_PARK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Parks whoever does not sleep harmlessly for the pages [start, end); hearing: or who blocks
 * SIGSEGV. Called again before the end, it parks those who woke up. 0; -EAGAIN: a thread could not
 * be stopped in time; -errno: parking is not possible here. Then all run again.
 */
int weft_park(uintptr_t start, uintptr_t end, bool hearing);

/* How many were left asleep. None: nothing runs but this thread. */
unsigned int weft_park_left(void);

/* Whether those who were left asleep sleep harmlessly now, and nobody else runs. */
bool weft_park_still(void);

/* All run again. */
void weft_park_end(void);

#endif
