/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The two ways to hold back stores while a chunk of pages changes its place: what move.c chooses
 * from. Every call is made under the mutex of the regions with all signals blocked, and touches
 * neither the program's pages, but by address, nor malloc.
 */
#ifndef WEFT_POOL_HOLD_H
#define WEFT_POOL_HOLD_H

#include "pool/move.h"

/* A smaller chunk holds others for shorter, a larger one needs fewer calls. */
#define WEFT_HOLD_CHUNK (64ul << 10)

struct weft_hold {
	int (*begin)(void);			     /* 0, or -errno: not possible here */
	int (*in)(const struct weft_move *chunk);    /* 0, or -errno and nothing has moved */
	int (*out)(const struct weft_move *chunk);   /* likewise */
	void (*end)(void);
};

extern const struct weft_hold weft_uffd_hold;
extern const struct weft_hold weft_segv_hold;

/* Maps the pool at the chunk's address. 0 or -errno. */
int weft_move_map(const struct weft_move *chunk);
/* A private copy of the chunk in *scratch, an address of the kernel's choice. 0 or -errno. */
int weft_move_copy(const struct weft_move *chunk, void **scratch);

#endif
