/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/pinned.h"

#include <pthread.h>
#include <string.h>

#include "backing/unhooked.h"
#include "nic/place.h"
#include "pool/format.h"
#include "pool/pool.h"
#include "pool/slice.h"
#include "pool/step.h"
#include "process/plugin.h"

/* Drivers take no longer for less by staging it themselves. */
#define LEAST_BYTES (64ull << 10)
#define MOST_BYTES  (8ull << 30) /* of all together */

struct weft_pinned {
	const struct weft_plugin *plugin;
	void *driver; /* as that knows it; NULL: nothing */
	uint8_t *at;  /* where, beside the pool's window, those bytes are mapped for it */
	uint64_t id;  /* of the region for which it was pinned */
	uint64_t off, len_bytes;
	unsigned int users; /* copies that go on */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static struct weft_pinned all_pinned[64];
static uint64_t bytes_pinned;
static struct {
	uint64_t id, off, len_bytes;
} source; /* of ours, found last */

#define COUNT (sizeof(all_pinned) / sizeof(all_pinned[0]))

/* ---- Regions ---- */

/* The region as it is now, all of whose pooled bytes lie together. */
static bool read_region(struct weft_pool *pool, uint32_t key, struct weft_pool_mr *mr)
{
	return weft_mr_read(pool, key, mr) && !weft_mr_is_listed(mr) && mr->lo < mr->hi &&
	       mr->hi <= mr->len_bytes && mr->off < pool->bytes &&
	       mr->hi - mr->lo <= pool->bytes - mr->off && !(mr->pd & WEFT_PD_WINDOW);
}

static bool has(uint64_t start, uint64_t room, uint64_t off, uint64_t len_bytes)
{
	return off >= start && len_bytes <= room && off - start <= room - len_bytes;
}

static bool has_all(const struct weft_pool_mr *mr, uint64_t off, uint64_t len_bytes)
{
	return has(mr->off, mr->hi - mr->lo, off, len_bytes);
}

bool weft_pinned_is_of(struct weft_pool *pool, uint64_t id, uint64_t off, uint64_t len_bytes)
{
	struct weft_pool_mr mr;

	return id && read_region(pool, (uint32_t)id, &mr) && mr.id == id &&
	       has_all(&mr, off, len_bytes);
}

static bool search_block(struct weft_pool *pool, uint32_t block, uint64_t off, uint64_t len_bytes,
			 struct weft_pool_mr *mr)
{
	uint32_t first = block * WEFT_MR_BLOCK;

	if (weft_pool_see_mr(pool, first))
		return false;
	for (uint32_t i = first; i < first + WEFT_MR_BLOCK; i++) {
		uint32_t key =
			(uint32_t)atomic_load_explicit(&pool->mrs[i].id, memory_order_relaxed);

		if (key && read_region(pool, key, mr) && has_all(mr, off, len_bytes))
			return true;
	}
	return false;
}

/* Among those of the member to which the segment is leased. */
static bool find_region(struct weft_pool *pool, uint64_t off, uint64_t len_bytes,
			struct weft_pool_mr *mr)
{
	uint64_t word = atomic_load_explicit(&pool->leases->segment[weft_segment_of(pool, off)],
					     memory_order_relaxed);

