/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two processes, each with memory of each kind that there is beside a GPU, and with all that the other needs
 * to use it. What they tell each other and the test lies in anonymous shared memory.
 */
#ifndef WEFT_TESTS_CRASH_GPU_LIFE_H
#define WEFT_TESTS_CRASH_GPU_LIFE_H

#include "../../gpu/place.h"
#include "../steps.h"

#define PROCESSES 2u
#define HANGS_NS  60000000000ull

/* The parts of each memory. */
#define CONSTANT_BYTES (32ul << 10)  /* the other process READs them */
#define SCRATCH_BYTES  (128ul << 10) /* the other process WRITEs them, and READs them back */
#define GUARD_BYTES    (4ul << 10)   /* no process writes them */
#define SCRATCH_AT     CONSTANT_BYTES
#define COUNTER_AT     (SCRATCH_AT + SCRATCH_BYTES)
/* the source of the process's own requests, and the target of READs */
#define FROM_AT	     (COUNTER_AT + GUARD_BYTES)
#define INTO_AT	     (FROM_AT + SCRATCH_BYTES)
#define GUARD_AT     (INTO_AT + SCRATCH_BYTES)
#define MEMORY_BYTES (GUARD_AT + GUARD_BYTES)

enum stage {
	BORN,
	READY, /* what the process says of its memory is valid */
	MET,   /* its queue pair is connected */
	DONE,  /* it begins no requests to the other any more, but the other may still reach it */
	LEFT,
};

struct process {
	pid_t pid;
	uint64_t seed;
	uint32_t turns;
	struct order order;
	uint64_t doom_ns; /* when it is killed, wherever it is; 0: never */
	_Atomic bool dead;
	_Atomic uint32_t stage; /* enum stage */
	uint32_t qpn;
	uint64_t at[PLACE_KINDS]; /* 0: it has none of that kind */
	uint32_t rkey[PLACE_KINDS];
	char failure[256];  /* what it has seen that must not be */
	bool starved;	    /* it got no answer although the other process lived */
	bool heard;	    /* an error has told it of the other's death */
	uint64_t waited_ns; /* the longest wait for a request that failed */
};

struct world {
	char pool[64];
	struct process process[PROCESSES];
};

struct life {
	struct world *world;
	struct process *self, *other;
	uint32_t me;
	uint64_t seed;
	struct rig rig; /* queue pair 0 is connected to the other process, 1 to itself */
	weft_cu_context context;
	struct place place[PLACE_KINDS];
	uint64_t counted[PLACE_KINDS]; /* what this process has counted at the other */
	bool lost;		       /* a request to the other process has failed */
};

/* Ends this process, and fails the test. */
void broken(struct life *l, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
uint64_t draw(uint64_t *seed, uint64_t bound); /* a number below `bound` */
/* The life of a process. Does not return. */
void live(struct world *world, uint32_t process) __attribute__((noreturn));

/* traffic.c */
void traffic_fill(struct life *l);  /* fills the memory, before the other process may reach it */
void traffic_check(struct life *l); /* checks, in the end, the parts that no process writes */
void traffic_turn(struct life *l);

#endif
