/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A table of ranges in rising order that readers search without a lock:
 *
 * `turn`          | writer | odd, then a release fence, before the table changes; even, by release, behind that
 * `table`, ranges | writer | relaxed, between these
 *
 * A reader that finds `turn` odd, or changed behind its acquire fence, reads again. What it has read until then may be of two tables,
 * but lies in one of them: a table is not freed, and has its count beside it, which is never more than it has room for.
 */
#include "process/ranges.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LEAST_ROOM 64u

struct shown {
	_Atomic uint64_t start, end;
};

struct table {
	struct table *before; /* smaller ones: readers may be in the middle of them */
	uint32_t room;
	_Atomic uint32_t count;
	_Atomic uint64_t first,
		last; /* where the first begins and the last ends; of none both are 0 */
	struct shown range[];
};

static _Atomic(struct table *) table;
static _Atomic uint32_t turn;

static int by_start(const void *a, const void *b)
{
	const struct weft_range *one = a, *other = b;

	return (one->start > other->start) - (one->start < other->start);
}

/* How many are left. */
static uint32_t merge_ranges(struct weft_range *ranges, uint32_t count)
{
	uint32_t last = 0;

	qsort(ranges, count, sizeof(*ranges), by_start);
	for (uint32_t i = 1; i < count; i++)
		if (ranges[i].start > ranges[last].end)
			ranges[++last] = ranges[i];
		else if (ranges[i].end > ranges[last].end)
			ranges[last].end = ranges[i].end;
	return count ? last + 1 : 0;
}

/* One with room for so many: the one that is used, or a larger one. */
static struct table *table_for(uint32_t count)
{
	struct table *now = atomic_load_explicit(&table, memory_order_relaxed), *next;
	uint32_t room = now ? now->room : LEAST_ROOM;

	if (now && count <= now->room)
		return now;
	while (room < count)
		room *= 2;
	next = calloc(1, sizeof(*next) + room * sizeof(next->range[0]));
	if (next) {
		next->before = now;
		next->room = room;
	}
	return next;
}

int weft_ranges_set(struct weft_range *ranges, uint32_t count)
{
	uint32_t left = merge_ranges(ranges, count);
	struct table *to = table_for(left);

	if (!to)
		return -ENOMEM;
	atomic_store_explicit(&turn, atomic_load_explicit(&turn, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* with the fence in weft_ranges_have */
	for (uint32_t i = 0; i < left; i++) {
		atomic_store_explicit(&to->range[i].start, ranges[i].start, memory_order_relaxed);
		atomic_store_explicit(&to->range[i].end, ranges[i].end, memory_order_relaxed);
	}
	atomic_store_explicit(&to->count, left, memory_order_relaxed);
	atomic_store_explicit(&to->first, left ? ranges[0].start : 0, memory_order_relaxed);
	atomic_store_explicit(&to->last, left ? ranges[left - 1].end : 0, memory_order_relaxed);
	/* release, both: with the acquires in weft_ranges_have */
	atomic_store_explicit(&table, to, memory_order_release);
	atomic_store_explicit(&turn, atomic_load_explicit(&turn, memory_order_relaxed) + 1,
			      memory_order_release);
	return 0;
}

/* The last range that begins before `end` is the only one that can have a byte from `at` on. */
static inline bool is_within(const struct table *t, uint64_t at, uint64_t end)
{
	const struct shown *r;
	uint32_t n;

	/* most that is asked for is the host's, whose memory lies elsewhere */
	if (!t || at >= atomic_load_explicit(&t->last, memory_order_relaxed) ||
	    end <= atomic_load_explicit(&t->first, memory_order_relaxed))
		return false;
	n = atomic_load_explicit(&t->count, memory_order_relaxed);
	r = t->range;
	for (uint32_t half; n > 1; n -= half) {
		half = n / 2;
		if (atomic_load_explicit(&r[half].start, memory_order_relaxed) < end)
			r += half;
	}
	return atomic_load_explicit(&r->start, memory_order_relaxed) < end &&
	       at < atomic_load_explicit(&r->end, memory_order_relaxed);
}

bool weft_ranges_have(uint64_t at, uint64_t len_bytes)
{
	uint32_t was;
	bool found;

	if (!len_bytes)
		return false;
	do {
		was = atomic_load_explicit(&turn, memory_order_acquire);
		found = is_within(atomic_load_explicit(&table, memory_order_acquire), at,
				  at + len_bytes);
		atomic_thread_fence(memory_order_acquire);
	} while (was & 1 || was != atomic_load_explicit(&turn, memory_order_relaxed));
	return found;
}

void weft_ranges_forget(void)
{
	struct table *t = atomic_load_explicit(&table, memory_order_relaxed);

	atomic_store_explicit(&turn, 0, memory_order_relaxed);
	if (t)
		atomic_store_explicit(&t->last, 0, memory_order_relaxed);
}
