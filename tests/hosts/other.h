/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process of another host, which does what it is told. */
#ifndef WEFT_TESTS_HOSTS_OTHER_H
#define WEFT_TESTS_HOSTS_OTHER_H

#include <sys/types.h>

#include "pool/internal.h"

enum other_does {
	OTHER_IDLES,
	OTHER_USES,	/* member 0 of the pool, of host 0 */
	OTHER_EXECUTES, /* there, until it is told otherwise */
	OTHER_REVOKES,	/* what others may use of it, over and over */
	OTHER_LEASES,	/* a segment */
};

struct other {
	pid_t pid;
	struct other_page *page; /* shared with it */
};

struct other_page {
	_Atomic enum other_does does;  /* the test: what it is to do */
	_Atomic enum other_does doing; /* it: what it does */
	_Atomic bool failed;
	uint16_t member;
	uint64_t incarnation;
	_Atomic uint64_t longest_ns; /* of its revocations */
	_Atomic uint32_t revoked;
};

/* Makes a pool of two hosts, and attaches this process as the first one's. */
struct weft_pool *other_pool(uint32_t silence_ms);
/* And ends it: all that it left in /dev/shm, too. */
void other_end(struct weft_pool *pool);

/* A process of host 1, with a helper's thread. */
struct other other_start(void);
void other_tell(struct other *o, enum other_does does);
/* All its threads have stopped. */
void other_stop(struct other *o);
void other_kill(struct other *o);
/* A host that comes again does so with a new home. */
void other_delete_home(void);

/* What this process's helper would do. */
void other_tick(struct weft_pool *pool);

#endif
