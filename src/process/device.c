/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/device.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "pool/step.h"
#include "process/device_own.h"
#include "process/pinned.h"
#include "process/ranges.h"

pthread_mutex_t weft_device_mutex = PTHREAD_MUTEX_INITIALIZER;
struct weft_device *weft_devices;
static const struct weft_plugin *plugin;
static pthread_mutex_t one_atomic = PTHREAD_MUTEX_INITIALIZER;

/* ---- The plugin ---- */

bool weft_device_any(void)
{
	bool any;

	pthread_mutex_lock(&weft_device_mutex);
	any = !weft_plugin_load(&plugin);
	pthread_mutex_unlock(&weft_device_mutex);
	return any;
}

const char *weft_device_missing(void)
{
	return weft_plugin_missing();
}

bool weft_device_pins(uintptr_t start, uintptr_t end, struct weft_run *pinned)
{
	const struct weft_plugin *loaded = weft_plugin_loaded();
	uint64_t from = start, until = end;
	bool any = !loaded || loaded->pins(start, end - start, &from, &until);

	*pinned = (struct weft_run){from, until};
	return any;
}

/* ---- Regions ---- */

struct weft_share *weft_device_share(struct weft_pool *pool, uint64_t off)
{
	return weft_pool_window(pool, off, sizeof(struct weft_share));
}

