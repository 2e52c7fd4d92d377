/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/region.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/format.h"
#include "pool/fork.h"
#include "pool/interval.h"
#include "pool/movable.h"
#include "pool/move.h"
#include "pool/vma.h"

#define PAGE_DOWN(addr) ((addr) & ~(uintptr_t)(WEFT_PAGE - 1))
#define PAGE_UP(addr)	PAGE_DOWN((addr) + WEFT_PAGE - 1)

/* A mapping becomes up to four by a move; so often the estimate of their number is put right. */
#define MAPPINGS_PER_MOVE 3u
#define MOVES_PER_COUNT	  4096u

struct weft_extent {
	uint64_t off;
	size_t len_bytes;
	uint8_t *alias;
	uint64_t era;	   /* of the attachment */
	unsigned int refs; /* pieces of regions */
	bool strayed;	   /* the program has unmapped or moved pages of it */
};

static struct {
	pthread_mutex_t mutex;
	struct weft_extent_source source;
	bool attached;
	uint64_t era;		     /* attachments ended */
	struct weft_interval *root;  /* registered pages: pooled, or staying in place */
	uint64_t born;		     /* acquisitions */
	struct weft_vma pool;	     /* the pool file as mappings show it */
	unsigned int mappings, most; /* estimate, and how many we let there be */
	unsigned int moves;	     /* since the mappings were counted */
	bool fork_ready, warned;
	void (*on_fork_child)(void);
} self = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static uintptr_t later(uintptr_t a, uintptr_t b)
{
	return a > b ? a : b;
}

static uintptr_t earlier(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

/* ---- intervals and mappings ---- */

/* Makes addr a border of intervals. */
static int cut_at(uintptr_t addr)
{
	struct weft_interval *interval = weft_interval_from(self.root, addr);

	if (!interval || interval->start >= addr || weft_interval_cut(&self.root, interval, addr))
		return 0;
	return -ENOMEM;
}

/* Whether the mapping shows the interval's pages of the pool where they overlap. */
static bool shows(const struct weft_vma *vma, const struct weft_interval *interval)
{
	uintptr_t at = later(vma->start, interval->start);

	return vma->shared && vma->inode == self.pool.inode &&
	       vma->dev_major == self.pool.dev_major && vma->dev_minor == self.pool.dev_minor &&
	       vma->off + (at - vma->start) == interval->off + (at - interval->start);
}

typedef bool part_fn(const struct weft_move *part);

/* Calls fn for the parts of a pooled interval whose addresses still show the pool. Whether all
 * were found and fn said yes. */
static bool each_part(struct weft_vma_walk *walk, const struct weft_interval *interval, part_fn *fn)
{
	struct weft_vma vma;
	bool good = true;

	for (uintptr_t at = interval->start; at < interval->end; at = vma.end) {
		struct weft_move part;
		int err = weft_vma_next(walk, at, &vma);

		if (err && err != -ENOENT)
			return false;
		if (err || vma.start >= interval->end)
			break;
		if (vma.start > at || !shows(&vma, interval))
			interval->extent->strayed = true;
		if (!shows(&vma, interval))
			continue;
		part.va = later(at, vma.start);
		part.len_bytes = earlier(vma.end, interval->end) - part.va;
		part.off = interval->off + (part.va - interval->start);
		part.alias = interval->extent->alias + (part.off - interval->extent->off);
		part.prot = vma.prot;
		good &= fn(&part);
	}
	return good;
}

/* Drops what the intervals in [start, end), all of one mapping, say, if it is not true any more:
 * the program has unmapped the pages and mapped others. */
static int drop_stale(const struct weft_vma *vma, uintptr_t start, uintptr_t end)
{
	struct weft_interval *interval;

	for (uintptr_t at = start; (interval = weft_interval_from(self.root, at)); at = interval->end) {
		if (interval->start >= end)
			break;
		if (!interval->extent || shows(vma, interval))
			continue;
		if (cut_at(start) || cut_at(end))
			return -ENOMEM;
		interval->extent->strayed = true;
		weft_interval_remove(&self.root, weft_interval_from(self.root, at));
		return drop_stale(vma, start, end);
	}
	return 0;
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
		if (!err)
			err = drop_stale(&vma, at, earlier(vma.end, end));
		if (err)
			return err;
	}
	return 0;
}

/* ---- extents ---- */

static void warn_once(const char *what)
{
	if (!self.warned)
		fprintf(stderr, "weft: %s: memory is registered in place, which is slower\n", what);
	self.warned = true;
}

static unsigned int most_mappings(void)
{
	char text[24] = "";
	int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	unsigned long most = 0;

	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) > 0)
			most = strtoul(text, NULL, 10);
		close(fd);
	}
	return (unsigned int)((most ? most : 65530) / 4 * 3);
}

