/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The two ways to hold back stores of threads that were left asleep, and may wake up while a chunk of pages
 * changes its place: what migrate.c chooses from. Every call is made under the mutex of the regions with all
 * signals blocked and the other threads parked (migrate/park.h).
 */
#ifndef WEFT_MIGRATE_HOLD_H
#define WEFT_MIGRATE_HOLD_H

#include <stdbool.h>

#include "migrate/migrate.h"

/* The longest chunk. */
#define WEFT_HOLD_MOST (1ul << 20)

struct weft_hold {
	/* 0, or -errno: not possible here. Before the others are parked. */
	int (*begin)(void);
	/* From here on every store into the chunk waits; loads do not. 0, or -errno and none does.
	 */
	int (*hold)(const struct weft_migrate *chunk);
	/* They go on; migrated: other pages are at its addresses, for good. */
	void (*let_go)(const struct weft_migrate *chunk, bool migrated);
	/* A thread that blocks SIGSEGV would not wait, but die. */
	bool by_signal;
};

extern const struct weft_hold weft_uffd_hold;
extern const struct weft_hold weft_segv_hold;

/* Ends what weft_uffd_hold keeps open; in the child of a fork, what it has inherited. */
void weft_uffd_close(void);

/* Installs the SIGSEGV handler, which a fork needs, too. Whether it was not there before: then
 * uninstall may take it away, as long as no pages were held back since. */
bool weft_segv_install(void);
void weft_segv_uninstall(void);

#endif
