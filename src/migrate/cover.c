/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/cover.h"

#include <errno.h>
#include <stddef.h>

#include "pool/clock.h"
#include "migrate/migratable.h"
#include "migrate/migrated.h"

/* A turn of coming home holds up others that register by a millisecond or two. */
#define HOME_BYTES (4ul << 20)
/* A thread that cannot be held makes each try as long as the patience with it: so long it is left to later ones. */
#define IN_WAY_NS 1000000000ull

static struct {
	struct weft_interval *root;
	uint64_t born; /* regions so far */
	uint64_t away_bytes;
	uint64_t in_way_until_ns; /* a thread may stand in the way till then */
} self;

struct weft_interval *weft_cover_from(uintptr_t addr)
{
	return weft_interval_from(self.root, addr);
}

int weft_cover_cut(uintptr_t addr)
{
	struct weft_interval *interval = weft_interval_from(self.root, addr);

	if (!interval || interval->start >= addr)
		return 0;
	if (!weft_interval_cut(&self.root, interval, addr))
		return -ENOMEM;
	if (interval->extent)
		interval->extent->refs++;
	return 0;
}

static void join_at(uintptr_t at)
{
	struct weft_interval *upper = weft_interval_from(self.root, at);
	struct weft_extent *extent = upper ? upper->extent : NULL;

	if (weft_interval_join(&self.root, at) && extent)
		weft_migrated_drop(extent);
}

static void set_extent(struct weft_interval *interval, struct weft_extent *extent)
{
	struct weft_extent *last = interval->extent;

	interval->extent = extent;
	interval->off = extent ? extent->off + (interval->start - extent->va) : 0;
	if (extent)
		extent->refs++;
	if (last)
		weft_migrated_drop(last);
}

void weft_cover_place(uintptr_t start, uintptr_t end, struct weft_extent *extent)
{
	struct weft_interval *interval;

	extent->refs++;
	extent->strayed |= weft_cover_cut(end) != 0; /* then nothing else knows of its pages */
	for (uintptr_t at = start; at < end && !extent->strayed; at = interval->end) {
		interval = weft_interval_from(self.root, at);
		set_extent(interval, extent);
	}
	weft_migrated_drop(extent);
}

static uint64_t interval_bytes(const struct weft_interval *interval)
{
	return interval->end - interval->start;
}

static bool is_away(const struct weft_interval *interval)
{
	return interval->extent && !interval->refs;
}

static void remove_interval(struct weft_interval *interval)
{
	if (is_away(interval))
		self.away_bytes -= interval_bytes(interval);
	set_extent(interval, NULL);
	weft_interval_remove(&self.root, interval);
}

int weft_cover_check(const struct weft_vma *vma, uintptr_t start, uintptr_t end)
{
	struct weft_interval *interval;

	for (uintptr_t at = start;; at = interval->end) {
		interval = weft_interval_from(self.root, at);
		if (!interval || interval->start >= end)
			break;
		if (!interval->extent || weft_migrated_shows(vma, interval))
			continue;
		if (weft_cover_cut(start) || weft_cover_cut(end))
			return -ENOMEM;
		interval = weft_interval_from(self.root, at);
		interval->extent->strayed = true;
		remove_interval(interval);
		return weft_cover_check(vma, start, end);
	}
	return 0;
}

static bool is_pinned(const struct weft_interval *interval)
{
	return weft_migratable_is_pinned(interval->start, interval->end);
}

static bool back_unpinned(struct weft_interval *interval)
{
	if (!weft_migrated_back(interval))
		return false;
	if (is_away(interval))
		remove_interval(interval);
	else
		set_extent(interval, NULL);
	return true;
}

bool weft_cover_back(struct weft_interval *interval)
{
	return !is_pinned(interval) && back_unpinned(interval);
}

/* Whether pages may migrate back, as far as can be known before it is tried. */
static bool may_go_back(void)
{
	return (!self.in_way_until_ns || weft_clock_now_ns() >= self.in_way_until_ns) &&
	       weft_migratable_back();
}

