/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The two ways to hold back stores while a chunk of pages changes its place: what move.c chooses
 * from. Every call is made under the mutex of the regions with all signals blocked. While stores
 * are held back nothing may be touched that the program could have registered: no malloc.
 */
#ifndef WEFT_POOL_HOLD_H
#define WEFT_POOL_HOLD_H

#include <stdbool.h>

#include "pool/move.h"

/* A smaller chunk holds others for shorter, a larger one needs fewer calls. */
#define WEFT_HOLD_CHUNK (64ul << 10)

struct weft_hold {
	/* 0, or -errno: not possible here. */
	int (*begin)(void);
	/* The bytes of one chunk that have moved, from the front; 0: none can. */
	size_t (*in)(const struct weft_move *chunk);
	/* 0, or -errno and nothing has moved. scratch: fresh private memory of the chunk's size,
	 * which is used up. */
	int (*out)(const struct weft_move *chunk, uint8_t *scratch);
};

extern const struct weft_hold weft_uffd_hold;
extern const struct weft_hold weft_segv_hold;

/* Ends what weft_uffd_hold keeps open; in the child of a fork, what it has inherited. */
void weft_uffd_close(void);

/* Whether every other thread takes the signal: one that blocks it would be killed. May call
 * malloc. */
bool weft_segv_deliverable(void);

/* Installs the SIGSEGV handler, which a fork needs, too. Whether it was not there before: then
 * uninstall may take it away, as long as no pages were held back since. */
bool weft_segv_install(void);
void weft_segv_uninstall(void);

/* What both do to a chunk whose stores are held back: the pool appears at its address, or a private
 * copy made in scratch does. 0, or -errno and nothing has changed. */
int weft_move_map(const struct weft_move *chunk);
int weft_move_replace(const struct weft_move *chunk, uint8_t *scratch);

#endif
