/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extents of this process: runs of its pages that have migrated into the pool, and what the program has done with
 * them since. The caller holds the mutex of the regions.
 */
#ifndef WEFT_MIGRATE_MIGRATED_H
#define WEFT_MIGRATE_MIGRATED_H

#include <stdbool.h>
#include <stdint.h>

#include "migrate/interval.h"
#include "migrate/migrate.h"
#include "migrate/region.h"
#include "migrate/vma.h"

struct weft_extent {
	uintptr_t va; /* where its pages were when they migrated */
	uint64_t off;
	size_t len_bytes;
	uint8_t *alias;
	unsigned int refs; /* pieces of regions, intervals */
	bool strayed;	   /* the program has unmapped pages of it, or mapped them elsewhere */
	bool freed;	   /* the source has it again */
	bool reached;	   /* a suspect may still write to it */
	bool left;	   /* its pages have, for the next one, or back for good (NULL) */
	struct weft_extent *heir;
	uint64_t made; /* the source's age */
	struct weft_extent *next, **link;
};

/* 0; -EBUSY (attached already), -errno of mapping the pool or of reading /proc/self/maps. */
int weft_migrated_attach(const struct weft_extent_source *source);
bool weft_migrated_attached(void);
/* All extents are the source's again; their structs live on while regions refer to them. */
void weft_migrated_detach(void);

/* Migrates the pages [start, end), all migratable, into a new extent without references. NULL if they
 * stay where they are; the first time, stderr is told why. *migrated_end: how far it got; what is above
 * stays, and its part of the extent is unused. */
struct weft_extent *weft_migrated_in(uintptr_t start, uintptr_t end, uintptr_t *migrated_end);

/* Drops a reference (taken by ++refs); the last one gives the extent back, unless the program has mapped pages of
 * it elsewhere that cannot come back now: then it is adrift. */
void weft_migrated_drop(struct weft_extent *extent);
bool weft_migrated_is_adrift(void);
/* Tries again. */
void weft_migrated_land(void);

/* Whether the mapping shows the interval's pages of the pool where they overlap. */
bool weft_migrated_shows(const struct weft_vma *vma, const struct weft_interval *interval);

/* Calls fn for the parts of a pooled interval whose addresses still show the pool. Whether all
 * were found and fn said yes. */
typedef bool weft_migrated_part_fn(const struct weft_migrate *part);
bool weft_migrated_each(struct weft_vma_walk *walk, const struct weft_interval *interval,
			weft_migrated_part_fn *fn);

/* Those made before that age are reached. Whether pages are left in any that is. */
void weft_migrated_reach(uint64_t age);
bool weft_migrated_is_reached(void);
/* Calls fn for each that is reached and not yet left. fn may forget it. */
void weft_migrated_each_reached(void (*fn)(struct weft_extent *extent));

/* Migrates the pages of a pooled interval back, where its addresses still show the pool. Whether nothing is left
 * there; the rest may be tried again. */
bool weft_migrated_back(const struct weft_interval *interval);

#endif
