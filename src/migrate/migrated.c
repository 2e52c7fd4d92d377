/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/migrated.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "pool/sizes.h"
#include "migrate/migratable.h"

/* A mapping becomes up to four by a migration. */
#define MAPPINGS_PER_MIGRATION 3u
/* So often extents are looked for that the program has unmapped. */
#define MIGRATIONS_PER_COLLECTION 4096u

/* One that is no multiple of what a device may map instead of pages. */
#define SHOWN	       WEFT_PAGE

#define CANNOT_MIGRATE "pages cannot migrate: memory is registered in place, which is slower"

static struct {
	struct weft_extent_source source;
	struct weft_vma pool; /* the page of the pool file at SHOWN, as its mapping shows it */
	struct weft_extent *extents;
	unsigned int migrations; /* since the last collection */
	unsigned int adrift;
	bool attached, warned;
	bool stays; /* nothing may migrate there */
} self;

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void warn_once(const char *what)
{
	if (!self.warned)
		fprintf(stderr, "weft: %s\n", what);
	self.warned = true;
}

/* ---- what the program's mappings show ---- */

/* The offset in the pool, of a mapping of it. Those of a PCI device show its address instead of its beginning. */
static uint64_t shown_off(const struct weft_vma *vma)
{
	return vma->off - (self.pool.off - SHOWN) + self.source.shift;
}

bool weft_migrated_shows(const struct weft_vma *vma, const struct weft_interval *interval)
{
	uintptr_t at = later(vma->start, interval->start);

	return vma->shared && vma->inode == self.pool.inode &&
	       vma->dev_major == self.pool.dev_major && vma->dev_minor == self.pool.dev_minor &&
	       shown_off(vma) + (at - vma->start) == interval->off + (at - interval->start);
}

/* The part of the interval that the mapping shows, from `at` on. */
static struct weft_migrate part_of(const struct weft_interval *interval, const struct weft_vma *vma,
				   uintptr_t at)
{
	struct weft_migrate part = {.va = later(at, vma->start),
				    .fd = -1,
				    .prot = vma->prot,
				    .device = self.source.device};

	part.insists = interval->extent->reached;
	part.len_bytes = earlier(vma->end, interval->end) - part.va;
	part.off = interval->off + (part.va - interval->start);
	part.alias = interval->extent->alias + (part.off - interval->extent->off);
	part.off -= self.source.shift;
	return part;
}

bool weft_migrated_each(struct weft_vma_walk *walk, const struct weft_interval *interval,
			weft_migrated_part_fn *fn)
{
	struct weft_migrate last = {0};
	struct weft_vma vma;
	bool good = true;

	for (uintptr_t at = interval->start; at < interval->end; at = vma.end) {
		struct weft_migrate part;
		int err = weft_vma_next(walk, at, &vma);

		if (err && err != -ENOENT)
			return false;
		if (err || vma.start > at || !weft_migrated_shows(&vma, interval))
			interval->extent->strayed = true;
		if (err || vma.start >= interval->end)
			break;
		if (!weft_migrated_shows(&vma, interval))
			continue;
		part = part_of(interval, &vma, at);
		if (last.va + last.len_bytes == part.va && last.prot == part.prot) {
			last.len_bytes += part.len_bytes;
			continue;
		}
		if (last.len_bytes)
			good &= fn(&last);
		last = part;
	}
	return last.len_bytes ? fn(&last) && good : good;
}

/* Calls fn for the parts of the extent that are mapped anywhere but at its alias. Whether fn
 * always said yes. */
static bool each_stray(struct weft_vma_walk *walk, struct weft_extent *extent,
		       weft_migrated_part_fn *fn)
{
	struct weft_vma vma;
	bool good = true;
	int err;

	for (uintptr_t at = 0; !(err = weft_vma_next(walk, at, &vma)); at = vma.end) {
		uint64_t off = shown_off(&vma), from = later(off, extent->off);
		uint64_t to = earlier(off + (vma.end - vma.start), extent->off + extent->len_bytes);
		struct weft_interval stray = {
			.start = vma.start + (from - off),
			.end = vma.start + (to - off),
			.extent = extent,
			.off = from,
		};

		if (from >= to || stray.start == (uintptr_t)extent->alias + (from - extent->off))
			continue;
		good &= weft_migrated_each(walk, &stray, fn);
	}
	return good && err == -ENOENT;
}

