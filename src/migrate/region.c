/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "migrate/chunk.h"
#include "pool/clock.h"
#include "migrate/cover.h"
#include "pool/sizes.h"
#include "migrate/fork.h"
#include "migrate/migratable.h"
#include "migrate/migrated.h"
#include "pool/step.h"
#include "backing/unhooked.h"
#include "migrate/vma.h"

#define PAGE_DOWN(addr) ((addr) & ~(uintptr_t)(WEFT_PAGE - 1))
#define PAGE_UP(addr)	PAGE_DOWN((addr) + WEFT_PAGE - 1)

/* How long to wait before what is away is tried again: doubled each time in vain. */
#define HOME_FIRST_NS 10000000ull
#define HOME_MOST_NS  1000000000ull

static struct {
	pthread_mutex_t mutex;
	unsigned int holds;
	bool fork_ready;
	int forking_state; /* of lock_regions(), while its owner forks */
	void (*on_fork_child)(void);
	_Atomic uint64_t
		home_due_ns; /* when to try again; UINT64_MAX: nothing is away. Written under the
				       * mutex */
	uint64_t home_wait_ns;
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER, .home_due_ns = UINT64_MAX};

/* Returns the cancellation state for unlock: a thread must not be cancelled while it has the mutex. */
static int lock_regions(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&self.mutex);
	return state;
}

static void unlock_regions(int state)
{
	pthread_mutex_unlock(&self.mutex);
	pthread_setcancelstate(state, NULL);
}

/* ---- what is away ---- */

/* Sets when to try next: the longer it has been in vain, the later. The mutex is held. */
static void set_next_try(void)
{
	uint64_t due_ns = atomic_load_explicit(&self.home_due_ns, memory_order_relaxed);

	if (!weft_cover_away() && !weft_migrated_is_adrift()) {
		due_ns = UINT64_MAX;
	} else if (due_ns == UINT64_MAX) {
		self.home_wait_ns = HOME_FIRST_NS;
		due_ns = weft_clock_now_ns() + self.home_wait_ns;
	}
	atomic_store_explicit(&self.home_due_ns, due_ns, memory_order_relaxed);
}

/* The mutex is held. */
static void bring_extents_home(uint64_t now_ns)
{
	uint64_t before = weft_cover_away();

	if (now_ns < atomic_load_explicit(&self.home_due_ns, memory_order_relaxed))
		return;
	weft_migrated_land();
	weft_cover_bring_home();
	if (weft_cover_away() < before)
		self.home_wait_ns = HOME_FIRST_NS;
	else if (self.home_wait_ns < HOME_MOST_NS)
		self.home_wait_ns *= 2;
	atomic_store_explicit(&self.home_due_ns, now_ns + self.home_wait_ns, memory_order_relaxed);
	set_next_try();
}

uint64_t weft_region_bring_home(uint64_t now_ns)
{
	int state;

	if (now_ns >= atomic_load_explicit(&self.home_due_ns, memory_order_relaxed)) {
		state = lock_regions();
		bring_extents_home(now_ns);
		unlock_regions(state);
	}
	return atomic_load_explicit(&self.home_due_ns, memory_order_relaxed);
}

bool weft_region_is_away(void)
{
	return atomic_load_explicit(&self.home_due_ns, memory_order_relaxed) != UINT64_MAX;
}

