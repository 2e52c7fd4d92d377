/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Small pieces of pool memory for rings: powers of two from a line up, cut from slabs and kept in
 * private lists when they are free. Slabs stay with the member until it leaves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/internal.h"
#include "pool/step.h"
#include "pool/sizes.h"

#define SLAB_BYTES    (64u << 10)
#define LARGEST_BYTES ((uint64_t)WEFT_LINE << (WEFT_HEAP_CLASSES - 1))

static unsigned int class_of(uint64_t len_bytes)
{
	unsigned int class = 0;

	while (((uint64_t)WEFT_LINE << class) < len_bytes)
		class ++;
	return class;
}

/* A list has room for every piece that was ever cut, so that freeing needs no memory. */
static int list_one_more(struct weft_heap_class *c)
{
	uint64_t *free_pieces;

	if (c->cut == c->room) {
		uint32_t room = c->room ? 2 * c->room : 16;

		free_pieces = reallocarray(c->free, room, sizeof(*c->free));
		if (!free_pieces)
			return -ENOMEM;
		c->free = free_pieces;
		c->room = room;
	}
	c->cut++;
	return 0;
}

static int cut_piece(struct weft_attachment *a, uint64_t bytes, uint64_t *off)
{
	int err = list_one_more(&a->heap[class_of(bytes)]);

	if (err)
		return err;
	if (a->heap_end - a->heap_top < bytes) {
		uint64_t slab;

		/* the rest of the old slab is lost until the member leaves: under half a slab */
		err = weft_pool_extent_alloc(&a->pool, SLAB_BYTES, &slab);
		if (err)
			return err;
		a->heap_top = slab;
		a->heap_end = slab + SLAB_BYTES;
	}
	*off = a->heap_top;
	a->heap_top += bytes;
	WEFT_STEP(heap_cut);
	return 0;
}

int weft_pool_alloc(struct weft_pool *pool, uint64_t len_bytes, uint64_t *off)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_heap_class *c;
	void *piece;
	int err = 0;

	if (len_bytes > LARGEST_BYTES) {
		err = weft_pool_extent_alloc(pool, len_bytes, off);
		if (err)
			return err;
		if (weft_pool_populate(pool, *off, len_bytes))
			return 0; /* fresh pages are zero */
		weft_pool_extent_free(pool, *off, len_bytes);
		return -ENOMEM;
	}
	c = &a->heap[class_of(len_bytes)];
	pthread_mutex_lock(&a->mutex);
	if (c->nfree)
		*off = c->free[--c->nfree];
	else
		err = cut_piece(a, (uint64_t)WEFT_LINE << class_of(len_bytes), off);
	pthread_mutex_unlock(&a->mutex);
	if (err)
		return err;
	piece = weft_pool_populate(pool, *off, len_bytes);
	if (!piece)
		return -ENOMEM;
	memset(piece, 0, len_bytes);
	return 0;
}

void weft_pool_free(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_heap_class *c;

	if (len_bytes > LARGEST_BYTES) {
		weft_pool_extent_free(pool, off, len_bytes);
		return;
	}
	c = &a->heap[class_of(len_bytes)];
	pthread_mutex_lock(&a->mutex);
	c->free[c->nfree++] = off;
	pthread_mutex_unlock(&a->mutex);
}
