/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which process holds the lock of a pool's file, for those that wait for it. Any thread; reads much of /proc.
 */
#ifndef WEFT_BACKING_LOCK_OWNER_H
#define WEFT_BACKING_LOCK_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct weft_lock_owner {
	pid_t pid;
	char comm[17];
	bool stopped; /* by a signal or a debugger; that a whole container is paused does not show */
};

/* fd: the pool's file. False: no process holds it, or its holder cannot be seen: another user's process, or one of
 * another pid namespace. */
bool weft_lock_owner_find(int fd, struct weft_lock_owner *owner);
/* The same in words. */
void weft_lock_owner_text(int fd, char *text, size_t text_bytes);

#endif