/* ---- out ---- */

static bool migrate_back(const struct weft_migrate *part)
{
	struct weft_migrate pages = *part;

	pages.fd = self.source.fd(self.source.arg);
	return pages.fd >= 0 && weft_migrate_out(&pages) == pages.len_bytes;
}

static bool migrate_stray_back(const struct weft_migrate *part)
{
	return weft_migratable_back() &&
	       !weft_migratable_is_pinned(part->va, part->va + part->len_bytes) &&
	       migrate_back(part);
}

/* Migrates back what the program has mapped elsewhere by mremap. Whether nothing is left. */
static bool migrate_strays_back(struct weft_extent *extent)
{
	struct weft_vma_walk walk;
	bool good;

	if (weft_vma_open(&walk))
		return false;
	good = each_stray(&walk, extent, migrate_stray_back);
	weft_vma_close(&walk);
	return good;
}

static void give_extent_back(struct weft_extent *extent)
{
	if (!extent->freed && extent->reached && self.source.retire)
		self.source.retire(self.source.arg, extent->off, extent->len_bytes);
	else if (!extent->freed)
		self.source.free(self.source.arg, extent->off, extent->len_bytes);
	extent->freed = true;
}

static void forget_extent(struct weft_extent *extent)
{
	*extent->link = extent->next;
	if (extent->next)
		extent->next->link = extent->link;
	free(extent);
}

void weft_migrated_drop(struct weft_extent *extent)
{
	if (--extent->refs)
		return;
	if (!extent->freed && extent->strayed && !migrate_strays_back(extent)) {
		self.adrift++;
		return;
	}
	give_extent_back(extent);
	forget_extent(extent);
}

bool weft_migrated_is_adrift(void)
{
	return self.adrift;
}

void weft_migrated_land(void)
{
	struct weft_extent *next;

	for (struct weft_extent *extent = self.adrift ? self.extents : NULL; extent;
	     extent = next) {
		next = extent->next;
		if (extent->refs)
			continue;
		extent->refs++;
		self.adrift--;
		weft_migrated_drop(extent);
	}
}

bool weft_migrated_back(const struct weft_interval *interval)
{
	struct weft_vma_walk walk;
	bool migrated;

	if (interval->extent->freed)
		return true;
	if (weft_vma_open(&walk))
		return false;
	migrated = weft_migrated_each(&walk, interval, migrate_back);
	weft_vma_close(&walk);
	return migrated;
}

/* ---- what a suspect may reach ---- */

void weft_migrated_reach(uint64_t age)
{
	for (struct weft_extent *extent = self.extents; extent; extent = extent->next)
		extent->reached |= extent->made < age;
}

static bool is_reached(const struct weft_extent *extent)
{
	return extent->reached && !extent->left && !extent->freed;
}

bool weft_migrated_is_reached(void)
{
	bool any = false;

	for (struct weft_extent *extent = self.extents; extent; extent = extent->next)
		any |= is_reached(extent);
	return any;
}

void weft_migrated_each_reached(void (*fn)(struct weft_extent *extent))
{
	struct weft_extent *next;

	for (struct weft_extent *extent = self.extents; extent; extent = next) {
		next = extent->next;
		if (is_reached(extent))
			fn(extent);
	}
}

/* ---- what is gone without deregistration ---- */

static bool found(const struct weft_migrate *part)
{
	return false; /* it is still there */
}

static bool is_gone(struct weft_vma_walk *walk, struct weft_extent *extent)
{
	struct weft_interval original = {
		.start = extent->va,
		.end = extent->va + extent->len_bytes,
		.extent = extent,
		.off = extent->off,
	};

	return weft_migrated_each(walk, &original, found) && each_stray(walk, extent, found);
}

