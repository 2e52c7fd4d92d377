/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The attachment of the process to a pool. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/host.h"
#include "pool/internal.h"
#include "pool/format_object.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/seen.h"
#include "pool/sizes.h"

const struct weft_backing *weft_open_backing(const char *path)
{
	path = path ? path : getenv("WEFT_POOL");
	if (path && !strncmp(path, "shm:", 4))
		return &weft_backing_shm;
	if (path && !strncmp(path, "dax:", 4))
		return &weft_backing_dax;
	return path && !strncmp(path, "pci:", 4) ? &weft_backing_pci : &weft_backing_file;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct weft_attachment *attached; /* under opening */

struct reserved {
	void **at;
	size_t bytes;
};

static void list_reserved(struct weft_attachment *a, struct reserved list[9])
{
	list[0] = (struct reserved){(void **)&a->pool.chunk_seen, a->pool.bytes >> WEFT_CHUNK_BITS};
	list[1] = (struct reserved){(void **)&a->pool.qp_block_seen, WEFT_BLOCKS};
	list[2] = (struct reserved){(void **)&a->pool.mr_block_seen, WEFT_BLOCKS};
	list[3] = (struct reserved){(void **)&a->pool.mr_seen, WEFT_MRS * sizeof(*a->pool.mr_seen)};
	list[4] = (struct reserved){(void **)&a->qp_used, WEFT_QPS / 8};
	list[5] = (struct reserved){(void **)&a->mr_used, WEFT_MRS / 8};
	list[6] = (struct reserved){(void **)&a->pool.object_block_seen, WEFT_BLOCKS};
	list[7] = (struct reserved){(void **)&a->object_used, WEFT_OBJECTS / 8};
	list[8] = (struct reserved){NULL, 0};
}

static void unmap(struct weft_attachment *a)
{
	struct reserved list[9];

	list_reserved(a, list);
	for (struct reserved *r = list; r->at; r++)
		if (*r->at)
			weft_room_free(*r->at, r->bytes);
	if (a->pool.base)
		a->on->unmap(a->backed);
}

static int map_pool(struct weft_attachment *a)
{
	struct weft_pool *pool = &a->pool;
	struct reserved list[9];
	int err;

	list_reserved(a, list);
	for (struct reserved *r = list; r->at; r++) {
		*r->at = weft_room(r->bytes);
		if (!*r->at)
			return -ENOMEM;
	}
	err = a->on->map(a->backed, &pool->base);
	if (err)
		return err;
	pool->leases = (void *)(pool->base + WEFT_OFF_LEASES);
	pool->members = (void *)(pool->base + WEFT_OFF_MEMBERS);
	pool->home = (void *)(pool->base + WEFT_OFF_HOME);
	pool->qps = (void *)(pool->base + WEFT_OFF_QPS);
	pool->mrs = (void *)(pool->base + WEFT_OFF_MRS);
	pool->objects = (void *)(pool->base + WEFT_OFF_OBJECTS);
	weft_store(&pool->mr_seen[0].id,
		   UINT32_MAX); /* no key: the entry of key 0 may not be mapped */
	return weft_pool_window(pool, 0, WEFT_OFF_LEASES + sizeof(struct weft_pool_leases)) &&
			       weft_pool_window(pool, WEFT_OFF_HOME, sizeof(struct weft_pool_home))
		       ? 0
		       : -ENOMEM;
}

/* Read once: whose slices we lease in must not change under us. */
static int find_slices(struct weft_pool *pool)
{
	const struct weft_pool_header *header = (const void *)pool->base;
	uint32_t hosts = header->hosts, host = pool->home->host;

	pool->slice_bits = header->slice_bits;
	pool->cut_bits = header->cut_bits;
	if (!hosts || hosts > WEFT_HOSTS || hosts & (hosts - 1) || host >= hosts ||
	    pool->slice_bits > WEFT_MEMBER_BITS || hosts > 1u << pool->slice_bits ||
	    pool->cut_bits > WEFT_CUT_BITS)
		return -EPROTO;
	pool->host_bits = (uint32_t)__builtin_ctz(hosts);
	pool->host = (uint16_t)host;
	pool->segments = (uint32_t)weft_segment_of(pool, pool->bytes);
	return 0;
}

static void init_mutexes(struct weft_attachment *a)
{
	pthread_mutexattr_t attr;

	/* the allocators call each other and the window */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&a->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_mutex_init(&a->shared_line, NULL);
	pthread_mutex_init(&a->visit_mutex, NULL);
	pthread_mutex_init(&a->quarantine_mutex, NULL);
}

static int join(struct weft_attachment *a, const char **why)
{
	int key, err;

	*why = "no address space for the pool";
	err = map_pool(a);
	if (err)
		return err;
	*why = "the pool's header, or its home, says of a host that cannot be";
	err = find_slices(&a->pool);
	if (err)
		return err;
	weft_gate_open(&a->pool);
	err = weft_host_arrive(a, why);
	if (err)
		return err;
	weft_pool_recover(&a->pool);
	*why = "the pool file cannot be opened";
	key = weft_enter(a);
	if (key == -ETIMEDOUT)
		*why = WEFT_BACKING_STUCK;
	if (key < 0)
		return key;
	*why = "the pool takes no further member";
	err = weft_member_join(a);
	weft_leave(a, key);
	return err;
}

static void let_go(struct weft_attachment *a)
{
	weft_host_end(a);
	weft_gate_open(NULL);
	unmap(a);
	if (a->backed)
		a->on->close(a->backed);
	for (uint32_t i = 0; i < WEFT_SEGMENTS; i++)
		free(a->books[i]);
	for (uint32_t i = 0; i < WEFT_HEAP_CLASSES; i++)
		free(a->heap[i].free);
	weft_quarantine_end(&a->quarantine);
	free(a);
}

int weft_open_attach(const struct weft_backing *on, const char *path, bool own,
		     struct weft_attachment **out, const char **why)
{
	struct weft_attachment *a;
	int err;

	*why = "what the pool stands on lacks atomics, or is not coherent, or has no fence for all";
	if (~on->can & WEFT_BACKING_NEEDED)
		return -EOPNOTSUPP;
	a = calloc(1, sizeof(*a));
	*why = "out of memory";
	if (!a)
		return -ENOMEM;
	strcpy(a->path, path);
	a->on = on;
	a->pool.calls = &weft_pool_calls;
	a->pool.me = UINT16_MAX; /* no member yet */
	init_mutexes(a);
	err = on->open(path, own, weft_signature(), &a->backed, &a->pool.bytes, why);
	if (!err)
		err = join(a, why);
	if (err) {
		let_go(a);
		return err;
	}
	a->references = 1;
	*out = a;
	return 0;
}

int weft_pool_get(const char *path, struct weft_pool **pool, char *where, const char **why)
{
	const struct weft_backing *backing = weft_open_backing(path);
	bool own;
	int err = backing->choose(path, where, &own);

	*why = "the pool's path is too long";
	if (err)
		return err;
	pthread_mutex_lock(&opening);
	if (!attached) {
		err = weft_open_attach(backing, where, own, &attached, why);
	} else if (!strcmp(attached->path, where)) {
		attached->references++;
	} else {
		*why = "the process has another pool open";
		err = -EBUSY;
	}
	if (!err)
		*pool = &attached->pool;
	pthread_mutex_unlock(&opening);
	return err;
}

void weft_pool_put(struct weft_pool *pool)
{
	struct weft_attachment *a = weft_attachment(pool);

	pthread_mutex_lock(&opening);
	if (--a->references == 0) {
		if (a == attached)
			attached = NULL;
		weft_wake_end();
		weft_life_leave(a);
		let_go(a);
	}
	pthread_mutex_unlock(&opening);
}

int weft_pool_remove(const char *path, const char **why)
{
	const struct weft_backing *backing = weft_open_backing(path);
	char chosen[PATH_MAX];
	bool own;
	int err = backing->choose(path, chosen, &own);

	*why = "the pool's path is too long";
	return err ? err : backing->remove(chosen, own, why);
}

int weft_pool_create(const char *path, uint32_t hosts, uint64_t bytes, uint32_t silence_ms,
		     uint32_t flags, const char **why)
{
	const struct weft_backing *backing = weft_open_backing(path);
	struct weft_backing_plan plan = {hosts, bytes, silence_ms, flags};
	char chosen[PATH_MAX];
	bool own;
	int err;

	*why = "only a memory of several hosts is made so: shm:PATH, pci:ADDRESS or dax:PATH";
	if (!backing->create)
		return -EINVAL;
	*why = "the pool's path is too long";
	err = backing->choose(path, chosen, &own);
	return err ? err : backing->create(chosen, &plan, weft_signature(), why);
}

bool weft_pool_is_made_by_use(const char *path)
{
	return !weft_open_backing(path)->create;
}

bool weft_pool_has_atomics(const struct weft_pool *pool)
{
	const struct weft_pool_header *header = (const void *)pool->base;

	return !header->pool_id || header->flags & WEFT_POOL_ATOMICS;
}

bool weft_pool_has_hosts(const struct weft_pool *pool)
{
	return ((const struct weft_attachment *)pool)->hosts;
}

int weft_pool_identity(uint64_t identity[2])
{
	const struct weft_backing *backing = weft_open_backing(NULL);
	char where[PATH_MAX];
	int err = 0;
	bool own;

	identity[0] = identity[1] = 0;
	pthread_mutex_lock(&opening);
	if (attached) {
		attached->on->identity(attached->backed, identity);
	} else {
		err = backing->choose(NULL, where, &own);
		if (!err)
			err = backing->identify(where, identity);
	}
	pthread_mutex_unlock(&opening);
	return err;
}

uint64_t weft_pool_new_bytes(void)
{
	return weft_open_backing(NULL)->new_bytes();
}

uint64_t weft_pool_head_room(void)
{
	return weft_open_backing(NULL)->head_room();
}

/* Async-signal-safe. The window was not inherited; the private arrays are left where they are, and kept in sight of
 * which looks for leaks when the child ends. */
void weft_pool_forget(void)
{
	static struct weft_attachment *inherited;

	if (attached) {
		attached->on->forget(attached->backed);
		attached->parents = inherited;
		inherited = attached;
	}
	attached = NULL;
	weft_gate_open(NULL);
	weft_wake_forget();
	pthread_mutex_init(&opening, NULL);
}
