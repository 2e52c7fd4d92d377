/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What other processes may import stands in the pool's table of objects (struct weft_pool_object), under a number
 * that is its handle in all of them. It ends with its object, or with the process that made it. Any thread; the
 * caller takes care that no two make or end the same one at a time.
 */
#ifndef WEFT_PROCESS_OBJECT_H
#define WEFT_PROCESS_OBJECT_H

#include "pool/format_object.h"
#include "pool/pool.h"

struct weft_object {
	uint32_t index;
	uint32_t number; /* below 1 << 30, and not 0; of no other object in the pool */
	uint64_t made;	 /* the pool's age */
};

/* The fields of `about` that its kind has, but for id and owner. 0, -ENOSPC, -ENOMEM. */
int weft_object_make(struct weft_object *object, const struct weft_pool_object *about);
/* Gives it back. */
void weft_object_drop(struct weft_object *object);
/* The same, when visitors (weft_pool_visit) have gone; false: one stands still. */
bool weft_object_end(struct weft_object *object);
/* Gives back that of a domain; false, and nothing has changed: a living process has objects in it by an import,
 * or is making one. */
bool weft_object_end_domain(struct weft_object *object);
/* The copy is that of a domain that this process begins to use, as its import's count says already: the domain
 * stays. False: it has ended. */
bool weft_object_keep(const struct weft_pool_object *copy);
/* A copy of what stands there now. */
bool weft_object_find(enum weft_object_kind kind, uint64_t family, uint32_t number,
		      struct weft_pool_object *copy);
/* Whether it still is what that copy was made of. */
bool weft_object_lasts(const struct weft_pool_object *copy);
/* Of an import: how many objects of this process are in that domain. */
_Atomic uint32_t *weft_object_users(const struct weft_object *object);

#endif
