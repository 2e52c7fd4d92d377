/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which pages of the process regions cover, and which of those lie in the pool: a tree of intervals. One that no
 * region covers any more stays in it while its pages cannot leave the pool, as they may not migrate (migratable.h)
 * or could not (migrate.h): they are away, and come home later. Until then they are shared mappings of the pool
 * with the right contents; a region that covers them again has them at once.
 *
 * An interval in the pool holds a reference on its extent. The caller holds the mutex of the regions.
 */
#ifndef WEFT_MIGRATE_COVER_H
#define WEFT_MIGRATE_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/interval.h"
#include "migrate/vma.h"

/* The first interval that ends above addr, or NULL. */
struct weft_interval *weft_cover_from(uintptr_t addr);

/* Makes addr a border of intervals. 0 or -ENOMEM. */
int weft_cover_cut(uintptr_t addr);

/* The pages [start, end), which intervals in place cover, have migrated to the beginning of an extent without
 * references. */
void weft_cover_place(uintptr_t start, uintptr_t end, struct weft_extent *extent);

/* Migrates a pooled interval's pages back: it is in place then, or removed if it was away. Whether it could. */
bool weft_cover_back(struct weft_interval *interval);

/* Drops what is said of [start, end), all of one mapping, if it is not true any more: the program has unmapped
 * the pages and mapped others. 0 or -ENOMEM. */
int weft_cover_check(const struct weft_vma *vma, uintptr_t start, uintptr_t end);

/* One region more covers [start, end), whole pages. *born: its number, greater than all before, as `born` of the
 * intervals that no other cover has. 0 or -ENOMEM. */
int weft_cover_begin(uintptr_t start, uintptr_t end, uint64_t *born);

/* One less. What no cover has any more migrates back, or is away. */
void weft_cover_end(uintptr_t start, uintptr_t end, uint64_t born);

/* Bytes that are away. */
uint64_t weft_cover_away(void);

/* Brings home what is away and may migrate by now, at most some megabytes of it. */
void weft_cover_bring_home(void);

/* Migrates back what regions cover, too. Whether nothing is left in the pool. */
bool weft_cover_all_back(void);

/* All extents are the source's again, wherever pages are. */
void weft_cover_forget(void);

#endif
