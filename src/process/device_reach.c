/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Bytes between memory of devices and anything: which process copies, and through what. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/step.h"
#include "process/device_own.h"
#include "process/pinned.h"
#include "process/reach.h"

/* Between two processes on one device: from so many bytes on it takes less to wait for the other's turn. */
#define SAME_DEVICE_LEAST_BYTES (1u << 20)
/* Of the host's, between two devices that one copy does not reach from each other. */
#define BETWEEN_BYTES (256ull << 10)

/* ---- Of two processes ---- */

/* Another's memory is seen by the calling thread's busy line, for which its end waits. NULL: by its helper. */
static struct weft_device_view *
open_view(struct weft_pool *pool, const struct weft_in_place *memory, struct weft_device *ours)
{
	const struct weft_pool_mr *mr = &pool->mrs[(uint32_t)memory->id >> WEFT_KEY_BITS];
	const struct weft_share *theirs = weft_device_share(pool, weft_mr_device_off(mr));
	struct weft_share seen;
	struct weft_device_view *v;

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
	WEFT_STEP(device_opened);
	/* what was opened is its owner's only if that has it still */
	if (v->opened && weft_reach_check(pool, memory)) {
		ours->plugin->close(v->opened);
		v->opened = NULL;
	}
	v->next = ours->views;
	ours->views = v;
	return v;
}

/* Whether others than its owner reach it; NULL: it is in no pool. */
static bool is_reachable_by_others(const struct weft_share *share)
{
	return share && atomic_load_explicit(&share->kind, memory_order_relaxed);
}

/* On one device the owner's copies are not held up by the other's kernels, a peer's are, for milliseconds. */
static bool is_worth_it(struct weft_pool *pool, const struct weft_in_place *memory,
			const struct weft_device *ours, uint64_t len_bytes)
{
	const struct weft_pool_mr *mr = &pool->mrs[(uint32_t)memory->id >> WEFT_KEY_BITS];
	const struct weft_share *theirs = weft_device_share(pool, weft_mr_device_off(mr));
	const struct weft_share *own = weft_device_share(pool, ours->off);

	return is_reachable_by_others(theirs) &&
	       (len_bytes >= SAME_DEVICE_LEAST_BYTES ||
		memcmp(theirs->device, own->device, sizeof(own->device)) != 0);
}

/* Through `ours`, which stays. -ENOTSUP: by their helper. */
static int copy_by_view(struct weft_pool *pool, const struct weft_in_place *memory,
			struct weft_device *ours, void *here, uint64_t len_bytes, bool write)
{
	struct weft_device_view *v;
	int err = -ENOTSUP;

	pthread_mutex_lock(&weft_device_mutex);
	v = open_view(pool, memory, ours);
	if (v)
		v->users++;
	pthread_mutex_unlock(&weft_device_mutex);
	if (!v)
		return -ENOTSUP;
	if (v->opened)
		err = ours->plugin->copy_view(v->opened, memory->va, (uintptr_t)here, len_bytes,
					      write);
	WEFT_STEP(device_view_copied);
	pthread_mutex_lock(&weft_device_mutex);
	v->users--;
	pthread_mutex_unlock(&weft_device_mutex);
	return err;
}

/* Between memory of a device of ours and of another process. -ENOTSUP: by its helper. */
static int copy_between_processes(struct weft_pool *pool, const struct weft_in_place *memory,
				  void *here, uint64_t len_bytes, bool write)
{
	struct weft_device *ours = weft_device_of(pool, memory->here_id);

	if (!ours || !ours->plugin->is_still(ours->memory))
		return -ENXIO;
	if (!is_worth_it(pool, memory, ours, len_bytes))
		return -ENOTSUP;
	return copy_by_view(pool, memory, ours, here, len_bytes, write);
}

/* Memory of ours by which theirs may be reached: of the same device, or any. NULL: there is none. The mutex is held. */
static struct weft_device *find_helping(struct weft_pool *pool, const struct weft_share *theirs)
{
	struct weft_device *any = NULL;

	for (struct weft_device *d = weft_devices; d; d = d->next) {
		const struct weft_share *own = weft_device_share(pool, d->off);

		if (!own || !d->plugin->is_still(d->memory))
			continue;
		if (!memcmp(theirs->device, own->device, sizeof(own->device)))
			return d;
		any = any ? any : d;
	}
	return any;
}

