/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calling threads by a signal into a handler where they stand still: what migrate/park.c does with each.
 *
 * The signal is the one by which glibc changes the user of all threads, which a program cannot block.
 * glibc's own come with another code, and go on to its handler.
 */
#ifndef WEFT_MIGRATE_SUMMON_H
#define WEFT_MIGRATE_SUMMON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "migrate/asleep.h"

#define WEFT_SUMMON_MOST   16384u

#define WEFT_SUMMON_SIGNAL 33

/* A thread: the entry is its own as long as it lives. Written by the thread that migrates, but for what says
 * otherwise. */
struct weft_summon {
	_Atomic pid_t tid;
	/* The round in which it last stood still, and the last of those that it has gone on from: written by the thread. */
	_Atomic uint32_t parked, left;
	_Atomic bool noted; /* it has come once, and said where the stack of its signals is */
	_Atomic uintptr_t stack, stack_end; /* written by the thread */
	struct weft_asleep asleep;	    /* in what it slept when it was called */
};

extern struct weft_summon weft_summons[WEFT_SUMMON_MOST];

/* The round, 0 while no thread is to stand still. Written by the thread that migrates. */
extern _Atomic uint32_t weft_summon_round;
/* How many have come, in rounds of all times; a futex. */
extern _Atomic uint32_t weft_summon_arrivals;

/* Installs the handler if it is not there: libc installs its own when it needs it first. 0 or -errno. */
int weft_summon_install(void);

/* Sends the signal. 0; -ESRCH: the thread has ended; -EAGAIN: too many signals are pending. */
int weft_summon_send(unsigned int which);

#endif