static bool try_back(struct weft_interval *interval)
{
	bool back = back_unpinned(interval);

	self.in_way_until_ns = back ? 0 : weft_clock_now_ns() + IN_WAY_NS;
	return back;
}

/* Drops a reference on what the region `born` covered of [start, end). */
static void uncover(uintptr_t start, uintptr_t end, uint64_t born)
{
	struct weft_interval *interval;
	bool asked = false, may = false;
	uintptr_t next;

	for (uintptr_t at = start; at < end; at = next) {
		interval = weft_interval_from(self.root, at);
		if (!interval || interval->start >= end)
			break;
		next = interval->end;
		/* what was born later took the place of what this region covered */
		if (interval->born > born || --interval->refs)
			continue;
		if (interval->extent) {
			self.away_bytes += interval_bytes(interval);
			may = asked ? may : may_go_back();
			asked = true;
			/* if a thread stands in the way of one, so it does of the next */
			if (may && !is_pinned(interval))
				may = try_back(interval);
		} else {
			remove_interval(interval);
		}
	}
}

/* A region's borders must not vanish when others are released: counted at both ends. */
static void count_border(uintptr_t addr, uint64_t born, int by)
{
	struct weft_interval *interval = weft_interval_from(self.root, addr);

	if (interval && interval->start == addr && interval->born <= born)
		interval->borders += (unsigned int)by;
}

/* Takes a reference on each interval of [start, end), of which there is one at each address. */
static int cover(uintptr_t start, uintptr_t end)
{
	struct weft_interval *interval;

	for (uintptr_t at = start; at < end; at = interval->end) {
		interval = weft_interval_from(self.root, at);
		if (!interval || interval->start > at) {
			uintptr_t gap_end =
				interval && interval->start < end ? interval->start : end;

			interval = weft_interval_add(&self.root, at, gap_end);
			if (!interval) {
				uncover(start, at, self.born);
				return -ENOMEM;
			}
			interval->born = self.born;
		}
		if (is_away(interval))
			self.away_bytes -= interval_bytes(interval);
		interval->refs++;
	}
	return 0;
}

int weft_cover_begin(uintptr_t start, uintptr_t end, uint64_t *born)
{
	*born = ++self.born;
	if (weft_cover_cut(start) || weft_cover_cut(end) || cover(start, end))
		return -ENOMEM;
	count_border(start, self.born, 1);
	count_border(end, self.born, 1);
	return 0;
}

void weft_cover_end(uintptr_t start, uintptr_t end, uint64_t born)
{
	count_border(start, born, -1);
	count_border(end, born, -1);
	uncover(start, end, born);
	join_at(start);
	join_at(end);
}

uint64_t weft_cover_away(void)
{
	return self.away_bytes;
}

void weft_cover_bring_home(void)
{
	struct weft_interval *interval;
	uint64_t done = 0;
	uintptr_t next;

	if (!weft_migratable_back())
		return;
	for (uintptr_t at = 0; done < HOME_BYTES; at = next) {
		interval = weft_interval_from(self.root, at);
		if (!interval)
			break;
		next = interval->end;
		if (!is_away(interval))
			continue;
		if (interval_bytes(interval) > HOME_BYTES &&
		    !weft_cover_cut(interval->start + HOME_BYTES))
			next = interval->end;
		if (is_pinned(interval))
			continue;
		done += interval_bytes(interval);
		if (!try_back(interval))
			break;
	}
}

bool weft_cover_all_back(void)
{
	struct weft_interval *interval;
	bool may = false;
	uintptr_t next;

	for (uintptr_t at = 0; (interval = weft_interval_from(self.root, at)); at = next) {
		next = interval->end;
		if (!interval->extent)
			continue;
		may = may || weft_migratable_back();
		if (!may || is_pinned(interval) || !try_back(interval))
			return false;
	}
	return true;
}

void weft_cover_forget(void)
{
	weft_migrated_detach();
	while (self.root)
		remove_interval(self.root);
}
