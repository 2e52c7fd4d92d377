/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Disjoint intervals of addresses, ordered: which pages of the process are registered, and how.
 * A treap: all operations take logarithmic time on average. No locks: the caller has one.
 */
#ifndef WEFT_MIGRATE_INTERVAL_H
#define WEFT_MIGRATE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

struct weft_extent;

struct weft_interval {
	uintptr_t start, end;	    /* whole pages */
	struct weft_extent *extent; /* NULL: the pages are in place */
	uint64_t off;		    /* of start in the pool file, if there is an extent */
	uint64_t born;		    /* the acquisition that made it */
	unsigned int refs;	    /* regions that cover it; 0: its pages are away (cover.h) */
	unsigned int borders;	    /* regions that start or end at start */

	struct weft_interval *left, *right;
	uint32_t priority;
};

/* The first interval that ends above addr, or NULL. */
struct weft_interval *weft_interval_from(struct weft_interval *root, uintptr_t addr);

/* Adds [start, end), which no other overlaps. NULL if memory is short. */
struct weft_interval *weft_interval_add(struct weft_interval **root, uintptr_t start,
					uintptr_t end);

/* Cuts the interval at an address inside it; the upper part, or NULL if memory is short. */
struct weft_interval *weft_interval_cut(struct weft_interval **root, struct weft_interval *interval,
					uintptr_t at);

/* Joins the two intervals that meet at an address, if they say the same and it is no border. Whether it did. */
bool weft_interval_join(struct weft_interval **root, uintptr_t at);

void weft_interval_remove(struct weft_interval **root, struct weft_interval *interval);

#endif
