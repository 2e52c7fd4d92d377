/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The GID table of weft0's port as this process has it, and as its member of the pool publishes it. It
 * follows the addresses of the host (gid.h) as a card's does: each keeps its index as long as it is there,
 * one that goes leaves its index free, and one that comes takes the first that is free. Whatever looks at the
 * table follows first, which costs two system calls as long as nothing has changed; for the rest the helper
 * does so each second. A change is told as IBV_EVENT_GID_CHANGE to each open context.
 *
 * Context: any thread, no locks held but that of cm/; the process is attached.
 */
#ifndef WEFT_PROCESS_GIDS_H
#define WEFT_PROCESS_GIDS_H

#include <stdbool.h>

#include "process/gid.h"

/* As the process attaches: the table is the host's. */
void weft_gids_start(void);
/* As it detaches; the helper has ended. */
void weft_gids_stop(void);
void weft_gids_forget(void); /* in a fork's child */

/* Takes in what has changed. */
void weft_gids_follow(void);
/* Follows. Whether there is an entry of that index, which is copied. */
bool weft_gids_get(uint32_t index, struct weft_gid_entry *entry);
/* The same for one from which queue pairs can send: which peers can see. */
bool weft_gids_source(uint32_t index, uint8_t gid[16]);
/* The same for all of them, in order; how many. */
unsigned int weft_gids_get_all(struct weft_gid_entry entries[WEFT_GID_TABLE_LEN]);

#endif