/* The number of mappings is estimated from above, and seldom counted. */
static bool mappings_left(void)
{
	unsigned int moves = self.moves++;

	if (!self.most || moves > MOVES_PER_COUNT ||
	    (moves > MOVES_PER_COUNT / 8 && self.mappings + MAPPINGS_PER_MOVE > self.most)) {
		self.most = most_mappings();
		self.mappings = weft_vma_count();
		self.moves = 0;
	}
	return self.mappings + MAPPINGS_PER_MOVE <= self.most;
}

static struct weft_extent *extent_new(size_t len_bytes)
{
	struct weft_extent *extent = calloc(1, sizeof(*extent));
	void *alias;

	if (!extent)
		return NULL;
	if (self.source.alloc(self.source.arg, len_bytes, &extent->off, &alias)) {
		warn_once("the pool is full");
		free(extent);
		return NULL;
	}
	extent->alias = alias;
	extent->len_bytes = len_bytes;
	extent->era = self.era;
	return extent;
}

static bool move_back(const struct weft_move *part)
{
	return weft_move_out(part) == part->len_bytes;
}

/* Moves back pages of the extent that the program has mapped at other addresses (mremap). Whether
 * none are left. */
static bool move_strays_back(const struct weft_extent *extent)
{
	struct weft_interval whole = { .extent = (struct weft_extent *)extent };
	uintptr_t alias = (uintptr_t)extent->alias;
	struct weft_vma_walk walk;
	struct weft_vma vma;
	bool good = true;

	if (weft_vma_open(&walk))
		return false;
	for (uintptr_t at = 0; !weft_vma_next(&walk, at, &vma); at = vma.end) {
		uint64_t from = later(vma.off, extent->off);
		uint64_t to = earlier(vma.off + (vma.end - vma.start),
				      extent->off + extent->len_bytes);

		whole.start = vma.start + (from - vma.off);
		whole.end = whole.start + (to - from);
		whole.off = from;
		if (from >= to || whole.start == alias + (from - extent->off))
			continue;
		good &= each_part(&walk, &whole, move_back);
	}
	weft_vma_close(&walk);
	return good;
}

static void extent_end(struct weft_extent *extent)
{
	if (self.attached && extent->era == self.era &&
	    (!extent->strayed || move_strays_back(extent)))
		self.source.free(self.source.arg, extent->off, extent->len_bytes);
	free(extent);
}

/* Moves the run, which lies in one interval in place. */
static int move_run(const struct weft_run *run)
{
	struct weft_move move = { .va = run->start, .len_bytes = run->end - run->start };
	struct weft_interval *interval;
	struct weft_extent *extent;

	if (!mappings_left()) {
		warn_once("vm.max_map_count is nearly reached");
		return -ENOSPC;
	}
	if (cut_at(run->start) || cut_at(run->end))
		return -ENOMEM;
	move.fd = self.source.fd(self.source.arg);
	if (move.fd < 0)
		return move.fd;
	extent = extent_new(move.len_bytes);
	if (!extent)
		return -ENOSPC;
	move.alias = extent->alias;
	move.off = extent->off;
	move.prot = PROT_READ | PROT_WRITE;
	self.mappings += MAPPINGS_PER_MOVE;

	size_t done = weft_move_in(&move);

	if (done < move.len_bytes) {
		warn_once("pages cannot be moved");
		move.len_bytes = done;
		if (!done || move_back(&move))
			extent_end(extent);
		return -ENOSPC;
	}
	interval = weft_interval_from(self.root, run->start);
	interval->extent = extent;
	interval->off = extent->off;
	return 0;
}

/* Moves what may of [start, end). That less moves, or nothing, is no failure. */
static int move_what_may(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end)
{
	struct weft_runs runs;
	int err = weft_movable_runs(walk, start, end, &runs);

	for (size_t i = 0; i < runs.count && !err; i++)
		err = move_run(&runs.run[i]);
	free(runs.run);
	return err;
}

/* Moves the pages of [start, end) that no earlier region has. */
static void move_new(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end)
{
	struct weft_interval *interval;
	bool asked = false;
	uintptr_t next;

	for (uintptr_t at = start; at < end; at = next) {
		interval = weft_interval_from(self.root, at);
		next = earlier(interval->end, end);
		if (interval->born != self.born)
			continue;
		if (!asked && !weft_movable_now())
			return;
		asked = true;
		if (move_what_may(walk, at, next))
			return;
	}
}

/* ---- regions ---- */

