/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The send queue and the receive queue of a queue pair (submit.h, send.c, recv.c), and how large a queue is. */
#ifndef WEFT_NIC_QUEUES_H
#define WEFT_NIC_QUEUES_H

#include <stddef.h>

#include "nic/qp.h"
#include "nic/wqe.h"

struct weft_pool_sge;

/* How many slots a queue of so many elements has: a power of two, so that positions wrap by a mask. */
static inline uint32_t weft_queue_slots(uint32_t elements)
{
	uint32_t slots = 1;

	while (slots < elements)
		slots <<= 1;
	return slots;
}

static inline struct weft_wqe *weft_sq_slot(const struct weft_qp *qp, uint64_t position)
{
	return (struct weft_wqe *)(qp->sq + (position & (qp->sq_size - 1)) * qp->sq_stride);
}

/* Where the request is written that comes `ahead` behind the next; NULL: the queue is full (ENOMEM).
 * The lock is held. */
static inline struct weft_wqe *weft_sq_ahead(const struct weft_qp *qp, uint32_t ahead)
{
	uint64_t freed = atomic_load_explicit(&qp->sq_freed, memory_order_acquire);
	uint64_t position = qp->sq_posted + ahead;

	return position - freed < qp->cap.max_send_wr ? weft_sq_slot(qp, position) : NULL;
}

static inline struct weft_wqe *weft_sq_next(const struct weft_qp *qp)
{
	return weft_sq_ahead(qp, 0);
}

/* Whether requests may be posted at all: not in RESET, INIT, RTR. */
static inline bool weft_sq_open(const struct weft_qp *qp)
{
	return qp->state >= WEFT_QPS_RTS;
}

/* Whether the type of the queue pair has that operation (9.2.1, table 35). */
static inline bool weft_sq_has(const struct weft_qp *qp, uint32_t opcode)
{
	return opcode < WEFT_OPS && qp->opcodes >> opcode & 1;
}

/* For the files of the nic; the lock is held. Run: all that can be carried out now; true when
 * something is left. Wait: until it can be. */
bool weft_sq_run(struct weft_qp *qp, struct weft_caller *caller);
void weft_sq_wait(struct weft_qp *qp);
void weft_sq_stop_waiting(struct weft_qp *qp);
/* Flushes the queue, in ERR: at once, or when the transport that was left has let go of all requests. */
void weft_sq_flush(struct weft_qp *qp);
/* Whether the transport that was left has let go of all requests. */
bool weft_sq_drained(struct weft_qp *qp);
/* In SQD, with requests under way. */
bool weft_sq_is_draining(const struct weft_qp *qp);
/* In SQD: raises the event of a drained send queue, if it was asked for and nothing is under way. */
void weft_sq_tell_drained(struct weft_qp *qp);
void weft_rq_flush(struct weft_qp *qp);
void weft_rq_forget(struct weft_qp *qp); /* the same without telling */

/* The position of the request that is begun next. */
static inline uint64_t weft_sq_next_issue(const struct weft_qp *qp)
{
	return qp->sq_issued > qp->sq_done ? qp->sq_issued : qp->sq_done;
}

/* 0; -EINVAL (state, sge count), -ENOMEM (full). The lock is held. */
int weft_rq_post(struct weft_qp *qp, uint64_t wr_id, const struct weft_pool_sge *sge,
		 uint32_t num_sge, uint32_t thread);

#endif
