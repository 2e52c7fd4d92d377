/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which pages may migrate into the pool: private, writable, anonymous ones on which nothing but the program's own
 * instructions depends. The caller holds the mutex of the regions.
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

/* Whether anything may migrate now: not while the process has what pins pages behind our back
 * (io_uring, AIO, CUDA). */
bool weft_migratable_now(void);

/* The same for pages that are in the pool: what pins them may have come since. */
bool weft_migratable_back(void);

/* Sets *runs to the pages of [start, end) that may migrate. 0, -ENOMEM, or -errno of reading the
 * mappings; then *runs is empty. */
int weft_migratable_runs(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end,
			 struct weft_runs *runs);

/* The number of threads of this process, 0 if /proc does not tell. */
unsigned int weft_migratable_threads(void);

#endif
