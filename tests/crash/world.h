/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the processes of a round share with each other and with their supervisor, beside the pool: which they
 * are, which have died, and what two of them need to connect. It lies in anonymous shared memory, since it
 * must be right even when the pool is not.
 */
#ifndef WEFT_TESTS_CRASH_WORLD_H
#define WEFT_TESTS_CRASH_WORLD_H

#include <infiniband/verbs.h>
#include <sys/types.h>

#include "steps.h"

#define PROCESSES 8u

enum stage {
	UNBORN,
	BORN,
	DONE,	 /* it begins no requests any more, but its peers may still reach it */
	LEAVING, /* its peers may get errors */
	LEFT,
};

/* How far a process has come with its end of a link. */
enum link_stage {
	LINK_NONE,
	LINK_OFFERED,
	LINK_CONNECTED,
};

/* What one process tells another about their link. */
struct mail {
	_Atomic uint32_t stage; /* enum link_stage */
	uint32_t qpn;
	uint64_t acked; /* the last WRITE with immediate that was looked at */
};

/* How a process dies by itself, in the middle of its traffic. */
enum way {
	WAY_NONE,
	WAY_ASLEEP, /* it waits in ibv_get_cq_event until it is killed */
	WAY_EXIT,   /* in a handler of exit */
	WAY_ABORT,  /* with a core dump */
};

struct process {
	pid_t pid;
	enum kind kind;
	enum way way;
	uint32_t host; /* of the pool, of which it is, where there are several */
	uint64_t seed;
	uint32_t turns; /* how many turns of traffic it takes */
	struct order order;
	uint64_t doom_ns;	  /* when it is killed, wherever it is; 0: never */
	_Atomic uint64_t died_ns; /* when the kernel had released it; 0: it lives */
	_Atomic uint32_t stage;	  /* enum stage */
	uint32_t key[2];	  /* keys of its regions: pooled, in place */
	uint64_t address[2];
	union ibv_gid gid;
	int cmd_fd;
	_Atomic uint32_t pd;   /* its domain's handle, once that can be imported; 0: not yet */
	_Atomic uint32_t port; /* the port on which it listens; 0: none */
	_Atomic int refused;   /* why its last accept has failed, an errno; -1: it had no room */
	char failure[256];     /* what it has seen that must not be */
	/* the longest time from a peer's death to the error of that connection */
	uint64_t late_ns;
	uint32_t
		deserted; /* connections lost to peers of other hosts that live: these were thought silent */
	struct mail mail[PROCESSES];
};

struct world {
	char pool[64];
	uint32_t processes;
	uint32_t hosts; /* of the pool; 0: it is a file, and has one */
	uint32_t
		stands; /* the host of which all processes are stopped for a while, + 1; 0: none is */
	_Atomic bool ends; /* its agents are to leave */
	bool hurried;	   /* a process joins after each death, and recovers the dead */
	struct process process[PROCESSES + 1]; /* the last one is of a process that joins later */
};

uint64_t now_ns(void);
void nap(long ns);
/* The next number of the sequence that the seed determines, below `bound`. */
uint64_t draw(uint64_t *seed, uint64_t bound);

static inline bool has_died(const struct process *process)
{
	return atomic_load(&process->died_ns);
}

static inline uint32_t stage_of(const struct process *process)
{
	return atomic_load(&process->stage);
}

/* The life of a process. Does not return. */
void live(struct world *world, uint32_t process) __attribute__((noreturn));
/* Ends this process, and fails the test. */
void broken(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
