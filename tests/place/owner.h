/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process whose memory does not move into the pool, so that only its helper reaches it where the calls of the
 * kernel are refused; and that may be stopped, or its helper alone be held at a step while the rest does what it
 * is told.
 */
#ifndef WEFT_TESTS_PLACE_OWNER_H
#define WEFT_TESTS_PLACE_OWNER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "../verbs/rig.h"

#define OWNER_BYTES (1u << 20)
#define OWNER_ENDS  40
#define OWNER_SRQ   1 /* the queue pair that receives from a shared queue */
#define OWNER_UC    2 /* one of UC; all others are RC */
#define OWNER_UD    OWNER_ENDS
#define OWNER_XRC   (OWNER_ENDS + 1)
#define OWNER_ALL   (OWNER_ENDS + 2)

/* Where its helper is held. */
enum owner_place {
	OWNER_NOWHERE,
	OWNER_ANSWERING, /* it has seen that it is asked, and has yet to do it */
	OWNER_APPLIED,	 /* it has done it, and has yet to say so */
};

enum owner_order {
	OWNER_NOTHING,
	OWNER_REHOME, /* as weft_rehome does, though nothing moves */
	OWNER_RECEIVE, /* a receive of all of the memory at that end, which is none of OWNER_SRQ and OWNER_XRC */
	OWNER_RECONNECT, /* that end, by RESET */
	OWNER_COUNT,	 /* result: good receives that have completed since the last time */
};

/* What all processes see. The memory is mapped shared, and stays in place. */
struct owner_meeting {
	_Atomic uint32_t theirs[OWNER_ALL], ours[OWNER_ALL];
	_Atomic uint32_t made, connected;
	_Atomic uint32_t place, held; /* enum owner_place: where it is to be held; whether it is */
	_Atomic uint32_t passes;      /* how often it comes by there before */
	_Atomic uint32_t order, done;
	uint32_t end, result; /* of the order */
	uint32_t rkey, queue; /* the number of the queue of XRC */
	_Alignas(4096) uint8_t memory[OWNER_BYTES];
};

struct owner {
	pid_t pid;
	struct ibv_qp *qp
		[OWNER_ALL]; /* ours, connected to its own; complete into the queue that was given */
};

extern struct owner_meeting *owner_meeting;
extern const union ibv_gid owner_group; /* to which OWNER_UD listens */

/* Once, before the first. */
int owner_prepare(void);
/* Its receives are of all of the memory: one each for queue pair 0, OWNER_SRQ, OWNER_UC and OWNER_XRC, and as many as
 * fit for OWNER_UD. Before this process opens anything. */
void owner_start(struct owner *owner);
/* All of its ends, or those from `first` on and before `end`: the others are another process's. */
void owner_connect(struct owner *owner, const struct rig *rig, struct ibv_cq *cq);
void owner_connect_some(struct owner *owner, const struct rig *rig, struct ibv_cq *cq, int first,
			int end);
void owner_stop(const struct owner *owner);
void owner_continue(const struct owner *owner);
#ifdef WEFT_STEPS
void owner_step(const char *name); /* the program's weft_step calls it, in all processes */
#endif
/* Its helper is to stop at that place, when it comes by, or comes by again after so many times; and has; and
 * goes on. */
void owner_hold(enum owner_place place);
void owner_hold_after(enum owner_place place, uint32_t times);
void owner_await_held(void);
void owner_let_go(void);
/* It is obeyed while the helper is held, as far as nothing of it waits for that; the result. */
void owner_order(enum owner_order order, int end);
uint32_t owner_result(void);
uint32_t owner_do(enum owner_order order, int end);
void owner_end(struct owner *owner); /* whether it lives still or not */

#endif