/* What no CPU reads; all but one, which may be NULL. 0 or -ENOMEM. The mutex is held. */
static int tell_ranges(const struct weft_device *but)
{
	struct weft_range *ranges;
	uint32_t count = 0, n = 0;
	int err;

	for (const struct weft_device *d = weft_devices; d; d = d->next)
		count++;
	ranges = calloc(count + 1, sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	for (const struct weft_device *d = weft_devices; d; d = d->next)
		if (d != but && d->plugin->is_apart(d->memory))
			ranges[n++] = (struct weft_range){d->start, d->start + d->len_bytes};
	err = weft_ranges_set(ranges, n);
	free(ranges);
	return err;
}

int weft_device_begin(struct weft_pool *pool, uint64_t va, uint64_t len_bytes,
		      struct weft_device **device)
{
	struct weft_device *d = NULL;
	int err;

	pthread_mutex_lock(&weft_device_mutex);
	err = weft_plugin_load(&plugin);
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
	plugin->share(d->memory, weft_device_share(pool, d->off));
	WEFT_STEP(device_shared);
	d->start = va;
	d->len_bytes = len_bytes;
	d->next = weft_devices;
	weft_devices = d;
	err = tell_ranges(NULL);
	if (err)
		goto take_out;
	*device = d;
	goto unlock;
take_out:
	weft_devices = d->next;
	weft_pool_free(pool, d->off, sizeof(struct weft_share));
end_memory:
	plugin->end(d->memory);
free_device:
	free(d);
unlock:
	pthread_mutex_unlock(&weft_device_mutex);
	return err == -ENOSPC ? -ENOMEM : err;
}

static void close_views(struct weft_device *d)
{
	struct weft_device_view *v;

	while ((v = d->views)) {
		d->views = v->next;
		if (v->opened)
			d->plugin->close(v->opened);
		free(v);
	}
}

/* It is not found any more; a copy that goes on needs nothing of ours to end. The mutex is held. */
static void await_device_users(const struct weft_device *d)
{
	while (d->users) {
		pthread_mutex_unlock(&weft_device_mutex);
		sched_yield();
		pthread_mutex_lock(&weft_device_mutex);
	}
}

void weft_device_end(struct weft_pool *pool, struct weft_device *device, bool quiet)
{
	struct weft_device **at = &weft_devices;

	if (!quiet)
		return;
	pthread_mutex_lock(&weft_device_mutex);
	while (*at && *at != device)
		at = &(*at)->next;
	/* not in a child, which has forgotten it */
	if (*at) {
		if (!weft_devices->next)
			weft_pinned_end_all();
		tell_ranges(
			device); /* without memory for it: of what was there is refused more than must be */
		*at = device->next;
		await_device_users(device);
		WEFT_STEP(device_taken_out);
		close_views(device);
		device->plugin->end(device->memory);
		WEFT_STEP(device_ended);
		weft_pool_free(pool, device->off, sizeof(struct weft_share));
	}
	pthread_mutex_unlock(&weft_device_mutex);
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

struct weft_device *weft_device_of(const struct weft_pool *pool, uint64_t id)
{
	const struct weft_pool_mr *mr = &pool->mrs[(uint32_t)id >> WEFT_KEY_BITS];
	struct weft_device *d;

	if (!weft_mr_on_device(mr))
		return NULL;
	pthread_mutex_lock(&weft_device_mutex);
	for (d = weft_devices; d && d->off != weft_mr_device_off(mr); d = d->next)
		;
	pthread_mutex_unlock(&weft_device_mutex);
	return d;
}

/* Others that have mapped memory of a device copy it without its owner: they ask it again where it is no more what it was. */
static void tell_freed(struct weft_pool *pool)
{
	for (const struct weft_device *d = weft_devices; d; d = d->next) {
		struct weft_share *share = weft_device_share(pool, d->off);

		if (atomic_load_explicit(&share->kind, memory_order_relaxed) &&
		    !d->plugin->is_still(d->memory))
			atomic_store_explicit(&share->kind, 0, memory_order_relaxed);
	}
}

/* Memory that others have given up is kept for them no longer than until the helper looks, if it can be let go of without
 * waiting: a kernel of the program's may be waiting for the helper. */
void weft_device_tidy(struct weft_pool *pool)
{
	pthread_mutex_lock(&weft_device_mutex);
	tell_freed(pool);
	for (struct weft_device *d = weft_devices; d; d = d->next)
		for (struct weft_device_view **at = &d->views, *v; (v = *at);) {
			const struct weft_pool_mr *mr =
				&pool->mrs[(uint32_t)v->id >> WEFT_KEY_BITS];

			if (v->users ||
			    atomic_load_explicit(&mr->id, memory_order_acquire) == v->id ||
			    (v->opened && d->plugin->close_waits(v->opened))) {
				at = &v->next;
				continue;
			}
			*at = v->next;
			if (v->opened)
				d->plugin->close(v->opened);
			free(v);
		}
	pthread_mutex_unlock(&weft_device_mutex);
}

void weft_device_forget(void)
{
	pthread_mutex_init(&weft_device_mutex, NULL);
	pthread_mutex_init(&one_atomic, NULL);
	weft_devices = NULL;
	weft_ranges_forget();
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
	const struct weft_device *d = weft_device_of(pool, id);
	struct weft_pinned *pinned;
	int err;

	if (!d)
		return -EFAULT;
	pinned = weft_pinned_begin(pool, d->plugin, d->memory, &here, len_bytes);
	err = d->plugin->copy(d->memory, va, here, len_bytes, write);
	WEFT_STEP(device_copied);
	weft_pinned_end(pinned);
	return err;
}

int weft_device_issue(struct weft_pool *pool, uint64_t id, uint64_t va, void *here,
		      uint64_t len_bytes, bool write, struct weft_device_copying *copying)
{
	struct weft_device *d = weft_device_of(pool, id);
	int err;

	if (!d)
		return -EFAULT;
	copying->device = d;
	copying->pinned = weft_pinned_begin(pool, d->plugin, d->memory, &here, len_bytes);
	err = d->plugin->issue(d->memory, va, here, len_bytes, write);
	WEFT_STEP(device_issued);
	if (err) {
		d->plugin->wait(d->memory);
		weft_pinned_end(copying->pinned);
	}
	return err;
}

int weft_device_issue_more(const struct weft_device_copying *copying, uint64_t va, void *here,
			   uint64_t len_bytes)
{
	const struct weft_device *d = copying->device;
	int err = d->plugin->issue(d->memory, va, here, len_bytes, true);

	WEFT_STEP(device_more_issued);
	return err;
}

int weft_device_wait(struct weft_device_copying *copying)
{
	int err = copying->device->plugin->wait(copying->device->memory);

	WEFT_STEP(device_waited);
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
		WEFT_STEP(device_value_seen);
		word = add ? *value + compare_add : swap;
		err = weft_device_copy(pool, id, va, &word, sizeof(word), true);
	}
	pthread_mutex_unlock(&one_atomic);
	return err;
}
