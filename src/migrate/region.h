/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Regions: which pages of this process live in the pool, and where.
 *
 * Registering memory migrates its whole, private, anonymous pages into extents of the pool and maps them back at
 * the same address; all else is registered in place. A region is described to the layers above as pieces in rising
 * order of address that cover it without gaps.
 *
 * A page that is part of a region is not migrated by a later one: the pieces stay true until release.
 *
 * Context: any thread; all calls take the one private mutex of the process. Not async-signal-safe.
 */
#ifndef WEFT_MIGRATE_REGION_H
#define WEFT_MIGRATE_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "migrate/migratable.h"

#define WEFT_IN_PLACE UINT64_MAX

struct weft_piece {
	uint64_t va;	    /* address in the owner */
	uint64_t len_bytes; /* > 0 */
	uint64_t off;	    /* of the first byte in the pool file, or WEFT_IN_PLACE */
};

/*
 * Where extents come from. An extent is whole pages of the pool file, reserved (never SIGBUS),
 * zeroed, with a hole behind it. The calls are made under the mutex of the regions and must not
 * call back.
 */
struct weft_extent_source {
	/* 0, -ENOSPC (the pool, the memory cgroup or the file system is full). *alias: where this
	 * process sees the extent for as long as it is allocated, readable and writable. */
	int (*alloc)(void *arg, size_t len_bytes, uint64_t *off, void **alias);
	/* Gives the pages back to the system. */
	void (*free)(void *arg, uint64_t off, size_t len_bytes);
	/* The same when a suspect may still write there: not before that has gone on. NULL: as free. */
	void (*retire)(void *arg, uint64_t off, size_t len_bytes);
	/* A thread that stopped before it grew past what it is at alloc cannot reach that extent. NULL: 0. */
	uint64_t (*age)(void *arg);
	/* The descriptor of the pool file, checked to be still ours, or -errno. */
	int (*fd)(void *arg);
	uint64_t shift; /* what an extent's offset is greater than that in the file */
	bool device;	/* the file is one (backing.h) */
	/* Ends every peer's access to the extent: the program has unmapped all of it, but still has
	 * regions there. free follows. NULL: such extents stay until the regions end. */
	void (*revoke)(void *arg, uint64_t off, size_t len_bytes);
	void *arg;
};

struct weft_extent;
struct weft_pool;

/* Extents of the pool. */
struct weft_extent_source weft_pool_extent_source(struct weft_pool *pool);

/* What a region holds: made by acquire, ended by release, may be copied but not used twice. */
struct weft_region {
	struct weft_piece *pieces;
	unsigned int npieces;

	/* private */
	struct weft_extent **extents;
	uint64_t born;
};

/*
 * Once per process, at the first open of a pool; registers the fork handlers.
 * The source must stay valid until weft_region_detach(). -EBUSY (a source is attached), -ENOMEM,
 * or -errno of mapping the pool or of reading /proc/self/maps.
 */
int weft_region_attach(const struct weft_extent_source *source);

/* Migrates everything back and forgets the source, which may take back all extents without further
 * calls. The caller has ended every peer's access. Regions that are left may still be released.
 * false: pages have to stay in the pool, which stays attached; to be tried again. */
bool weft_region_detach(void);

enum weft_region_flags {
	WEFT_REGION_MIGRATE = 1 << 0, /* its access makes migrating worth it */
	WEFT_REGION_WRITE = 1 << 1,
	WEFT_REGION_STAY = 1 << 2, /* nothing of it migrates before it is released */
};

/*
 * Registers [addr, addr + len). flags: of enum weft_region_flags.
 * 0; -EFAULT (a page of the range is not mapped, or may not be read, or not written but should);
 * -EINVAL (len 0 or wraps); -ENOMEM.
 * A full pool is no error: the pieces are in place, with one warning on stderr a process.
 */
int weft_region_acquire(void *addr, size_t len_bytes, unsigned int flags,
			struct weft_region *region);

/* The last region over a page migrates it back before this returns, unless it is away (below); what the program
 * has unmapped or mapped anew is left alone. The caller has ended every peer's access to the region. */
void weft_region_release(struct weft_region *region);

/*
 * Pages may be in no region any more and yet in the pool, since the kernel may hold them for later (pins.h) or a
 * thread stood in the way (migrate.h): they are away. The program notices nothing, but that they are a shared
 * mapping. They come home, some megabytes at a time, by these calls once they are due, and by acquire and release.
 * When they are due next, by the pool's clock; UINT64_MAX: nothing is away.
 */
uint64_t weft_region_bring_home(uint64_t now_ns);
bool weft_region_is_away(void);

/* How the driver of a device is asked what it has pinned (migratable.h): to be said before anything is registered. */
void weft_region_ask(weft_driver_pins_fn *fn);

/* As long as it is held, nothing more migrates: any page may be part of a region over all memory. */
void weft_region_hold(bool hold);

/* Before release: a suspect may still write to where the region lies in the pool. Its pages migrate back all the
 * same; its extents are retired. */
void weft_region_quarantine(struct weft_region *region);

/*
 * The same for regions that stay. Expose: a suspect may still write to extents older than that age, too. Rehome:
 * the pages of all such extents migrate to new ones, which are out of its reach, or where that is not possible back
 * for good, without losing a store of the program; no executor may use them meanwhile. Then each region follows:
 * whether its pieces have changed, though not their number.
 */
void weft_region_expose(uint64_t age);
bool weft_region_any_exposed(void);
void weft_region_rehome(void);
bool weft_region_follow(struct weft_region *region);

/*
 * fork() gives the child private copies of all migrated pages; the pool's regions, this attachment and its source
 * mean nothing to it: releasing inherited regions only frees their memory. fn is called in the child, before fork
 * returns, to let go of the rest (the descriptor of the pool, whose locks the child would otherwise hold). It must
 * be async-signal-safe.
 */
void weft_region_on_fork_child(void (*fn)(void));

#endif