	for (uint32_t block = 0; word && block < WEFT_BLOCKS; block++)
		if (atomic_load_explicit(&pool->leases->mr_block[block], memory_order_relaxed) ==
			    word &&
		    search_block(pool, block, off, len_bytes, mr))
			return true;
	return false;
}

/* Where in the pool that is; false: it is not in the pool. */
static bool offset_of(const struct weft_pool *pool, const void *here, uint64_t len_bytes,
		      uint64_t *off)
{
	*off = (uintptr_t)here - (uintptr_t)pool->base;
	return (uintptr_t)here >= (uintptr_t)pool->base && *off < pool->bytes &&
	       len_bytes <= pool->bytes - *off;
}

static bool is_of_mine(const struct weft_pool *pool, uint64_t off)
{
	uint64_t word = atomic_load_explicit(&pool->leases->segment[weft_segment_of(pool, off)],
					     memory_order_relaxed);

	return (word & UINT16_MAX) == pool->me + 1u;
}

bool weft_pinned_source(struct weft_pool *pool, const void *here, uint64_t len_bytes, uint64_t *id)
{
	struct weft_pool_mr mr;
	uint64_t off;
	bool found;

	if (!offset_of(pool, here, len_bytes, &off) || !is_of_mine(pool, off))
		return false;
	pthread_mutex_lock(&mutex);
	found = has(source.off, source.len_bytes, off, len_bytes) &&
		weft_pinned_is_of(pool, source.id, off, len_bytes);
	if (!found && find_region(pool, off, len_bytes, &mr)) {
		source.id = mr.id;
		source.off = mr.off;
		source.len_bytes = mr.hi - mr.lo;
		found = true;
	}
	*id = source.id;
	pthread_mutex_unlock(&mutex);
	return found;
}

/* ---- Pinning ---- */

/* What has all of those bytes, of a region that stands. */
static struct weft_pinned *find_pinned(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	for (size_t i = 0; i < COUNT; i++) {
		struct weft_pinned *p = &all_pinned[i];

		if (p->driver && has(p->off, p->len_bytes, off, len_bytes) &&
		    weft_pinned_is_of(pool, p->id, p->off, p->len_bytes))
			return p;
	}
	return NULL;
}

/* NULL: there are as many as there may be. */
static struct weft_pinned *free_one(uint64_t len_bytes)
{
	for (size_t i = 0; i < COUNT; i++)
		if (!all_pinned[i].driver && bytes_pinned + len_bytes <= MOST_BYTES)
			return &all_pinned[i];
	return NULL;
}

/* Drivers know pinned memory by its addresses. Those in the pool's window are the next region's when this one has ended; so each gets
 * addresses of its own. */
static struct weft_pinned *pin_region(struct weft_pool *pool, const struct weft_plugin *plugin,
				      void *memory, const struct weft_pool_mr *mr)
{
	uint64_t len_bytes = mr->hi - mr->lo;
	struct weft_pinned *p = len_bytes <= MOST_BYTES ? free_one(len_bytes) : NULL;
	void *window =
		p && mr->off % WEFT_PAGE == 0 ? weft_pool_window(pool, mr->off, len_bytes) : NULL;
	void *at = window ? weft_unhooked_alias(window, len_bytes) : MAP_FAILED;

	if (at == MAP_FAILED)
		return NULL;
	if (plugin->pin(memory, at, len_bytes, &p->driver)) {
		p->driver = NULL;
		weft_unhooked_munmap(at, len_bytes);
		return NULL;
	}
	WEFT_STEP(device_pinned);
	p->plugin = plugin;
	p->at = at;
	p->id = mr->id;
	p->off = mr->off;
	p->len_bytes = len_bytes;
	bytes_pinned += len_bytes;
	return p;
}

struct weft_pinned *weft_pinned_begin(struct weft_pool *pool, const struct weft_plugin *plugin,
				      void *memory, void **here, uint64_t len_bytes)
{
	struct weft_pinned *p;
	struct weft_pool_mr mr;
	uint64_t off;

	if (!len_bytes || !offset_of(pool, *here, len_bytes, &off))
		return NULL;
	pthread_mutex_lock(&mutex);
	p = find_pinned(pool, off, len_bytes);
	if (!p && len_bytes >= LEAST_BYTES && find_region(pool, off, len_bytes, &mr))
		p = pin_region(pool, plugin, memory, &mr);
	if (p) {
		p->users++;
		*here = p->at + (off - p->off);
	}
	pthread_mutex_unlock(&mutex);
	return p;
}

void weft_pinned_end(struct weft_pinned *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&mutex);
	p->users--;
	pthread_mutex_unlock(&mutex);
}

void weft_pinned_end_all(void)
{
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < COUNT; i++) {
		struct weft_pinned *p = &all_pinned[i];

		if (!p->driver || p->users)
			continue;
		p->plugin->unpin(p->driver);
		WEFT_STEP(device_unpinned);
		p->driver = NULL;
		weft_unhooked_munmap(p->at, p->len_bytes);
		bytes_pinned -= p->len_bytes;
	}
	pthread_mutex_unlock(&mutex);
}

void weft_pinned_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(all_pinned, 0, sizeof(all_pinned));
	bytes_pinned = 0;
	source.id = 0;
}
