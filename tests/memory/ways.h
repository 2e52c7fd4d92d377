/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ways of moving memory, each tried in a process of its own. */
#ifndef WEFT_TESTS_WAYS_H
#define WEFT_TESTS_WAYS_H

#include <stdbool.h>
#include <stddef.h>

struct way {
	const char *name;
	const char *move; /* $WEFT_MOVE */
	bool user;	  /* an ordinary one, if root runs the test */
	bool undumpable;  /* as a program that has changed its user: /proc tells it nothing of its
			     threads' calls */
	bool container;	  /* no userfaultfd */
};

/* By userfaultfd and by protection, as root and as a user. */
extern const struct way ways[];
extern const size_t nways;

/* Runs fn in a child, in that way. Whether it returned 0, or the way is not to be had here. */
bool way_run(const struct way *way, int (*fn)(void *arg), void *arg);

/* Fails userfaultfd, and ioctls of the kind that asks for mappings. 0 or -1. */
int way_enter_container(void);

/* Registers and deregisters until so many moves have been made, and says so. Ends the process if
 * the memory hardly ever moves. */
void way_move(void *memory, size_t len_bytes, unsigned long moves);

#endif
