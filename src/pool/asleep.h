/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whether a sleeping thread may be left asleep while pages change their place: the system call that
 * it sleeps in has no such page in its hands, and will store into none when it goes on.
 */
#ifndef WEFT_POOL_ASLEEP_H
#define WEFT_POOL_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * line: what /proc/self/task/TID/syscall says of the thread, ended by NUL. [start, end): the pages.
 * False for one that runs, that sleeps in a page fault or in a call not known here, that may store
 * into the pages, or whose stack they hold. Touches nothing but the line.
 */
bool weft_asleep_harmless(const char *line, uintptr_t start, uintptr_t end);

#endif
