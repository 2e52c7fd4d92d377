/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/migrate.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "migrate/again.h"
#include "pool/sizes.h"
#include "migrate/hold.h"
#include "migrate/migratable.h"
#include "migrate/park.h"
#include "migrate/pins.h"
#include "pool/clock.h"
#include "pool/step.h"
#include "backing/unhooked.h"

enum way {
	AUTO,
	COPY,
	UFFD,
	SEGV,
	NEVER,
};

static enum way forced;

void weft_migrate_copy(void *to, const void *from, size_t len_bytes)
{
#ifdef __x86_64__
	/* by words: an emulated device takes each of these for an access */
	len_bytes /= sizeof(uint64_t);
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(len_bytes) : : "memory");
#else
	memcpy(to, from, len_bytes);
#endif
}

static int map_part(const struct weft_migrate *pages)
{
	/* populated: a first store into each page would cost a fault */
	void *at = weft_unhooked_mmap((void *)pages->va, pages->len_bytes, pages->prot,
				      MAP_SHARED | MAP_FIXED | MAP_POPULATE, pages->fd,
				      (off_t)pages->off);

	return at == MAP_FAILED ? -errno : 0;
}

/* ---- one thread, or while stores are held back ---- */

static int copy_in(const struct weft_migrate *pages)
{
	weft_migrate_copy(pages->alias, (void *)pages->va, pages->len_bytes);
	WEFT_STEP(migrate_copied_in);
	return map_part(pages);
}

/* Straight to its address, so that the mapping merges with its neighbours again. */
static int copy_out(const struct weft_migrate *pages)
{
	if (weft_unhooked_mmap((void *)pages->va, pages->len_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1,
			       0) == MAP_FAILED) {
		int err = -errno;

		map_part(pages); /* a failed mmap may have unmapped it */
		return err;
	}
	WEFT_STEP(migrate_out_mapped);
	weft_migrate_copy((void *)pages->va, pages->alias, pages->len_bytes);
	if (pages->prot != (PROT_READ | PROT_WRITE))
		weft_unhooked_mprotect((void *)pages->va, pages->len_bytes, pages->prot);
	return 0;
}

/* While others load: what is at its address is whole at any time. scratch: fresh private memory of
 * that size, which is used up. */
static int replace_pages(const struct weft_migrate *chunk, uint8_t *scratch)
{
	int err;

	weft_migrate_copy(scratch, chunk->alias, chunk->len_bytes);
	WEFT_STEP(migrate_copied_out);
	if (weft_unhooked_mprotect(scratch, chunk->len_bytes, chunk->prot))
		return -errno;
	if (weft_unhooked_mremap(scratch, chunk->len_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
				 chunk->va) != MAP_FAILED)
		return 0;
	err = -errno;
	map_part(chunk); /* a failed mremap may have unmapped it */
	return err;
}

/* The part of those pages that begins `done` bytes into it; parts end on multiples of `most`. */
static struct weft_migrate part_at(const struct weft_migrate *pages, size_t done, size_t most)
{
	struct weft_migrate part = *pages;
	size_t left = pages->len_bytes - done;

	part.va += done;
	part.alias += done;
	part.off += done;
	part.len_bytes = most - part.va % most;
	if (part.len_bytes > left)
		part.len_bytes = left;
	return part;
}

/* Holds back the stores of those that were left asleep. 0, or -errno and no thread is parked any more.
 */
static int hold_asleep(const struct weft_hold *hold, const struct weft_migrate *chunk)
{
	while (weft_park_left()) {
		int err = hold->hold(chunk);

		if (err) {
			weft_park_end();
			return err;
		}
		if (weft_park_still())
			return 0;
		/* no signal may come while a stack could be held back */
		hold->let_go(chunk, false);
		err = weft_park(chunk->va, chunk->va + chunk->len_bytes, hold->by_signal);
		if (err)
			return err;
	}
	return 0;
}

/* scratch: NULL on the way in. */
static int migrate_chunk(const struct weft_hold *hold, const struct weft_migrate *chunk,
			 uint8_t *scratch)
{
	int err = hold_asleep(hold, chunk);

	if (err)
		return err;
	/* another thread may have opened a ring after it was looked for, and given it a request */
	if (weft_pins_any())
		err = -EBUSY;
	else
		err = scratch ? replace_pages(chunk, scratch) : copy_in(chunk);
	if (weft_park_left())
		hold->let_go(chunk, !err);
	return err;
}

/* ---- in slices, each with the others parked ---- */

/* A larger one needs fewer calls, a smaller one holds others for shorter. */
#define SLICE	   WEFT_HOLD_MOST
#define FEW	   8u
#define INSISTS_NS 2000000000ull
#define FEW_CHUNK  (64ul << 10) /* above, looking at the threads takes longer than copying */
#define STRETCH	   (64ul << 20) /* of a device */

