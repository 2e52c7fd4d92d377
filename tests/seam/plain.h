/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A second row of struct weft_backing, for tests: plain memory of this process. Each path names a memory of
 * its own. A path that is opened twice has two members, so that one process can have any number of pools, and
 * all members of each. For one thread.
 */
#ifndef WEFT_TESTS_SEAM_PLAIN_H
#define WEFT_TESTS_SEAM_PLAIN_H

#include "pool/internal.h"

extern const struct weft_backing plain;

/* How often each function of the row was called, and what they are to answer. */
extern struct plain_told {
	uint32_t sleeps, wakes, barriers, locks;
	uint32_t reserves_left; /* how many reserve calls succeed before the memory is full */
	/* how many hosts a pool has, and as which of them this process opens it */
	uint32_t hosts, host;
	int64_t timeout_ns; /* of the last sleep */
	/* called in each sleep; NULL: nothing */
	void (*asleep)(_Atomic uint32_t *word);
} told;

/* Ends a member as the kernel ends a process: its claim is gone, and it has given nothing back. */
void plain_kill(struct weft_attachment *a);
/* Forgets all memories, none of which may be open. */
void plain_end(void);

#endif
