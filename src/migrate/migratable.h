/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which pages may migrate into the pool: private, writable, anonymous ones on which nothing but the program's own
 * instructions depends. The caller holds the mutex of the regions.
 *
 * The driver of a device goes on with the pages that it has pinned, whatever is mapped at their addresses then, and the
 * kernel does not tell which they are: so the driver is asked, before pages migrate, on the way back, too. It is asked while
 * no thread is parked, which could have a lock of the driver's: what a program has pinned in the microseconds between
 * the question and the migration of the same pages is not seen.
 */
#ifndef WEFT_MIGRATE_MIGRATABLE_H
#define WEFT_MIGRATE_MIGRATABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "migrate/vma.h"

struct weft_run {
	uintptr_t start, end;
};

/* Disjoint runs of pages in rising order; all zero is empty. Ended by free(run). */
struct weft_runs {
	struct weft_run *run;
	size_t count, room;
};

/*
 * The first run of pages of [start, end), whole ones, that the driver may have pinned, the rest of them or more; false: it has
 * none there. Must not take the mutex of the regions, nor wait for a thread that might.
 */
typedef bool weft_driver_pins_fn(uintptr_t start, uintptr_t end, struct weft_run *pinned);

/* The driver is asked by this. As long as nobody is, nothing migrates in a process that has such a driver. */
void weft_migratable_ask(weft_driver_pins_fn *fn);

/* Whether anything may migrate now: not while the process has what pins pages behind our back
 * (io_uring, AIO, a driver that nobody asks). */
bool weft_migratable_now(void);

/* The same for pages that are in the pool: what pins them may have come since. */
bool weft_migratable_back(void);

/* Whether a driver may have pinned any of these pages. Behind weft_migratable_back. */
bool weft_migratable_is_pinned(uintptr_t start, uintptr_t end);

/* Sets *runs to the pages of [start, end) that may migrate. 0, -ENOMEM, or -errno of reading the
 * mappings; then *runs is empty. */
int weft_migratable_runs(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end,
			 struct weft_runs *runs);

/* The number of threads of this process, 0 if /proc does not tell. */
unsigned int weft_migratable_threads(void);

#endif
