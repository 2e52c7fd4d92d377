/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of what other processes may import (process/object.c), leased in blocks as those of queue pairs and regions
 * are. Marks as in format.h. */
#ifndef WEFT_POOL_FORMAT_OBJECT_H
#define WEFT_POOL_FORMAT_OBJECT_H

#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_OBJECT_INDEX_BITS 19u
#define WEFT_OBJECTS	       (1u << WEFT_OBJECT_INDEX_BITS)
#define WEFT_OBJECT_BLOCK      128u

enum weft_object_kind {
	WEFT_OBJECT_DOMAIN = 1, /* a protection domain */
	WEFT_OBJECT_DM,		/* device memory */
	WEFT_OBJECT_IMPORT,	/* a handle of another process's domain */
};

/*
 * In the id of a domain: its owner asks whether any object uses it, and ends it if none does.
 *
 * id                          | writer    | transition                 | order
 * {n, 0} to {n + 1, number}   | owner     | it is made                 | release, after all other fields, which come
 *                             |           |                            | behind a release fence
 * {n, number} to ASKED        | owner     | of a domain: asks          | then a fence, then it looks for users
 * ASKED to {n, number}        | owner     | it found one               | release
 *                             | user, [P] | by exchange: it is used    | behind a fence, after its import was published
 * {n, number} to {n, 0}       | owner     | it ends                    | relaxed; of device memory then a barrier on all
 *                             |           |                            | threads, and a wait for executors
 * ASKED to {n, 0}             | owner     | by exchange: a domain ends |
 *                             | recoverer | its owner has died         | format.h
 *
 * Stale values. A member that reads the old id of a domain finds at its own exchange that this has ended. The owner that
 * reads an old import, or none, has fenced before that user has: the user takes ASKED away, and the owner's exchange
 * fails.
 */
#define WEFT_OBJECT_ASKED (1ull << 63)

struct weft_pool_object {
	/* [O] its number, and above it how many objects had the entry: no two are the same. Stored
	 * last when made; when ended, first the number alone. All else between. */
	_Alignas(WEFT_LINE) _Atomic uint64_t id;
	uint16_t owner, kind;
	uint32_t domain;	 /* of an import: its number */
	uint64_t family;	 /* of contexts, that it belongs to; 0: an import */
	uint64_t off, len_bytes; /* of device memory: where it lies */
	_Atomic uint32_t users;	 /* of an import: objects of its process that are in the domain */
};

#endif