/* Ends a pooled interval that no region covers any more. */
static void move_interval_back(struct weft_interval *interval)
{
	struct weft_vma_walk walk;
	bool moved = false;

	if (!weft_vma_open(&walk)) {
		moved = each_part(&walk, interval, move_back);
		weft_vma_close(&walk);
	}
	if (moved)
		return;
	/* the program keeps what it sees: its memory is part of the pool until the process ends */
	interval->extent->refs++;
	if (!self.warned)
		fprintf(stderr, "weft: memory stays in the pool after its deregistration\n");
	self.warned = true;
}

/* Drops a reference on what the acquisition `born` covered of [start, end). */
static void uncover(uintptr_t start, uintptr_t end, uint64_t born)
{
	struct weft_interval *interval;
	uintptr_t next;

	for (uintptr_t at = start; at < end; at = next) {
		interval = weft_interval_from(self.root, at);
		if (!interval || interval->start >= end)
			break;
		next = interval->end;
		/* what was born later took the place of what this region covered */
		if (interval->born > born || --interval->refs)
			continue;
		if (interval->extent)
			move_interval_back(interval);
		weft_interval_remove(&self.root, interval);
	}
}

/* A region's borders must not vanish when others are released: counted at both ends. */
static void count_border(uintptr_t addr, uint64_t born, int by)
{
	struct weft_interval *interval = weft_interval_from(self.root, addr);

	if (interval && interval->start == addr && interval->born <= born)
		interval->borders += (unsigned int)by;
}

/* Covers [start, end) with intervals and takes a reference on each. */
static int cover(uintptr_t start, uintptr_t end)
{
	struct weft_interval *interval;

	self.born++;
	if (cut_at(start) || cut_at(end))
		return -ENOMEM;
	for (uintptr_t at = start; at < end; at = interval->end) {
		interval = weft_interval_from(self.root, at);
		if (!interval || interval->start > at) {
			uintptr_t gap_end = interval ? earlier(interval->start, end) : end;

			interval = weft_interval_add(&self.root, at, gap_end);
			if (!interval) {
				uncover(start, at, self.born);
				return -ENOMEM;
			}
			interval->born = self.born;
		}
		interval->refs++;
	}
	count_border(start, self.born, 1);
	count_border(end, self.born, 1);
	return 0;
}

static void undo_cover(uintptr_t start, uintptr_t end, uint64_t born)
{
	count_border(start, born, -1);
	count_border(end, born, -1);
	uncover(start, end, born);
	weft_interval_join(&self.root, start);
	weft_interval_join(&self.root, end);
}

/* Describes [addr, end) by its intervals; with no room, only counts. */
static unsigned int describe(uintptr_t addr, uintptr_t end, const struct weft_region *room)
{
	struct weft_extent *last_extent = NULL;
	struct weft_piece last = { 0 };
	unsigned int count = 0;
	uintptr_t next;

	for (uintptr_t at = addr; at < end; at = next) {
		struct weft_interval *interval = weft_interval_from(self.root, at);
		struct weft_piece piece = { .va = at };

		next = earlier(interval->end, end);
		piece.len_bytes = next - at;
		piece.off = interval->extent ? interval->off + (at - interval->start) :
					       WEFT_IN_PLACE;
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
	region->pieces[0] = (struct weft_piece){ addr, len_bytes, WEFT_IN_PLACE };
	region->extents[0] = NULL;
	return 0;
}

static int acquire(struct weft_vma_walk *walk, uintptr_t addr, uintptr_t end, unsigned int flags,
		   struct weft_region *region)
{
	uintptr_t first = PAGE_DOWN(addr), last = PAGE_UP(end);
	int err = check_mapped(walk, first, last, flags);

	*region = (struct weft_region){ 0 };
	if (err)
		return err;
	if (!(flags & WEFT_REGION_MOVE) || !self.attached)
		return acquire_in_place(addr, end - addr, region);
	err = cover(first, last);
	if (err)
		return err;
	region->born = self.born;
	move_new(walk, PAGE_UP(addr), PAGE_DOWN(end));
	err = region_room(region, describe(addr, end, NULL));
	if (err) {
		undo_cover(first, last, self.born);
		return err;
	}
	describe(addr, end, region);
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
	int err;

	if (!len_bytes || __builtin_add_overflow(start, len_bytes, &end) ||
	    end > UINTPTR_MAX - WEFT_PAGE)
		return -EINVAL;
	pthread_mutex_lock(&self.mutex);
	err = weft_vma_open(&walk);
	if (!err) {
		err = acquire(&walk, start, end, flags, region);
		weft_vma_close(&walk);
	}
	pthread_mutex_unlock(&self.mutex);
	return err;
}

void weft_region_release(struct weft_region *region)
{
	pthread_mutex_lock(&self.mutex);
	if (region->born) {
		const struct weft_piece *last = &region->pieces[region->npieces - 1];

		undo_cover(PAGE_DOWN(region->pieces[0].va), PAGE_UP(last->va + last->len_bytes),
			   region->born);
	}
	for (unsigned int i = 0; i < region->npieces; i++) {
		if (region->extents[i] && !--region->extents[i]->refs)
			extent_end(region->extents[i]);
	}
	pthread_mutex_unlock(&self.mutex);
	free(region->pieces);
	free(region->extents);
	*region = (struct weft_region){ 0 };
}

/* ---- attaching, detaching, forking ---- */

static void forget_intervals(part_fn *fn)
{
	struct weft_vma_walk walk;
	bool walking = fn && !weft_vma_open(&walk);

	while (self.root) {
		if (walking && self.root->extent)
			each_part(&walk, self.root, fn);
		weft_interval_remove(&self.root, self.root);
	}
	if (walking)
		weft_vma_close(&walk);
}

static bool copy_for_child(const struct weft_move *part)
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

	for (interval = weft_interval_from(self.root, 0); interval;
	     interval = weft_interval_from(self.root, interval->end)) {
		if (!interval->extent)
			continue;
		bytes += interval->end - interval->start;
		runs += (interval->end - interval->start) / WEFT_PAGE;
	}
	if (weft_fork_begin(bytes, runs) || weft_vma_open(&walk))
		return;
	for (interval = weft_interval_from(self.root, 0); interval;
	     interval = weft_interval_from(self.root, interval->end)) {
		if (interval->extent)
			each_part(&walk, interval, copy_for_child);
	}
	weft_vma_close(&walk);
}

