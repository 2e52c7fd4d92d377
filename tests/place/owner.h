/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process whose memory does not move into the pool, so that only its helper reaches it where the calls of the
 * kernel are refused; and that may be stopped.
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

/* What both processes see. The memory is mapped shared, and stays in place. */
struct owner_meeting {
	_Atomic uint32_t theirs[OWNER_ENDS], ours[OWNER_ENDS];
	_Atomic uint32_t made, connected;
	uint32_t rkey;
	_Alignas(4096) uint8_t memory[OWNER_BYTES];
};

struct owner {
	pid_t pid;
	struct ibv_qp *qp
		[OWNER_ENDS]; /* ours, connected to its own; complete into the queue that was given */
};

extern struct owner_meeting *owner_meeting;

/* Once, before the first. */
int owner_prepare(void);
/* Its receives are of all of the memory: one each for queue pair 0, OWNER_SRQ and OWNER_UC. Before this process opens
 * anything. */
void owner_start(struct owner *owner);
void owner_connect(struct owner *owner, const struct rig *rig, struct ibv_cq *cq);
void owner_stop(const struct owner *owner);
void owner_continue(const struct owner *owner);
void owner_end(struct owner *owner); /* whether it lives still or not */

#endif
