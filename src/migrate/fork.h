/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Copies of migrated pages for the child of a fork. The parent makes them just before the fork, in one mapping
 * that the child inherits and takes apart; so neither waits for the other, and a child that dies early leaves
 * nothing behind. The caller holds the mutex of the regions.
 */
#ifndef WEFT_MIGRATE_FORK_H
#define WEFT_MIGRATE_FORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Before the fork: makes room for copies of at most that many bytes in at most that many runs.
 * 0 or -ENOMEM. Between here and end, SIGSEGV goes through our handler: libc and other libraries
 * touch memory in the child before the copies are placed.
 */
int weft_fork_begin(size_t bytes, size_t runs);
/* Copies one run of pages from the pool, to appear at va with that protection. */
void weft_fork_add(uintptr_t va, size_t len_bytes, const void *alias, int prot);
/* In the child: puts the copies at their addresses, if that is still to be done. */
void weft_fork_place(void);
/* In both, or when begin has failed: gives the rest up. */
void weft_fork_end(void);

/* Called by the handler: whether we are in the child and the copies were just placed. */
bool weft_fork_rescue(void);

#endif