/* Frees extents that the program has unmapped, but not deregistered. Whether there were any. */
static bool collect(void)
{
	struct weft_vma_walk walk;
	bool any = false;

	self.migrations = 0;
	if (!self.source.revoke || weft_vma_open(&walk))
		return false;
	for (struct weft_extent *extent = self.extents; extent; extent = extent->next) {
		if (extent->freed || !is_gone(&walk, extent))
			continue;
		self.source.revoke(self.source.arg, extent->off, extent->len_bytes);
		give_extent_back(extent);
		any = true;
	}
	weft_vma_close(&walk);
	return any;
}

/* ---- in ---- */

static int allocate(struct weft_extent *extent)
{
	void *alias;
	int err = self.source.alloc(self.source.arg, extent->len_bytes, &extent->off, &alias);

	if (err && collect())
		err = self.source.alloc(self.source.arg, extent->len_bytes, &extent->off, &alias);
	if (!err)
		extent->alias = alias;
	return err;
}

static struct weft_extent *extent_new(uintptr_t start, uintptr_t end)
{
	struct weft_extent *extent = calloc(1, sizeof(*extent));
	int err;

	if (!extent)
		return NULL;
	extent->va = start;
	extent->made = self.source.age ? self.source.age(self.source.arg) : 0;
	extent->len_bytes = end - start;
	err = allocate(extent);
	if (err) {
		warn_once(err == -ETIMEDOUT ? "the pool's lock is held by a process that does not "
					      "go on: memory is "
					      "registered in place, which is slower"
					    : "the pool is full: memory is registered in place, "
					      "which is slower");
		free(extent);
		return NULL;
	}
	extent->next = self.extents;
	extent->link = &self.extents;
	if (extent->next)
		extent->next->link = &extent->next;
	self.extents = extent;
	return extent;
}

struct weft_extent *weft_migrated_in(uintptr_t start, uintptr_t end, uintptr_t *migrated_end)
{
	struct weft_migrate pages = {
		.va = start, .prot = PROT_READ | PROT_WRITE, .device = self.source.device};
	struct weft_extent *extent;

	if (!weft_vma_room(MAPPINGS_PER_MIGRATION)) {
		warn_once("vm.max_map_count is nearly reached: memory is registered in place");
		return NULL;
	}
	if (self.stays) {
		warn_once(CANNOT_MIGRATE);
		return NULL;
	}
	pages.fd = self.source.fd(self.source.arg);
	if (pages.fd < 0)
		return NULL;
	if (++self.migrations > MIGRATIONS_PER_COLLECTION)
		collect();
	extent = extent_new(start, end);
	if (!extent)
		return NULL;
	pages.alias = extent->alias;
	pages.off = extent->off - self.source.shift;
	pages.len_bytes = extent->len_bytes;
	pages.len_bytes = weft_migrate_in(&pages);
	*migrated_end = start + pages.len_bytes;
	if (pages.len_bytes)
		return extent;
	if (!weft_migrate_may_later())
		warn_once(CANNOT_MIGRATE);
	give_extent_back(extent);
	forget_extent(extent);
	return NULL;
}

/* ---- attaching ---- */

/* The numbers in /proc/self/maps are not always those of fstat. -EINVAL: the device maps no single page. */
static int recognize(int fd)
{
	void *page = mmap(NULL, WEFT_PAGE, PROT_NONE, MAP_SHARED, fd, SHOWN);
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

/* userfaultfd cannot hold back stores into a disk's file system, and protection was seen to lose
 * some there, now and then a whole chunk (docs/decisions/0006). */
static bool is_on_disk(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

int weft_migrated_attach(const struct weft_extent_source *source)
{
	int fd, err;
	bool stays;

	if (self.attached)
		return -EBUSY;
	fd = source->fd(source->arg);
	err = fd < 0 ? fd : recognize(fd);
	stays = err == -EOPNOTSUPP || (source->device ? err == -EINVAL : fd >= 0 && is_on_disk(fd));
	if (err && !stays)
		return err;
	self.source = *source;
	self.stays = stays;
	self.attached = true;
	return 0;
}

bool weft_migrated_attached(void)
{
	return self.attached;
}

void weft_migrated_detach(void)
{
	struct weft_extent *next;

	for (struct weft_extent *extent = self.extents; extent; extent = next) {
		next = extent->next;
		extent->freed = true;
		if (!extent->refs)
			forget_extent(extent);
	}
	self.adrift = 0;
	self.attached = false;
}