static void before_fork(void)
{
	pthread_mutex_lock(&self.mutex);
	copy_pooled();
}

static void after_fork_in_parent(void)
{
	weft_fork_end();
	pthread_mutex_unlock(&self.mutex);
}

static void after_fork_in_child(void)
{
	weft_fork_place();
	weft_fork_end();
	weft_move_end();
	self.attached = false;
	self.era++;
	forget_intervals(NULL);
	pthread_mutex_init(&self.mutex, NULL);
	if (self.on_fork_child)
		self.on_fork_child();
}

void weft_region_on_fork_child(void (*fn)(void))
{
	pthread_mutex_lock(&self.mutex);
	self.on_fork_child = fn;
	pthread_mutex_unlock(&self.mutex);
}

/* The numbers in /proc/self/maps are not always those of fstat. */
static int recognize_pool(int fd)
{
	void *page = mmap(NULL, WEFT_PAGE, PROT_NONE, MAP_SHARED, fd, 0);
	struct weft_vma_walk walk;
	int err;

	if (page == MAP_FAILED)
		return -errno;
	err = weft_vma_open(&walk);
	if (!err) {
		err = weft_vma_next(&walk, (uintptr_t)page, &self.pool);
		weft_vma_close(&walk);
	}
	munmap(page, WEFT_PAGE);
	return err;
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

static enum weft_move_way wanted_way(void)
{
	static const char *const names[] = {
		[WEFT_MOVE_COPY] = "copy",
		[WEFT_MOVE_UFFD] = "uffd",
		[WEFT_MOVE_SEGV] = "segv",
	};
	const char *wanted = getenv("WEFT_MOVE");

	for (unsigned int i = WEFT_MOVE_COPY; wanted && i <= WEFT_MOVE_SEGV; i++) {
		if (!strcmp(wanted, names[i]))
			return (enum weft_move_way)i;
	}
	return WEFT_MOVE_AUTO;
}

static int attach(const struct weft_extent_source *source)
{
	int fd, err;

	if (self.attached)
		return -EBUSY;
	fd = source->fd(source->arg);
	if (fd < 0)
		return fd;
	err = recognize_pool(fd);
	if (err)
		return err;
	if (!self.fork_ready) {
		err = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
		if (err)
			return err;
		self.fork_ready = true;
	}
	dump_shared_files();
	weft_move_force(wanted_way());
	self.source = *source;
	self.attached = true;
	return 0;
}

int weft_region_attach(const struct weft_extent_source *source)
{
	int err;

	pthread_mutex_lock(&self.mutex);
	err = attach(source);
	pthread_mutex_unlock(&self.mutex);
	return err;
}

void weft_region_detach(void)
{
	pthread_mutex_lock(&self.mutex);
	if (self.attached) {
		forget_intervals(move_back);
		weft_move_end();
		self.attached = false;
		self.era++;
	}
	pthread_mutex_unlock(&self.mutex);
}
