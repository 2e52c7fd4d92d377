/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/trial.h"

#include <errno.h>

#include "pool/format.h"
#include "pool/internal.h"

_Static_assert(WEFT_OFF_LEASES + sizeof(struct weft_pool_leases) <= WEFT_OFF_TRIAL,
	       "the room is behind the leases");
_Static_assert(WEFT_OFF_TRIAL + sizeof(struct weft_trial_room) <= WEFT_OFF_MEMBERS,
	       "the room is before the members");
_Static_assert(sizeof(struct weft_trial_side) == 2 * WEFT_PAGE, "a page is tried, and one is not");

static bool is_zero(const void *at, uint64_t bytes)
{
	const uint64_t *word = at;

	for (uint64_t i = 0; i < bytes / sizeof(*word); i++)
		if (word[i])
			return false;
	return true;
}

/* Whose memory it is. */
static int look_whose(struct weft_trial *t, const char **why)
{
	const struct weft_pool_header *header = t->pages.at;
	bool empty;

	*why = "the pool is just being made";
	if (header->magic == WEFT_POOL_MAKING)
		return -EPROTO;
	t->is_pool = header->magic == WEFT_POOL_MAGIC;
	t->flags = t->is_pool ? header->flags : 0;
	*why = "the pool was made by another version of Weft";
	if (t->is_pool)
		return header->version == WEFT_POOL_VERSION && header->signature == weft_signature()
			       ? 0
			       : -EPROTO;
	/* the room first: a side that comes meanwhile stores `magic` before all else there */
	empty = is_zero(t->room, sizeof(*t->room));
	atomic_thread_fence(memory_order_seq_cst);
	t->is_others = !is_zero(header, WEFT_PAGE) ||
		       (!empty && atomic_load_explicit(&t->room->magic, memory_order_relaxed) !=
					  WEFT_TRIAL_MAGIC);
	return 0;
}

int weft_trial_open(const char *path, char where[PATH_MAX], struct weft_trial *t, const char **why)
{
	bool own;
	int err;

	*t = (struct weft_trial){.on = weft_open_backing(path)};
	*why = "the memory of several hosts is shm:PATH, pci:ADDRESS or dax:PATH";
	where[0] = '\0';
	if (!t->on->expose)
		return -EINVAL;
	*why = "the pool's path is too long";
	err = t->on->choose(path, where, &own);
	if (!err)
		err = t->on->expose(where, WEFT_OFF_TRIAL + sizeof(*t->room), &t->pages, why);
	if (err)
		return err;
	t->room = (void *)((uint8_t *)t->pages.at + WEFT_OFF_TRIAL);
	err = look_whose(t, why);
	if (err)
		weft_trial_close(t);
	return err;
}

void weft_trial_close(struct weft_trial *t)
{
	t->on->cover(&t->pages);
}
