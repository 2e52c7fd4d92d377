/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Receive queues from which many members take (struct weft_pool_srq): the owner's half. The
 * queue's lock comes after that of a completion queue, and guards all of it, and which queue pairs
 * receive from it.
 */
#ifndef WEFT_NIC_SRQ_H
#define WEFT_NIC_SRQ_H

#include "nic/lock.h"
#include "pool/sge.h"

struct weft_cq;
struct weft_cqe;
struct weft_nic;
struct weft_pool_slot;
struct weft_pool_srq;
struct weft_qp;

/* Its slots. Making the queue longer gives it more; those it had are used up first. */
struct weft_stretch {
	struct weft_stretch *next;
	struct weft_pool_srq *at;
	_Atomic uint64_t *claims;
	uint64_t off;
	uint64_t posted;
	uint64_t done; /* nothing below it is outstanding */
	uint32_t size;
	uint8_t size_bits;
};

struct weft_srq {
	struct weft_nic *nic;
	struct weft_lock lock;
	struct weft_stretch first, *last; /* posts go to the last */
	struct weft_pool_srq *at;	  /* of the first: what peers know it by */
	uint64_t made;			  /* the pool's age then */
	uint32_t outstanding, max_wr, max_sge;
	uint32_t limit;	    /* 0: not armed */
	struct weft_cq *cq; /* XRC: where all of it completes; else NULL */
	/* the oldest slot: while it is FREE nothing is complete, unless `late` says so; NULL: look. Written under
	 * the lock */
	struct weft_pool_slot *_Atomic oldest;
	uint32_t index; /* XRC: of its entry in the table of queue pairs */
	uint32_t stride;
	struct weft_srq *next; /* guarded by the nic's lock */
};

/* 0, -ENOMEM, -ENOSPC. */
int weft_srq_create(struct weft_nic *nic, struct weft_srq *q, uint32_t pd, uint32_t max_wr,
		    uint32_t max_sge);
/* Makes it known to peers by a number of its own, in a domain of XRC. 0, -ENOMEM, -ENOSPC. */
int weft_srq_number(struct weft_srq *q, struct weft_cq *cq, uint32_t xrcd, uint32_t *number);
/* All that have a number: while memory of this process is rehomed, takers wait. */
void weft_srq_publish_all(struct weft_nic *nic, bool rehoming);
/* Shuts peers out. */
void weft_srq_forget(struct weft_srq *q);
/* No queue pair receives from it. quiet: no executor that stands still may touch it any more. */
void weft_srq_destroy(struct weft_srq *q, bool quiet);
/*
 * How many it holds from now on. One caller at a time. 0; -EINVAL: more wait to be taken, or the limit
 * that is armed is higher; -ENOMEM, -ENOSPC.
 */
int weft_srq_resize(struct weft_srq *q, uint32_t max_wr);
/* A queue pair begins or ceases to receive from it. */
void weft_srq_join(struct weft_srq *q, struct weft_qp *qp);
void weft_srq_leave(struct weft_srq *q, const struct weft_qp *qp);

/* 0; -EINVAL (too many elements); -ENOMEM (full). thread: which may own the lock (nic/lock.h), here and below. */
int weft_srq_post(struct weft_srq *q, uint64_t wr_id, const struct weft_pool_sge *sge,
		  uint32_t num_sge, uint32_t thread);
/* One event when fewer than `limit` are left; 0: none (10.2.9.1). */
void weft_srq_arm(struct weft_srq *q, uint32_t limit);
/* As armed and not yet reached. */
uint32_t weft_srq_limit(const struct weft_srq *q);
/* The helper was signalled: which limits are reached. */
void weft_srq_limits(struct weft_nic *nic);
/* Takes the oldest completion of a completion queue, whose lock is held; *news: it was not told. */
bool weft_srq_take(struct weft_srq *q, const struct weft_cq *cq, struct weft_cqe *cqe, bool *news,
		   uint32_t thread);

/* Whether one would wake the queue, whose lock is held; tell: such as there are will not any more. */
bool weft_srq_look(struct weft_srq *q, const struct weft_cq *cq, bool tell);
/* Takes a receive back that no taker has completed, or will: the oldest. Peers are shut out. */
bool weft_srq_withdraw(struct weft_srq *q, uint64_t *wr_id);
/* What the dead have taken and not completed is posted again. */
void weft_srq_recover(struct weft_nic *nic);

#endif