static size_t migrate_slice(const struct weft_hold *hold, const struct weft_migrate *slice,
			    uint8_t *scratch)
{
	size_t done = 0;
	int err = weft_park(slice->va, slice->va + slice->len_bytes, hold->by_signal);

	WEFT_STEP(migrate_parked);
	while (done < slice->len_bytes && !err) {
		unsigned int left = weft_park_left();
		struct weft_migrate chunk =
			part_at(slice, done, left && left <= FEW ? FEW_CHUNK : SLICE);

		err = migrate_chunk(hold, &chunk, scratch ? scratch + done : NULL);
		if (!err)
			done += chunk.len_bytes;
	}
	weft_park_end();
	return done;
}

static size_t migrate_slices(const struct weft_hold *hold, const struct weft_migrate *pages,
			     uint8_t *scratch)
{
	uint64_t until_ns = pages->insists ? weft_clock_now_ns() + INSISTS_NS : 0;
	size_t done = 0, migrated;

	while (done < pages->len_bytes) {
		struct weft_migrate slice = part_at(pages, done, SLICE);

		migrated = migrate_slice(hold, &slice, scratch ? scratch + done : NULL);
		done += migrated;
		if (!migrated && weft_clock_now_ns() >= until_ns)
			break;
	}
	return done;
}

static bool one_thread(void)
{
	return forced ? forced == COPY : weft_migratable_threads() == 1;
}

/* protects: what is held back are stores into a device. NULL: there is no way here. */
static const struct weft_hold *begin_hold(bool protects)
{
	if (forced != SEGV && !protects && !weft_uffd_hold.begin())
		return &weft_uffd_hold;
	if ((forced != UFFD || protects) && !weft_segv_hold.begin())
		return &weft_segv_hold;
	return NULL;
}

/* What came slice by slice is one mapping again, as the kernel makes of a file's by itself. Loads and stores wait. */
static void map_as_one(const struct weft_migrate *pages, size_t done)
{
	struct weft_migrate all = *pages;

	all.len_bytes = done;
	if (done && map_part(&all))
		map_part(&all); /* a failed mmap may have unmapped it */
}

/* No more slices than a process may have mappings. */
static size_t migrate_to_device(const struct weft_hold *hold, const struct weft_migrate *pages)
{
	size_t done = 0, migrated;

	do {
		struct weft_migrate stretch = part_at(pages, done, STRETCH);

		migrated = migrate_slices(hold, &stretch, NULL);
		done += migrated;
		map_as_one(pages, done);
	} while (migrated && done < pages->len_bytes);
	return done;
}

static size_t migrate_pages(const struct weft_migrate *pages, bool in)
{
	const struct weft_hold *hold;
	uint8_t *scratch = NULL;
	size_t done;

	if (one_thread())
		return (in ? copy_in(pages) : copy_out(pages)) ? 0 : pages->len_bytes;
	hold = begin_hold(pages->device && !in);
	if (!hold)
		return 0;
	/* one for all chunks, so that they become one mapping: it does not merge with its
	 * neighbours, since pages that were mapped elsewhere remember where they were first */
	if (!in)
		scratch = weft_unhooked_mmap(NULL, pages->len_bytes, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (scratch == MAP_FAILED)
		return 0;
	done = in && pages->device ? migrate_to_device(hold, pages)
				   : migrate_slices(hold, pages, scratch);
	if (scratch && done < pages->len_bytes)
		weft_unhooked_munmap(scratch + done, pages->len_bytes - done);
	return done;
}

static size_t migrate_undisturbed(const struct weft_migrate *pages, bool in)
{
	sigset_t all, old;
	size_t done;

	/* a handler in this thread could store into the chunk, or wait for it for ever */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	done = migrate_pages(pages, in);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return done;
}

size_t weft_migrate_in(const struct weft_migrate *pages)
{
	size_t done = migrate_undisturbed(pages, true);

	if (!done)
		return 0;
	WEFT_STEP(migrate_mapped_in);
	weft_unhooked_madvise((void *)pages->va, done, MADV_DONTFORK);
	/*
	 * A hint without effect makes two mappings of it: mremap then refuses to grow them, which
	 * would show what lies behind in the pool. One page cannot be guarded so.
	 */
	if (done > WEFT_PAGE)
		weft_unhooked_madvise((void *)(pages->va + done - WEFT_PAGE), WEFT_PAGE,
				      MADV_RANDOM);
	return done;
}

size_t weft_migrate_out(const struct weft_migrate *pages)
{
	/* one mapping again */
	weft_unhooked_madvise((void *)pages->va, pages->len_bytes, MADV_NORMAL);
	return migrate_undisturbed(pages, false);
}

void weft_migrate_end(void)
{
	weft_uffd_close();
}

void weft_migrate_begin(void)
{
	static const char *const names[] = {
		[COPY] = "copy",
		[UFFD] = "uffd",
		[SEGV] = "segv",
		[NEVER] = "never",
	};
	const char *wanted = getenv("WEFT_MIGRATE");

	if (!wanted)
		wanted = getenv("WEFT_MOVE"); /* its name in the first package */
	weft_again_begin();
	forced = AUTO;
	for (enum way way = COPY; wanted && way <= NEVER; way++) {
		if (!strcmp(wanted, names[way]))
			forced = way;
	}
}

bool weft_migrate_may_later(void)
{
	return !one_thread() && begin_hold(false);
}

bool weft_migrate_allowed(void)
{
	return forced != NEVER;
}
