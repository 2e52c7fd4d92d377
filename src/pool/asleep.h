/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whether a sleeping thread may be left asleep while pages change their place: the system call that
 * it sleeps in has no such page in its hands, and will store into none when it goes on.
 */
#ifndef WEFT_POOL_ASLEEP_H
#define WEFT_POOL_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>

/* A call that may be made again if a signal has ended it with EINTR; else `call` is negative. */
struct weft_asleep {
	long call;
	uintptr_t first; /* argument */
	uintptr_t stack, code; /* where the thread goes on */
};

/*
 * line: what /proc/self/task/TID/syscall says of the thread, ended by NUL. [start, end): the pages.
 * False for one that runs, that sleeps in a page fault or in a call not known here, that may store
 * into the pages, or whose stack they hold. Touches nothing but its arguments. A call with a timeout that is
 * made again takes the longer for it, but for those to which the kernel tells what is left.
 */
bool weft_asleep_harmless(const char *line, uintptr_t start, uintptr_t end,
			  struct weft_asleep *asleep);

#endif
