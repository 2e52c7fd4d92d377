/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Regions: which pages of this process live in the pool, and where.
 *
 * Registering memory moves its whole, private, anonymous pages into extents of the pool and maps
 * them back at the same address; all else is registered in place. A region is described to the
 * layers above as pieces in rising order of address that cover it without gaps.
 *
 * Context: any thread; all calls take the one private mutex of the process. Not async-signal-safe.
 */
#ifndef WEFT_POOL_REGION_H
#define WEFT_POOL_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_IN_PLACE UINT64_MAX

struct weft_piece {
	uint64_t va;	    /* address in the owner */
	uint64_t len_bytes; /* > 0 */
	uint64_t off;	    /* of the first byte in the pool file, or WEFT_IN_PLACE */
};

/*
 * Where extents come from. An extent is whole pages of the pool file, reserved (never SIGBUS),
 * zeroed or not, with a hole behind it.
 */
struct weft_extent_source {
	/* 0, -ENOSPC (the pool, the memory cgroup or the file system is full). *alias: where this
	 * process sees the extent for as long as it is allocated, readable and writable. */
	int (*alloc)(void *arg, size_t len_bytes, uint64_t *off, void **alias);
	/* Gives the pages back to the system. */
	void (*free)(void *arg, uint64_t off, size_t len_bytes);
	/* The descriptor of the pool file, checked to be still ours, or -errno. */
	int (*fd)(void *arg);
	void *arg;
};

/* What a region holds: opaque, made by acquire, ended by release. */
struct weft_region {
	struct weft_piece *pieces;
	unsigned int npieces;
};

/* Once per process, at the first open of a pool; registers the fork handlers.
 * The source must stay valid until weft_region_detach(). 0 or -errno. */
int weft_region_attach(const struct weft_extent_source *source);

/* Moves everything back and forgets the source. The caller has ended every peer's access. */
void weft_region_detach(void);

/*
 * Registers [addr, addr + len). may_move: whether its rights make moving worth it.
 * 0; -EFAULT (a page of the range is not mapped); -EINVAL (len 0 or wraps); -ENOMEM.
 * A full pool is no error: the pieces are in place, with one warning on stderr a process.
 */
int weft_region_acquire(void *addr, size_t len_bytes, bool may_move, struct weft_region *region);

/* The last region over an extent moves its pages back before this returns.
 * The caller has ended every peer's access to the region. */
void weft_region_release(struct weft_region *region);

#endif
