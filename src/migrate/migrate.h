/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Migrating pages into the pool and back without losing a store of any thread, nor of the kernel on its behalf.
 *
 * A process with one thread copies. Otherwise the other threads are parked (migrate/park.h); stores of
 * those few that were left asleep, and wake up, are held back: by userfaultfd, or where that is
 * forbidden, by protecting the pages and a chained SIGSEGV handler. Limit: a system call of one that has
 * blocked signal 33 past libc, wakes up in those microseconds, and writes into that very chunk, returns EFAULT.
 *
 * The caller holds the mutex of the regions.
 */
#ifndef WEFT_MIGRATE_MIGRATE_H
#define WEFT_MIGRATE_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole pages of one mapping. */
struct weft_migrate {
	uintptr_t va;
	size_t len_bytes;
	uint8_t *alias; /* the same pages of the pool, as this process sees them elsewhere */
	int fd;		/* of the pool */
	uint64_t off;	/* in the pool */
	int prot;	/* of the mapping */
	/* a suspect may still store there: it is tried for seconds, not once */
	bool insists;
	bool device; /* the pool's pages are a device's (backing.h) */
};

/* Private anonymous pages become pages of the pool, shared with alias and not inherited by fork.
 * The bytes, from the front, that have migrated: fewer than asked for when a step failed, or when a
 * thread could not be stopped in time; then it may be tried again later. */
size_t weft_migrate_in(const struct weft_migrate *pages);

/* The reverse: ordinary private memory again, with the same contents. */
size_t weft_migrate_out(const struct weft_migrate *pages);

/* Closes what is kept open between migrations; also in the child of a fork. */
void weft_migrate_end(void);

/* Copies whole pages that the program may be storing into, or has freed: unseen by sanitizers. */
void weft_migrate_copy(void *to, const void *from, size_t len_bytes);

/* Looks at $WEFT_MIGRATE: copy, uffd or segv force that way, for tests and where one gives trouble.
 * (copy loses stores of other threads.) never: all memory stays in place. */
void weft_migrate_begin(void);
bool weft_migrate_allowed(void);
/* Whether what could not migrate now may migrate later: there is a way, but a thread could not be parked in time. */
bool weft_migrate_may_later(void);

#endif
