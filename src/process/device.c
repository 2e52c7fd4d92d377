/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/device.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/format_region.h"
#include "process/pinned.h"
#include "process/plugin.h"
#include "process/reach.h"

/* The driver of devices that there is a plugin for, by how its name begins. */
#define DRIVER "libcuda.so"
#define PLUGIN "libweft-cuda.so"

/* Between two processes on one device: from so many bytes on it takes less to wait for the other's turn. */
#define SAME_DEVICE_LEAST_BYTES (1u << 20)

/* Another process's memory, as one of ours reaches it. */
struct view {
	uint64_t id;  /* of the region, which may have ended since */
	void *opened; /* NULL: it cannot be */
	unsigned int users;
	struct view *next;
};

struct weft_device {
	const struct weft_plugin *plugin;
	void *memory;
	uint64_t off; /* of its struct weft_share */
	struct view *views;
	struct weft_device *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static const struct weft_plugin *plugin;
static struct weft_device *devices;
static char missing[256];
static pthread_mutex_t one_atomic = PTHREAD_MUTEX_INITIALIZER;

/* ---- The plugin ---- */

static int is_driver(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *name = strrchr(info->dlpi_name, '/');

	return !strncmp(name ? name + 1 : info->dlpi_name, DRIVER, sizeof(DRIVER) - 1);
}

/* It lies beside the library that this is a part of. */
static void *open_plugin(void)
{
	char path[4096];
	const char *end;
	Dl_info self;

	if (!dladdr(&devices, &self) || !self.dli_fname)
		return NULL;
	end = strrchr(self.dli_fname, '/');
	snprintf(path, sizeof(path), "%.*s" PLUGIN, end ? (int)(end + 1 - self.dli_fname) : 0,
		 self.dli_fname);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* 0, -ENOENT, -ENOPKG. It stays loaded. */
static int load_plugin(void)
{
	const struct weft_plugin *found;
	void *library;

	if (plugin)
		return 0;
	if (!dl_iterate_phdr(is_driver, NULL))
		return -ENOENT;
	library = open_plugin();
	if (!library) {
		const char *why = dlerror();

		snprintf(missing, sizeof(missing), "%s", why ? why : PLUGIN);
		return -ENOPKG;
	}
	found = dlsym(library, WEFT_PLUGIN_SYMBOL);
	if (!found || found->version != WEFT_PLUGIN_VERSION) {
		snprintf(missing, sizeof(missing), PLUGIN " is of another version");
		return -ENOPKG;
	}
	plugin = found;
	return 0;
}

bool weft_device_any(void)
{
	bool any;

	pthread_mutex_lock(&mutex);
	any = !load_plugin();
	pthread_mutex_unlock(&mutex);
	return any;
}

const char *weft_device_missing(void)
{
	return missing;
}

/* ---- Regions ---- */

static struct weft_share *share_of(struct weft_pool *pool, uint64_t off)
{
	return weft_pool_window(pool, off, sizeof(struct weft_share));
}

int weft_device_begin(struct weft_pool *pool, uint64_t va, uint64_t len_bytes,
		      struct weft_device **device)
{
	struct weft_device *d = NULL;
	int err;

	pthread_mutex_lock(&mutex);
	err = load_plugin();
	if (err)
		goto unlock;
	err = -ENOMEM;
	d = calloc(1, sizeof(*d));
	if (!d)
		goto unlock;
	d->plugin = plugin;
	err = plugin->begin(va, len_bytes, &d->memory);
	if (err)
		goto free_device;
	err = weft_pool_alloc(pool, sizeof(struct weft_share), &d->off);
	if (err)
		goto end_memory;
	plugin->share(d->memory, share_of(pool, d->off));
	d->next = devices;
	devices = d;
	*device = d;
	goto unlock;
end_memory:
	plugin->end(d->memory);
free_device:
	free(d);
unlock:
	pthread_mutex_unlock(&mutex);
	return err == -ENOSPC ? -ENOMEM : err;
}

static void close_views(struct weft_device *d)
{
	struct view *v;

	while ((v = d->views)) {
		d->views = v->next;
		if (v->opened)
			d->plugin->close(v->opened);
		free(v);
	}
}

void weft_device_end(struct weft_pool *pool, struct weft_device *device, bool quiet)
{
	struct weft_device **at = &devices;

	if (!quiet)
		return;
	pthread_mutex_lock(&mutex);
	while (*at && *at != device)
		at = &(*at)->next;
	/* not in a child, which has forgotten it */
	if (*at) {
		/* the driver has pinned for it and others, or for it alone */
		weft_pinned_tidy(pool, !devices->next);
		*at = device->next;
		close_views(device);
		device->plugin->end(device->memory);
		weft_pool_free(pool, device->off, sizeof(struct weft_share));
	}
	pthread_mutex_unlock(&mutex);
	free(device);
}

uint64_t weft_device_off(const struct weft_device *device)
{
	return WEFT_ON_DEVICE | device->off / WEFT_LINE;
}

void weft_device_name(const struct weft_device *device, char *name)
{
	device->plugin->name(device->memory, name);
}

static struct weft_device *device_of(const struct weft_pool *pool, uint64_t id)
{
	const struct weft_pool_mr *mr = &pool->mrs[(uint32_t)id >> WEFT_KEY_BITS];
	struct weft_device *d;

	if (!weft_mr_on_device(mr))
		return NULL;
	pthread_mutex_lock(&mutex);
	for (d = devices; d && d->off != weft_mr_device_off(mr); d = d->next)
		;
	pthread_mutex_unlock(&mutex);
	return d;
}

/* Memory that others have given up is kept for them no longer than until the helper looks. */
void weft_device_tidy(struct weft_pool *pool)
{
	pthread_mutex_lock(&mutex);
	for (struct weft_device *d = devices; d; d = d->next)
		for (struct view **at = &d->views, *v; (v = *at);) {
			const struct weft_pool_mr *mr =
				&pool->mrs[(uint32_t)v->id >> WEFT_KEY_BITS];

			if (v->users ||
			    atomic_load_explicit(&mr->id, memory_order_acquire) == v->id) {
				at = &v->next;
				continue;
			}
			*at = v->next;
			if (v->opened)
				d->plugin->close(v->opened);
			free(v);
		}
	pthread_mutex_unlock(&mutex);
	weft_pinned_tidy(pool, false);
}

void weft_device_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	pthread_mutex_init(&one_atomic, NULL);
	devices = NULL;
	weft_pinned_forget();
}

/* ---- Bytes ---- */

bool weft_device_has(const struct weft_pool *pool, uint64_t id)
{
	return weft_mr_on_device(&pool->mrs[(uint32_t)id >> WEFT_KEY_BITS]);
}

int weft_device_copy(struct weft_pool *pool, uint64_t id, uint64_t va, void *here,
		     uint64_t len_bytes, bool write)
{
	const struct weft_device *d = device_of(pool, id);
	struct weft_pinned *pinned;
	int err;

	if (!d)
		return -EFAULT;
	pinned = weft_pinned_begin(pool, d->plugin, d->memory, here, len_bytes);
	err = d->plugin->copy(d->memory, va, here, len_bytes, write);
	weft_pinned_end(pinned);
	return err;
}

int weft_device_issue(struct weft_pool *pool, uint64_t id, uint64_t va, void *here,
		      uint64_t len_bytes, bool write, struct weft_device_copying *copying)
{
	struct weft_device *d = device_of(pool, id);
	int err;

	if (!d)
		return -EFAULT;
	copying->device = d;
	copying->pinned = weft_pinned_begin(pool, d->plugin, d->memory, here, len_bytes);
	err = d->plugin->issue(d->memory, va, here, len_bytes, write);
	if (err) {
		d->plugin->wait(d->memory);
		weft_pinned_end(copying->pinned);
	}
	return err;
}

int weft_device_wait(struct weft_device_copying *copying)
{
	int err = copying->device->plugin->wait(copying->device->memory);

	weft_pinned_end(copying->pinned);
	return err;
}

int weft_device_change(struct weft_pool *pool, uint64_t id, uint64_t va, bool add,
		       uint64_t compare_add, uint64_t swap, uint64_t *value)
{
	uint64_t word;
	int err;

	pthread_mutex_lock(&one_atomic);
	err = weft_device_copy(pool, id, va, value, sizeof(*value), false);
	if (!err && (add || *value == compare_add)) {
		word = add ? *value + compare_add : swap;
		err = weft_device_copy(pool, id, va, &word, sizeof(word), true);
	}
	pthread_mutex_unlock(&one_atomic);
	return err;
}

/* ---- The machine of the nic ---- */

/* Whether the memory at `here` is still what its region was made of. */
static bool is_source_still(const struct weft_pool *pool, const struct weft_in_place *memory)
{
	const struct weft_device *d = memory->here_id ? device_of(pool, memory->here_id) : NULL;

	return !memory->here_id || (d && d->plugin->is_still(d->memory));
}

/* Another's memory is seen by the calling thread's busy line, for which its end waits. NULL: by its helper. */
static struct view *open_view(struct weft_pool *pool, const struct weft_in_place *memory,
			      struct weft_device *ours)
{
	const struct weft_pool_mr *mr = &pool->mrs[(uint32_t)memory->id >> WEFT_KEY_BITS];
	const struct weft_share *theirs = share_of(pool, weft_mr_device_off(mr));
	struct weft_share seen;
	struct view *v;

