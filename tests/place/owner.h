/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process whose memory cannot migrate into the pool, so that only its helper reaches it where the kernel's
 * calls for that are refused. The process may be stopped; or its helper alone may be held at a step, while
 * its other threads obey orders.
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
#define OWNER_UC    2 /* the queue pair of UC; all others are RC */
#define OWNER_UD    OWNER_ENDS
#define OWNER_XRC   (OWNER_ENDS + 1)
#define OWNER_ALL   (OWNER_ENDS + 2)

/* Where the owner's helper is held. */
enum owner_place {
	OWNER_NOWHERE,
	OWNER_ANSWERING, /* it has seen what it is asked, and not done it yet */
	OWNER_APPLIED,	 /* it has done what it is asked, and not answered yet */
};

enum owner_order {
	OWNER_NOTHING,
	OWNER_REHOME, /* does what weft_rehome does, though no page is copied */
	/* posts a receive of all of the memory at that end, which may be neither OWNER_SRQ nor
	 * OWNER_XRC */
	OWNER_RECEIVE,
	OWNER_RECONNECT, /* takes that end to RESET and connects it again */
	/* result: how many receives have completed with success since the last such order */
	OWNER_COUNT,
};

/* What all processes share. This memory is mapped shared, and so stays in place. */
struct owner_meeting {
	_Atomic uint32_t theirs[OWNER_ALL], ours[OWNER_ALL];
	_Atomic uint32_t made, connected;
	/* enum owner_place: where the helper is to be held; whether it is held */
	_Atomic uint32_t place, held;
	/* how often the helper is to pass that place before it is held */
	_Atomic uint32_t passes;
	_Atomic uint32_t order, done;
	uint32_t end, result; /* of the order: the end it is about, and its result */
	uint32_t rkey, queue; /* queue: the number of the shared receive queue of XRC */
	_Alignas(4096) uint8_t memory[OWNER_BYTES];
};

struct owner {
	pid_t pid;
	struct ibv_qp *qp
		/* the test's queue pairs, each connected to one of the owner's; they complete into
		 * the queue that owner_connect was given */
		[OWNER_ALL];
};

extern struct owner_meeting *owner_meeting;
extern const union ibv_gid owner_group; /* the multicast group to which OWNER_UD is attached */

/* Called once, before the first owner_start. */
int owner_prepare(void);
/* Starts the owner, before this process opens anything. Its receives are of all of its memory: one each for
 * queue pair 0, OWNER_SRQ, OWNER_UC and OWNER_XRC, and as many as fit for OWNER_UD. */
void owner_start(struct owner *owner);
/* Connects to all ends of the owner, or to those from `first` on and before `end`; another process connects
 * to the others. */
void owner_connect(struct owner *owner, const struct rig *rig, struct ibv_cq *cq);
void owner_connect_some(struct owner *owner, const struct rig *rig, struct ibv_cq *cq, int first,
			int end);
void owner_stop(const struct owner *owner);
void owner_continue(const struct owner *owner);
#ifdef WEFT_STEPS
void owner_step(const char *name); /* every process of the program calls it in its weft_step */
#endif
/* The owner's helper is to stop at that place when it comes there, or when it has passed it so many times.
 * owner_await_held waits until it has stopped, and owner_let_go lets it go on. */
void owner_hold(enum owner_place place);
void owner_hold_after(enum owner_place place, uint32_t times);
void owner_await_held(void);
void owner_let_go(void);
/* Gives the owner an order, which it obeys also while its helper is held, unless the order has to wait for
 * that. owner_result waits for it, and owner_do does both. */
void owner_order(enum owner_order order, int end);
uint32_t owner_result(void);
uint32_t owner_do(enum owner_order order, int end);
void owner_end(struct owner *owner); /* Ends the owner, which may have died already. */

#endif
