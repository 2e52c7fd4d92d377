/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process of another host, which obeys the test. */
#ifndef WEFT_TESTS_HOSTS_OTHER_H
#define WEFT_TESTS_HOSTS_OTHER_H

#include <sys/types.h>

#include "pool/format_mailbox.h"
#include "pool/internal.h"

enum other_does {
	OTHER_IDLES,
	OTHER_USES,	/* uses memory of the member `at` */
	OTHER_EXECUTES, /* executes at that member until it is told otherwise */
	OTHER_REVOKES,	/* revokes rights that others may use, over and over */
	OTHER_LEASES,	/* leases a segment */
	OTHER_OPENS,	/* has a queue pair's entry, and a region's */
	OTHER_LISTENS,	/* has `gid`, and listens at `port` */
	OTHER_BURIES,	/* recovers the dead of its host, over and over */
};

struct other {
	pid_t pid;
	struct other_page *page; /* shared with that process */
};

struct other_page {
	_Atomic enum other_does does;  /* written by the test: what the process is to do */
	_Atomic enum other_does doing; /* written by the process: what it does */
	_Atomic bool failed;
	uint32_t host; /* of which it is */
	uint16_t at;   /* written by the test: the member whose memory it uses */
	uint16_t member;
	uint64_t incarnation;
	uint64_t off;		    /* of the segment that it has leased */
	uint32_t qp, mr;	    /* the indices of those entries */
	struct weft_pool_port port; /* written by the test */
	uint8_t gid[16];
	int err;		     /* of listening */
	_Atomic bool displaced;	     /* its host is another's, or was evicted */
	_Atomic uint64_t longest_ns; /* the longest of its revocations */
	_Atomic uint32_t revoked;
};

/* Makes a pool of that many hosts, and joins it as a process of the first. */
struct weft_pool *other_pool(uint32_t hosts, uint32_t silence_ms);
/* Leaves that pool and ends it, with everything that it left in /dev/shm. */
void other_end(struct weft_pool *pool);

/* Starts a process of that host, with a thread that plays its helper. It uses member 0 of the pool, if it is told to. */
struct other other_start(uint32_t host);
void other_tell(struct other *o, enum other_does does);
/* Returns when all its threads have stopped. */
void other_stop(struct other *o);
void other_kill(struct other *o);
/* Deletes a host's home, as a host that was started again has a new one. */
void other_delete_home(uint32_t host);
/* Bytes of that host's slice that are leased, whether its members live or not. */
uint64_t other_leased_bytes(struct weft_pool *pool, uint32_t host);

/* From now on that is the only address of this process's member. */
void other_have_gid(struct weft_pool *pool, const uint8_t gid[16]);

/* Does what this process's helper would do. */
void other_tick(struct weft_pool *pool);

#endif
