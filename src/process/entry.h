/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What other processes may import stands in the pool's table of regions (enum weft_object), under a
 * number that is its handle in all of them. It ends with its object, or with the process that made it.
 * Any thread; the one that makes and ends it takes care that nobody else does.
 */
#ifndef WEFT_PROCESS_ENTRY_H
#define WEFT_PROCESS_ENTRY_H

#include "nic/nic.h"

struct weft_entry {
	struct weft_mr nic;
	uint32_t number; /* below 1 << 30, and not 0; of no other object in the pool */
};

/* `about` and `run` (or NULL) as the kind of object has them. 0, -ENOSPC, -ENOMEM. */
int weft_entry_make(struct weft_entry *entry, enum weft_object what, uint64_t family,
		    uint64_t about, const struct weft_mr_piece *run);
/* Gives it back. */
void weft_entry_drop(struct weft_entry *entry);
/* The same, when visitors (weft_pool_visit) have gone; false: one stands still. */
bool weft_entry_end(struct weft_entry *entry);
/* Gives back that of a domain; false, and nothing has changed: a living process has objects in it by an import,
 * or is making one. */
bool weft_entry_end_domain(struct weft_entry *entry);
/* What that copy was made of is a domain that we use, which the import's count says already: it stays. False: it
 * has ended. */
bool weft_entry_keep(const struct weft_pool_mr *copy);
/* A copy of what stands there now, of any family if that is 0. */
bool weft_entry_find(enum weft_object what, uint64_t family, uint32_t number,
		     struct weft_pool_mr *copy);
/* Whether it still is what that copy was made of. */
bool weft_entry_lasts(const struct weft_pool_mr *copy);
/* Of an import: how many objects of this process are in that domain. */
_Atomic uint32_t *weft_entry_users(const struct weft_entry *entry);

/* The entry of any key, region or object. */
bool weft_entry_read(uint32_t key, struct weft_pool_mr *copy);

#endif