/*
 * From another process's device into memory of the host, by a device of ours: its engine ends before we do, so that nothing
 * comes after the request, as it could from their helper. -ENOTSUP: by that, through a bounce buffer.
 */
static int read_by_view(struct weft_pool *pool, const struct weft_in_place *memory, void *here,
			uint64_t len_bytes)
{
	const struct weft_pool_mr *mr = &pool->mrs[(uint32_t)memory->id >> WEFT_KEY_BITS];
	const struct weft_share *theirs = weft_device_share(pool, weft_mr_device_off(mr));
	struct weft_device *ours = NULL;
	struct weft_pinned *pinned;
	int err = -ENOTSUP;

	if (!is_reachable_by_others(theirs))
		return -ENOTSUP;
	pthread_mutex_lock(&weft_device_mutex);
	if (weft_devices)
		ours = find_helping(pool, theirs);
	if (ours)
		ours->users++;
	pthread_mutex_unlock(&weft_device_mutex);
	if (!ours)
		return -ENOTSUP;
	if (is_worth_it(pool, memory, ours, len_bytes)) {
		pinned = weft_pinned_begin(pool, ours->plugin, ours->memory, &here, len_bytes);
		err = copy_by_view(pool, memory, ours, here, len_bytes, false);
		weft_pinned_end(pinned);
	}
	pthread_mutex_lock(&weft_device_mutex);
	ours->users--;
	pthread_mutex_unlock(&weft_device_mutex);
	/* what does not go here may go there */
	return err ? -ENOTSUP : 0;
}

/* ---- Of this process ---- */

/* From memory of one device to another's, of which no copy reaches the other: the last bytes last, as each part ends before the next. */
static int copy_by_host(struct weft_device *to, uint64_t va, struct weft_device *from,
			uint8_t *here, uint64_t len_bytes, bool write)
{
	uint64_t room = len_bytes < BETWEEN_BYTES ? len_bytes : BETWEEN_BYTES;
	uint8_t *bounce = malloc(room ? room : 1);
	int err = bounce ? 0 : -ENOMEM;

	for (uint64_t done = 0, n; !err && done < len_bytes; done += n) {
		uint64_t theirs = va + done, ours = (uintptr_t)here + done;

		n = len_bytes - done < room ? len_bytes - done : room;
		err = write ? from->plugin->copy(from->memory, ours, bounce, n, false)
			    : to->plugin->copy(to->memory, theirs, bounce, n, false);
		WEFT_STEP(device_on_host);
		if (!err)
			err = write ? to->plugin->copy(to->memory, theirs, bounce, n, true)
				    : from->plugin->copy(from->memory, ours, bounce, n, true);
	}
	free(bounce);
	return err;
}

static int copy_own(struct weft_pool *pool, const struct weft_in_place *memory, void *here,
		    uint64_t len_bytes, bool write)
{
	struct weft_device *ours = weft_device_of(pool, memory->id), *other;

	if (!memory->here_id)
		return weft_device_copy(pool, memory->id, memory->va, here, len_bytes, write);
	other = weft_device_of(pool, memory->here_id);
	/* whether the memory at `here` is still what its region was made of */
	if (!other || !other->plugin->is_still(other->memory))
		return -ENXIO;
	if (!ours || ours->plugin->reaches(ours->memory, other->memory))
		return weft_device_copy(pool, memory->id, memory->va, here, len_bytes, write);
	if (other->plugin->reaches(other->memory, ours->memory))
		return weft_device_copy(pool, memory->here_id, (uintptr_t)here,
					(void *)(uintptr_t)memory->va, len_bytes, !write);
	return copy_by_host(ours, memory->va, other, here, len_bytes, write);
}

/* ---- The machine of the nic ---- */

int weft_device_reach(struct weft_pool *pool, const struct weft_caller *caller,
		      const struct weft_in_place *memory, void *here, uint64_t len_bytes,
		      bool write)
{
	int err = -ENOTSUP;

	if (memory->grant->member == pool->me)
		return copy_own(pool, memory, here, len_bytes, write);
	if (memory->here_id)
		err = copy_between_processes(pool, memory, here, len_bytes, write);
	else if (!write)
		err = read_by_view(pool, memory, here, len_bytes);
	return err == -ENOTSUP ? weft_reach_by_helper(pool, caller, memory, here, len_bytes, write)
			       : err;
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
