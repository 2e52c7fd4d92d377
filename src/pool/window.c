/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The window: a mapping of the whole file, of which chunks become accessible when first needed. So
 * mlockall cannot allocate the sparse file, and mappings stay few whatever the extents are.
 */
#include <errno.h>
#include <sys/mman.h>

#include "pool/internal.h"
#include "pool/step.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; elsewhere the first access pays */
#endif

int weft_window_make(struct weft_pool *pool, int fd)
{
	void *base = mmap(NULL, pool->bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	/* a child must not keep our proof of life, nor a core dump hold other members' memory */
	madvise(base, pool->bytes, MADV_DONTFORK);
	madvise(base, pool->bytes, MADV_DONTDUMP);
	pool->base = base;
	return 0;
}

static int open_chunk(struct weft_pool *pool, uint64_t chunk)
{
	if (mprotect(pool->base + (chunk << WEFT_CHUNK_BITS), 1ul << WEFT_CHUNK_BITS,
		     PROT_READ | PROT_WRITE))
		return -errno;
	WEFT_STEP(window_opened);
	/* release: pairs with the acquire in weft_pool_window */
	atomic_store_explicit(&pool->chunk_seen[chunk], 1, memory_order_release);
	return 0;
}

void *weft_pool_window(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	uint64_t last;

	if (off >= pool->bytes || len_bytes > pool->bytes - off)
		return NULL;
	last = (off + len_bytes - !!len_bytes) >> WEFT_CHUNK_BITS;
	for (uint64_t chunk = off >> WEFT_CHUNK_BITS; chunk <= last; chunk++)
		if (!atomic_load_explicit(&pool->chunk_seen[chunk], memory_order_acquire) &&
		    open_chunk(pool, chunk))
			return NULL;
	return pool->base + off;
}

void *weft_pool_populate(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	uint8_t *at = weft_pool_window(pool, off, len_bytes);

	if (at) {
		uint64_t skew = off % WEFT_PAGE;

		madvise(at - skew, len_bytes + skew, MADV_POPULATE_WRITE);
	}
	return at;
}
