/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The memory of several hosts, for `weft pool test`: by a process that is no member, and whether a pool is there or not.
 * Context: one thread. */
#ifndef WEFT_POOL_TRIAL_H
#define WEFT_POOL_TRIAL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "backing/backing.h"
#include "pool/format_trial.h"

struct weft_trial {
	struct weft_trial_room *room;
	uint32_t flags; /* enum weft_pool_flag, of the pool that is there */
	bool is_pool;
	bool is_others; /* no pool is there, and the memory is not empty where we look */
	/* private */
	struct weft_pages pages;
	const struct weft_backing *on;
};

/*
 * Maps the room; nothing is stored there. where: the path that was chosen.
 * -EINVAL (no path of a memory of several hosts), -EPROTO (a pool of another version, or one that is just made), -ENOSPC
 * (so small a memory has no such room), -ENOMEM, or open(2)'s. *why says it.
 */
int weft_trial_open(const char *path, char where[PATH_MAX], struct weft_trial *t, const char **why);
void weft_trial_close(struct weft_trial *t);

#endif
