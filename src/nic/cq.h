/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion queues (cq.c, arm.c). Pushing and polling: complete.h. */
#ifndef WEFT_NIC_CQ_H
#define WEFT_NIC_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "nic/lock.h"

struct weft_nic;
struct weft_pool_alarm;
struct weft_pool_ring;
struct weft_qp;
struct weft_srq;

struct weft_cqe {
	uint64_t wr_id;
	struct weft_qp *qp;
	uint64_t position; /* in the send queue; of a source's: the QPN */
	uint32_t byte_len, imm;
	uint32_t src_qp; /* and above it the service level */
	uint8_t status, opcode, flags;
	uint8_t solicited;
	uint64_t stamp_ns; /* of queues that want it */
};

/* One ring that one member fills for this queue. */
struct weft_cq_ring {
	struct weft_cq_ring *next;
	struct weft_pool_ring *ring;
	uint64_t off;
	_Atomic uint64_t consumed; /* written under the lock */
	_Atomic uint64_t
		armed_at; /* completions from here on are news to the armed queue; as consumed */
	uint64_t
		older; /* of a return ring, under the lock: what stands before it is older than the receive that is next */
	uint64_t incarnation;	 /* of the producer */
	uint32_t size, promised; /* receives that may complete into it */
	uint16_t producer;
	uint8_t size_bits;
	bool stuck; /* its producer was stopped in the middle of something */
};

/* A receive queue from which queue pairs of this completion queue take. */
struct weft_cq_source {
	struct weft_cq_source *next;
	struct weft_srq *srq; /* NULL: no receive queue, but the return rings */
	uint32_t users;
};

struct weft_cq {
	struct weft_nic *nic;
	struct weft_lock lock;
	uint8_t armed; /* 0: not; 1: for any; 2: for solicited ones. A producer may have ended that since: see alarm */
	bool overrun;
	/* both set before the first use */
	bool ignores_overrun; /* what finds no room is dropped without an event */
	bool stamps;	      /* notes when each was completed */
	uint64_t polled_ns;   /* the stamp of the completion polled last */
	uint32_t
		size; /* completions it holds: what was asked for, as programs count on a full queue */
	uint32_t mask; /* of the private queue */
	_Atomic uint64_t head, tail;
	struct weft_cqe *cqe;
	struct weft_cq_ring *_Atomic rings, *_Atomic hot;
	_Atomic uint32_t turns;			/* written under the lock */
	struct weft_cq_source *_Atomic sources; /* written, and followed, under the lock */
	struct weft_pool_ring *wake; /* for those that complete into sources; NULL: not made yet */
	uint64_t wake_off;
	struct weft_pool_alarm *_Atomic alarm; /* NULL: never armed yet */
	uint64_t alarm_off, alarm_made;	       /* made: the pool's age */
	uint64_t bell_off; /* of its channel; 0: it has none. Set before the first use */
	struct weft_cq_ring *_Atomic returns; /* of cards (returns.h); written under the lock */
	struct weft_cq_ring
		*next_ring; /* whose receive at next_at is next; NULL: none. Under the lock */
	uint64_t next_at;
	/* guarded by the nic's lock: */
	struct weft_cq *armed_next;
	uint64_t suspect; /* a claim as it stood at the last look */
};

/* 0, -EINVAL (size), -ENOMEM. */
int weft_cq_create(struct weft_nic *nic, struct weft_cq *cq, uint32_t cqe);
/* No queue pair uses it any more. */
void weft_cq_destroy(struct weft_cq *cq);
/* 0, -EINVAL (size, or fewer than it holds), -ENOMEM. */
int weft_cq_resize(struct weft_cq *cq, uint32_t cqe);
/* arm.c. The next completion (solicited or in error, if only those) makes one event. 0; -ENOMEM, -ENOSPC: at
 * its first time only. */
int weft_cq_arm(struct weft_cq *cq, bool solicited_only, uint32_t thread);
/* Whether a producer has claimed the arming and so made an event, which is now the caller's. Any thread; the queue
 * is not being destroyed. */
bool weft_cq_take_event(struct weft_cq *cq);
/* For the files of the nic: as weft_nic_look, at one queue; its lock is held. */
void weft_cq_look(struct weft_cq *cq);
/* Likewise: makes the event, if it is still armed. */
void weft_cq_fire(struct weft_cq *cq);
/* As the queue is destroyed: nothing completes into it any more. */
void weft_cq_disarm(struct weft_cq *cq);

/* Takes what the rings hold into the private queue, behind what stands there. */
void weft_cq_drain(struct weft_cq *cq);
/* Forgets the completions of a queue pair. */
void weft_cq_purge(struct weft_cq *cq, struct weft_qp *qp);

#endif
