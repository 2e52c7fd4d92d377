/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Small pieces of pool memory for rings: powers of two from a line up, cut from slabs and kept in
 * free lists whose links stand in the free pieces. Slabs stay with the member until it leaves.
 */
#include <errno.h>
#include <string.h>

#include "pool/internal.h"

#define SLAB_BYTES   (64u << 10)
#define LARGEST_BYTES ((uint64_t)WEFT_LINE << (WEFT_HEAP_CLASSES - 1))

static unsigned int class_of(uint64_t len_bytes)
{
	unsigned int class = 0;

	while (((uint64_t)WEFT_LINE << class) < len_bytes)
		class++;
	return class;
}

static int cut(struct weft_attachment *a, uint64_t bytes, uint64_t *off)
{
	int err;

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
	return 0;
}

int weft_pool_alloc(struct weft_pool *pool, uint64_t len_bytes, uint64_t *off)
{
	struct weft_attachment *a = weft_attachment(pool);
	unsigned int class;
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
	class = class_of(len_bytes);
	pthread_mutex_lock(&a->mutex);
	*off = a->heap_free[class];
	if (*off)
		a->heap_free[class] = *(uint64_t *)weft_pool_window(pool, *off, sizeof(uint64_t));
	else
		err = cut(a, (uint64_t)WEFT_LINE << class, off);
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
	unsigned int class;

	if (len_bytes > LARGEST_BYTES) {
		weft_pool_extent_free(pool, off, len_bytes);
		return;
	}
	class = class_of(len_bytes);
	pthread_mutex_lock(&a->mutex);
	*(uint64_t *)weft_pool_window(pool, off, sizeof(uint64_t)) = a->heap_free[class];
	a->heap_free[class] = off;
	pthread_mutex_unlock(&a->mutex);
}
