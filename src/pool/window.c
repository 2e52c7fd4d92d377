/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The window: a mapping of the whole file, of which chunks become accessible when first needed. So
 * mlockall cannot allocate the sparse file, and mappings stay few whatever the extents are.
 */
#include "pool/internal.h"
#include "pool/step.h"

static bool open_chunk(struct weft_pool *pool, uint64_t chunk)
{
	const struct weft_attachment *a = weft_attachment(pool);

	if (a->on->touch(a->backed, chunk << WEFT_CHUNK_BITS, 1ull << WEFT_CHUNK_BITS))
		return false;
	WEFT_STEP(window_opened);
	/* release: pairs with the acquire in weft_pool_window */
	atomic_store_explicit(&pool->chunk_seen[chunk], 1, memory_order_release);
	return true;
}

void *weft_pool_window(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	uint64_t last;

	if (off >= pool->bytes || len_bytes > pool->bytes - off)
		return NULL;
	last = (off + len_bytes - !!len_bytes) >> WEFT_CHUNK_BITS;
	for (uint64_t chunk = off >> WEFT_CHUNK_BITS; chunk <= last; chunk++)
		if (!atomic_load_explicit(&pool->chunk_seen[chunk], memory_order_acquire) &&
		    !open_chunk(pool, chunk))
			return NULL;
	return pool->base + off;
}

void *weft_pool_populate(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	uint8_t *at = weft_pool_window(pool, off, len_bytes);

	if (at)
		weft_attachment(pool)->on->populate(weft_attachment(pool)->backed, off, len_bytes);
	return at;
}
