/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A second row of struct weft_backing, for tests: plain memory of this process. Each path is a memory of
 * its own, and a process that opens one twice is two members of it; so one process has as many pools as it
 * likes. One thread.
 */
#ifndef WEFT_TESTS_SEAM_PLAIN_H
#define WEFT_TESTS_SEAM_PLAIN_H

#include "pool/internal.h"

extern const struct weft_backing plain;

/* What the row was asked for, and what it is to answer. */
extern struct plain_told {
	uint32_t sleeps, wakes, barriers, locks;
	uint32_t reserves_left; /* then there is no room */
	uint32_t hosts, host;	/* that a pool has, and as which of them it is opened */
	int64_t timeout_ns;	/* of the last sleep */
	/* what happens in a sleep; NULL: nothing */
	void (*asleep)(_Atomic uint32_t *word);
} told;

/* Ends a member as the kernel ends a process: it proves nothing any more, and has given nothing back. */
void plain_kill(struct weft_attachment *a);
/* Forgets all memories. None is open. */
void plain_end(void);

#endif