static uintptr_t lower_of(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

/* A mapping may reach beyond the end of its file; the page in which it ends tells. */
static bool is_behind_file(const struct weft_vma *vma, uintptr_t end)
{
	return vma->inode &&
	       weft_unhooked_madvise((void *)PAGE_DOWN(end - 1), WEFT_PAGE, MADV_POPULATE_READ) &&
	       errno == EFAULT;
}

static int check_mapped(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end,
			unsigned int flags)
{
	int prot = flags & WEFT_REGION_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	struct weft_vma vma;
	int err;

	for (uintptr_t at = start; at < end; at = vma.end) {
		err = weft_vma_next(walk, at, &vma);
		if (err == -ENOENT || (!err && (vma.start > at || (vma.prot & prot) != prot)))
			return -EFAULT;
		if (!err && is_behind_file(&vma, lower_of(vma.end, end)))
			return -EFAULT;
		if (!err)
			err = weft_cover_check(&vma, at, lower_of(vma.end, end));
		if (err)
			return err;
	}
	return 0;
}

/* Migrates the run, which lies in one interval in place. Whether all of it has migrated. */
static bool migrate_run(const struct weft_run *run)
{
	struct weft_extent *extent;
	uintptr_t end;

	if (weft_cover_cut(run->start) || weft_cover_cut(run->end))
		return false;
	extent = weft_migrated_in(run->start, run->end, &end);
	if (!extent)
		return false;
	weft_cover_place(run->start, end, extent);
	return end == run->end;
}

/* Migrates what may of [start, end). Whether it is worth going on. */
static bool migrate_what_may(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end)
{
	struct weft_runs runs;
	bool good = !weft_migratable_runs(walk, start, end, &runs);

	for (size_t i = 0; i < runs.count && good; i++)
		good = migrate_run(&runs.run[i]);
	free(runs.run);
	return good;
}

/* Migrates the pages of [start, end) that no earlier region has than the one born then. */
static void migrate_new(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end, uint64_t born)
{
	struct weft_interval *interval;
	bool asked = false;
	uintptr_t next;

	for (uintptr_t at = start; at < end; at = next) {
		interval = weft_cover_from(at);
		next = lower_of(interval->end, end);
		if (interval->born != born)
			continue;
		if (!asked && (self.holds || !weft_migratable_now()))
			return;
		asked = true;
		if (!migrate_what_may(walk, at, next))
			return;
	}
}

/* ---- regions ---- */

/* Describes [addr, end) by its intervals; with no room, only counts. */
static unsigned int describe_range(uintptr_t addr, uintptr_t end, const struct weft_region *room)
{
	struct weft_extent *last_extent = NULL;
	struct weft_piece last = {0};
	unsigned int count = 0;
	uintptr_t next;

	for (uintptr_t at = addr; at < end; at = next) {
		struct weft_interval *interval = weft_cover_from(at);
		struct weft_piece piece = {.va = at};

		next = lower_of(interval->end, end);
		piece.len_bytes = next - at;
		piece.off =
			interval->extent ? interval->off + (at - interval->start) : WEFT_IN_PLACE;
		if (count && interval->extent == last_extent &&
		    (!last_extent || last.off + last.len_bytes == piece.off)) {
			last.len_bytes += piece.len_bytes;
		} else {
			count++;
			last = piece;
			last_extent = interval->extent;
		}
		if (room) {
			room->pieces[count - 1] = last;
			room->extents[count - 1] = last_extent;
		}
	}
	return count;
}

static int region_room(struct weft_region *region, unsigned int npieces)
{
	region->npieces = npieces;
	region->pieces = reallocarray(NULL, npieces, sizeof(*region->pieces));
	region->extents = reallocarray(NULL, npieces, sizeof(struct weft_extent *));
	if (region->pieces && region->extents)
		return 0;
	free(region->pieces);
	free(region->extents);
	return -ENOMEM;
}

static int acquire_in_place(uintptr_t addr, size_t len_bytes, struct weft_region *region)
{
	int err = region_room(region, 1);

	if (err)
		return err;
	region->pieces[0] = (struct weft_piece){addr, len_bytes, WEFT_IN_PLACE};
	region->extents[0] = NULL;
	return 0;
}

static int acquire(struct weft_vma_walk *walk, uintptr_t addr, uintptr_t end, unsigned int flags,
		   struct weft_region *region)
{
	uintptr_t first = PAGE_DOWN(addr), last = PAGE_UP(end), from, to;
	int err = check_mapped(walk, first, last, flags);

	*region = (struct weft_region){0};
	if (err)
		return err;
	if (!(flags & (WEFT_REGION_MIGRATE | WEFT_REGION_STAY)) || !weft_migrate_allowed() ||
	    !weft_migrated_attached())
		return acquire_in_place(addr, end - addr, region);
	err = weft_cover_begin(first, last, &region->born);
	if (err)
		return err;
	WEFT_STEP(region_covered);
	if (!(flags & WEFT_REGION_STAY)) {
		weft_chunk_pages(walk, addr, end, &from, &to);
		migrate_new(walk, from, to, region->born);
	}
	WEFT_STEP(region_migrated);
	err = region_room(region, describe_range(addr, end, NULL));
	if (err) {
		weft_cover_end(first, last, region->born);
		return err;
	}
	describe_range(addr, end, region);
	for (unsigned int i = 0; i < region->npieces; i++) {
		if (region->extents[i])
			region->extents[i]->refs++;
	}
	return 0;
}

int weft_region_acquire(void *addr, size_t len_bytes, unsigned int flags,
			struct weft_region *region)
{
	uintptr_t start = (uintptr_t)addr, end;
	struct weft_vma_walk walk;
	int state, err;

	if (!len_bytes || __builtin_add_overflow(start, len_bytes, &end) ||
	    end > UINTPTR_MAX - WEFT_PAGE)
		return -EINVAL;
	state = lock_regions();
	err = weft_vma_open(&walk);
	if (!err) {
		err = acquire(&walk, start, end, flags, region);
		weft_vma_close(&walk);
	}
	if (weft_region_is_away())
		bring_extents_home(weft_clock_now_ns());
	unlock_regions(state);
	return err;
}

void weft_region_quarantine(struct weft_region *region)
{
	int state = lock_regions();

	for (unsigned int i = 0; i < region->npieces; i++)
		if (region->extents[i])
			region->extents[i]->reached = true;
	unlock_regions(state);
}

/* ---- rehoming ---- */

void weft_region_expose(uint64_t age)
{
	int state = lock_regions();

	weft_migrated_reach(age);
	unlock_regions(state);
}

bool weft_region_any_exposed(void)
{
	int state = lock_regions();
	bool any = weft_migrated_is_reached();

	unlock_regions(state);
	return any;
}

/* May the pages migrate as one run, which lies in intervals in place? */
static bool migrates_whole(uintptr_t start, uintptr_t end)
{
	struct weft_vma_walk walk;
	struct weft_runs runs;
	bool whole;

	if (start >= end || self.holds || !weft_migratable_now() || weft_vma_open(&walk))
		return false;
	whole = !weft_migratable_runs(&walk, start, end, &runs) && runs.count == 1 &&
		runs.run[0].start == start && runs.run[0].end == end;
	free(runs.run);
	weft_vma_close(&walk);
	return whole;
}

/* Its pages, which are in place, migrate to another. If not all can, the regions have all in place. */
static void inherit(struct weft_extent *extent, uintptr_t from, uintptr_t to)
{
	uintptr_t end;
	struct weft_extent *heir = weft_migrated_in(from, to, &end);

	if (!heir)
		return;
	if (end == to)
		extent->heir = heir;
	weft_cover_place(from, end, heir);
}

/* Its intervals stay, as they are of the regions. What cannot migrate back stays in it, but no region has it there any
 * more. */
static void leave_extent(struct weft_extent *extent)
{
	uintptr_t end = extent->va + extent->len_bytes, from = 0, to = 0, next;
	struct weft_interval *interval;
	bool whole = true;

	/* what the kernel would write to the old pages would be lost */
	if (!weft_migratable_back())
		return;
	extent->left = true;
	extent->refs++;
	for (uintptr_t at = extent->va; (interval = weft_cover_from(at)); at = next) {
		next = interval->end;
		if (interval->start >= end)
			break;
		if (interval->extent != extent)
			continue;
		if (!interval->refs) {
			weft_cover_back(interval);
			continue;
		}
		whole &= !from || interval->start == to;
		from = from ? from : interval->start;
		to = interval->end;
		whole &= weft_cover_back(interval);
	}
	WEFT_STEP(region_left);
	if (whole && !extent->strayed && migrates_whole(from, to))
		inherit(extent, from, to);
	weft_migrated_drop(extent);
}

void weft_region_rehome(void)
{
	int state = lock_regions();

	weft_migrated_each_reached(leave_extent);
	unlock_regions(state);
}

static void follow_extent(struct weft_piece *piece, struct weft_extent **extent)
{
	struct weft_extent *left = *extent;

	*extent = left->heir;
	if (*extent)
		left->heir->refs++;
	piece->off = *extent ? left->heir->off + (piece->va - left->heir->va) : WEFT_IN_PLACE;
	weft_migrated_drop(left);
}

bool weft_region_follow(struct weft_region *region)
{
	bool any = false;
	int state = lock_regions();

	for (unsigned int i = 0; i < region->npieces; i++) {
		if (!region->extents[i] || !region->extents[i]->left)
			continue;
		follow_extent(&region->pieces[i], &region->extents[i]);
		any = true;
	}
	unlock_regions(state);
	return any;
}

/* ---- the end of regions ---- */

void weft_region_release(struct weft_region *region)
{
	const struct weft_piece *last = &region->pieces[region->npieces - 1];
	int state = lock_regions();

	if (region->born)
		weft_cover_end(PAGE_DOWN(region->pieces[0].va), PAGE_UP(last->va + last->len_bytes),
			       region->born);
	WEFT_STEP(region_migrated_back);
	for (unsigned int i = 0; i < region->npieces; i++) {
		if (region->extents[i])
			weft_migrated_drop(region->extents[i]);
	}
	if (weft_region_is_away())
		bring_extents_home(weft_clock_now_ns());
	set_next_try();
	unlock_regions(state);
	free(region->pieces);
	free(region->extents);
	*region = (struct weft_region){0};
}

void weft_region_ask(weft_driver_pins_fn *fn)
{
	int state = lock_regions();

	weft_migratable_ask(fn);
	unlock_regions(state);
}

void weft_region_hold(bool hold)
{
	int state = lock_regions();

	self.holds += hold ? 1 : -1u;
	unlock_regions(state);
}

/* ---- attaching, detaching, forking ---- */

static bool copy_for_child(const struct weft_migrate *part)
{
	weft_fork_add(part->va, part->len_bytes, part->alias, part->prot);
	return true;
}

/* The runs are counted as mappings at most: each interval may lie in several. */
static void copy_pooled(void)
{
	struct weft_interval *interval;
	struct weft_vma_walk walk;
	size_t bytes = 0, runs = 0;

	for (interval = weft_cover_from(0); interval; interval = weft_cover_from(interval->end)) {
		if (!interval->extent)
			continue;
		bytes += interval->end - interval->start;
		runs += (interval->end - interval->start) / WEFT_PAGE;
	}
	if (weft_fork_begin(bytes, runs) || weft_vma_open(&walk))
		return;
	for (interval = weft_cover_from(0); interval; interval = weft_cover_from(interval->end)) {
		if (interval->extent)
			weft_migrated_each(&walk, interval, copy_for_child);
	}
	weft_vma_close(&walk);
}

static void before_fork(void)
{
	self.forking_state = lock_regions();
	WEFT_STEP(fork_begun);
	copy_pooled();
	WEFT_STEP(fork_copied);
}

static void after_fork_in_parent(void)
{
	WEFT_STEP(fork_returned);
	weft_fork_end();
	unlock_regions(self.forking_state);
}

static void after_fork_in_child(void)
{
	weft_fork_place();
	weft_fork_end();
	weft_cover_forget();
	weft_migrate_end();
	atomic_store_explicit(&self.home_due_ns, UINT64_MAX, memory_order_relaxed);
	pthread_mutex_init(&self.mutex, NULL);
	pthread_setcancelstate(self.forking_state, NULL);
	if (self.on_fork_child)
		self.on_fork_child();
}

void weft_region_on_fork_child(void (*fn)(void))
{
	int state = lock_regions();

	self.on_fork_child = fn;
	unlock_regions(state);
}

/* Moved memory belongs into the program's core dump: bit 3, shared mappings of files. */
static void dump_shared_files(void)
{
	char text[16] = "";
	int fd = open("/proc/self/coredump_filter", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0) {
		int len = snprintf(text, sizeof(text), "0x%lx", strtoul(text, NULL, 16) | 1ul << 3);

		if (pwrite(fd, text, (size_t)len, 0) < 0)
			text[0] = '\0'; /* then dumps lack it */
	}
	close(fd);
}

static int attach_source(const struct weft_extent_source *source)
{
	if (!self.fork_ready) {
		int err = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

		if (err)
			return err;
		self.fork_ready = true;
	}
	dump_shared_files();
	weft_migrate_begin();
	return weft_migrated_attach(source);
}

int weft_region_attach(const struct weft_extent_source *source)
{
	int state = lock_regions();
	int err = attach_source(source);

	unlock_regions(state);
	return err;
}

bool weft_region_detach(void)
{
	int state = lock_regions();
	bool all;

	weft_migrated_land();
	all = weft_cover_all_back() && !weft_migrated_is_adrift();
	if (all) {
		weft_cover_forget();
		weft_migrate_end();
	}
	set_next_try();
	unlock_regions(state);
	return all;
}
