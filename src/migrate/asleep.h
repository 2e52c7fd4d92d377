/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whether a sleeping thread may be left asleep while pages change their place: the system call that
 * it sleeps in has no such page in its hands, and will store into none when it goes on.
 */
#ifndef WEFT_MIGRATE_ASLEEP_H
#define WEFT_MIGRATE_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_ASLEEP_ARGUMENTS 6

/* A call that a thread sleeps in; none: `call` is negative. */
struct weft_asleep {
	long call;
	uintptr_t arg[WEFT_ASLEEP_ARGUMENTS];
	uintptr_t stack, code; /* where the thread goes on */
};

enum weft_asleep_kind {
	WEFT_ASLEEP_NOT, /* runs, sleeps in a page fault, in a call not known here, or in one that may store */
	WEFT_ASLEEP_HARMLESSLY,
	WEFT_ASLEEP_DEAD, /* an ended main thread stays listed until the process ends */
};

/*
 * line: what /proc/self/task/TID/syscall says of the thread, ended by NUL. [start, end): the pages. Not harmless is,
 * too, a thread whose stack they hold, or to which a signal would store there. Touches nothing but its arguments.
 */
enum weft_asleep_kind weft_asleep(const char *line, uintptr_t start, uintptr_t end,
				  struct weft_asleep *asleep);

#endif
