/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Moving pages into the pool and back without losing a store of any thread.
 *
 * A process with one thread copies. Otherwise pages move in chunks, while stores of other threads
 * into the chunk are held back: by userfaultfd, or where that is forbidden, by protecting the pages
 * and a chained SIGSEGV handler. Limit, but for privileged processes: a system call of another
 * thread that writes into that very chunk at that instant may return EFAULT.
 *
 * The caller holds the mutex of the regions.
 */
#ifndef WEFT_POOL_MOVE_H
#define WEFT_POOL_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole pages of one mapping. */
struct weft_move {
	uintptr_t va;
	size_t len_bytes;
	uint8_t *alias; /* the same pages of the pool, as this process sees them elsewhere */
	int fd;		/* of the pool */
	uint64_t off;	/* in the pool */
	int prot;	/* of the mapping */
};

/* Private anonymous pages become pages of the pool, shared with alias and not inherited by fork.
 * The bytes, from the front, that have moved: fewer than asked for when a step failed. */
size_t weft_move_in(const struct weft_move *move);

/* The reverse: ordinary private memory again, with the same contents. */
size_t weft_move_out(const struct weft_move *move);

/* Closes what is kept open between moves; also in the child of a fork. */
void weft_move_end(void);

/* Copies whole pages that the program may be storing into, or has freed: unseen by sanitizers. */
void weft_move_copy(void *to, const void *from, size_t len_bytes);

/* Looks at $WEFT_MOVE: copy, uffd or segv force that way, for tests and where one gives trouble.
 * (copy loses stores of other threads.) never: all memory stays in place. */
void weft_move_begin(void);
bool weft_move_allowed(void);

#endif
