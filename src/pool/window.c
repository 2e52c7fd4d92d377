/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The window: address space for the whole file, of which chunks are mapped when first needed. So
 * mlockall cannot allocate the sparse file, and mappings stay few whatever the extents are.
 */
#include <errno.h>
#include <sys/mman.h>

#include "pool/internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; elsewhere the first access pays */
#endif

static int map_chunk(struct weft_attachment *a, uint64_t chunk)
{
	uint8_t *at = a->pool.base + (chunk << WEFT_CHUNK_BITS);
	size_t bytes = 1ul << WEFT_CHUNK_BITS;
	int fd = weft_open_fd(a);

	if (fd < 0)
		return fd;
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 (off_t)(chunk << WEFT_CHUNK_BITS)) == MAP_FAILED)
		return -errno;
	/* a child must not keep the file's locks, nor a core dump hold other members' memory */
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_DONTDUMP);
	/* release: pairs with the acquire in weft_pool_window */
	atomic_store_explicit(&a->pool.chunk_seen[chunk], 1, memory_order_release);
	return 0;
}

static int map_chunk_once(struct weft_attachment *a, uint64_t chunk)
{
	int err = 0;

	pthread_mutex_lock(&a->mutex);
	if (!atomic_load_explicit(&a->pool.chunk_seen[chunk], memory_order_relaxed))
		err = map_chunk(a, chunk);
	pthread_mutex_unlock(&a->mutex);
	return err;
}

void *weft_pool_window(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	uint64_t last;

	if (off >= pool->bytes || len_bytes > pool->bytes - off)
		return NULL;
	last = (off + len_bytes - !!len_bytes) >> WEFT_CHUNK_BITS;
	for (uint64_t chunk = off >> WEFT_CHUNK_BITS; chunk <= last; chunk++)
		if (!atomic_load_explicit(&pool->chunk_seen[chunk], memory_order_acquire) &&
		    map_chunk_once(weft_attachment(pool), chunk))
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