	for (v = ours->views; v && v->id != memory->id; v = v->next)
		;
	if (v || !theirs)
		return v;
	v = calloc(1, sizeof(*v));
	if (!v)
		return NULL;
	memcpy(&seen, theirs, sizeof(seen));
	v->id = memory->id;
	if (ours->plugin->open(ours->memory, &seen, &v->opened))
		v->opened = NULL;
	/* what was opened is its owner's only if that has it still */
	if (v->opened && weft_reach_check(pool, memory)) {
		ours->plugin->close(v->opened);
		v->opened = NULL;
	}
	v->next = ours->views;
	ours->views = v;
	return v;
}

/* On one device the owner's copies are not held up by the other's kernels, a peer's are, for milliseconds. */
static bool is_worth_it(struct weft_pool *pool, const struct weft_in_place *memory,
			const struct weft_device *ours, uint64_t len_bytes)
{
	const struct weft_pool_mr *mr = &pool->mrs[(uint32_t)memory->id >> WEFT_KEY_BITS];
	const struct weft_share *theirs = share_of(pool, weft_mr_device_off(mr));
	const struct weft_share *own = share_of(pool, ours->off);

	return theirs && theirs->kind &&
	       (len_bytes >= SAME_DEVICE_LEAST_BYTES ||
		memcmp(theirs->device, own->device, sizeof(own->device)) != 0);
}

/* Between memory of a device of ours and of another process. -ENOTSUP: by its helper. */
static int move_between(struct weft_pool *pool, const struct weft_in_place *memory, void *here,
			uint64_t len_bytes, bool write)
{
	struct weft_device *ours = device_of(pool, memory->here_id);
	int err = -ENOTSUP;
	struct view *v;

	if (!ours || !ours->plugin->is_still(ours->memory))
		return -ENXIO;
	if (!is_worth_it(pool, memory, ours, len_bytes))
		return -ENOTSUP;
	pthread_mutex_lock(&mutex);
	v = open_view(pool, memory, ours);
	if (v)
		v->users++;
	pthread_mutex_unlock(&mutex);
	if (!v)
		return -ENOTSUP;
	if (v->opened)
		err = ours->plugin->copy_view(v->opened, memory->va, (uintptr_t)here, len_bytes,
					      write);
	pthread_mutex_lock(&mutex);
	v->users--;
	pthread_mutex_unlock(&mutex);
	return err;
}

int weft_device_move(struct weft_pool *pool, const struct weft_caller *caller,
		     const struct weft_in_place *memory, void *here, uint64_t len_bytes, bool write)
{
	int err;

	if (memory->grant->member != pool->me) {
		err = memory->here_id ? move_between(pool, memory, here, len_bytes, write)
				      : -ENOTSUP;
		return err == -ENOTSUP
			       ? weft_reach_by_helper(pool, caller, memory, here, len_bytes, write)
			       : err;
	}
	if (!is_source_still(pool, memory))
		return -ENXIO;
	return weft_device_copy(pool, memory->id, memory->va, here, len_bytes, write);
}

int weft_device_atomic(struct weft_pool *pool, const struct weft_caller *caller,
		       const struct weft_in_place *memory, bool add, uint64_t compare_add,
		       uint64_t swap, uint64_t *value)
{
	if (memory->grant->member != pool->me)
		return weft_reach_atomic_by_helper(pool, caller, memory, add, compare_add, swap,
						   value);
	return weft_device_change(pool, memory->id, memory->va, add, compare_add, swap, value);
}
