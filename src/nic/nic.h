/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The rules of an RDMA network card, over a pool: what its objects have in common. Freestanding: memory, waiting,
 * time and other processes' memory come through struct weft_machine. Each object has a header of its own: qp.h, cq.h,
 * srq.h, mr.h, mw.h, ah.h; requests stand in wqe.h.
 *
 * Objects belong to the api, which embeds them in its own and keeps them alive as long as verbs
 * demand. Locks: queue pair before completion queue before ring; each is private to the process.
 */
#ifndef WEFT_NIC_NIC_H
#define WEFT_NIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "nic/cause.h"
#include "nic/lock.h"
#include "nic/machine.h"
#include "nic/types.h"
#include "pool/doorbell.h"
#include "pool/pool.h"

struct weft_caller;
struct weft_cq;
struct weft_mw;
struct weft_qp;
struct weft_srq;
struct weft_transport;
struct weft_wqe;

/* What the nic tells the api above it, of objects that are the api's. */
struct weft_nic_api {
	/* A completion event for a queue that was armed; the queue's lock may be held. */
	void (*completion)(struct weft_cq *cq);
	/* The same, of which a producer should have told its channel long ago; it may yet: `lives`. */
	void (*overdue)(struct weft_cq *cq, bool lives);
	/* Whether an event of the queue waits of which its channel does not tell. The second such call in a row
	 * makes it tell. */
	bool (*unheard)(struct weft_cq *cq);
	/* An asynchronous event; locks of the object may be held. qp or cq is NULL. */
	void (*async)(struct weft_qp *qp, struct weft_cq *cq, enum weft_event event);
	/* A request has failed, and is about to be completed so; the queue pair's lock is held. */
	void (*failed)(const struct weft_qp *qp, const struct weft_wqe *wqe, enum weft_cause cause);
	/* Fewer receives than the limit are left; the queue's lock is held. */
	void (*limit_reached)(struct weft_srq *q);
};

/* By index of a key: the window that has it, and the windows bound to the region that has it. */
struct weft_window_entry {
	struct weft_mw *window, *bound;
};

#define WEFT_SIGNAL_LOCKS 64u

/* Where datagrams to a card wait for it (pool/outbox.h). */
struct weft_nic_outbox {
	uint64_t off; /* 0: never used */
	uint64_t incarnation;
	uint8_t sgid[16];
	uint16_t card;
};

struct weft_nic {
	struct weft_pool *pool;
	const struct weft_machine *machine;
	const struct weft_nic_api *api;
	const struct weft_transport *const *transports; /* in order of preference */
	bool within;	      /* no card carries anything to other hosts for it */
	bool tells_deaths;    /* of peers, also to queue pairs that have nothing under way */
	struct weft_qp **qps; /* by index of the QPN; WEFT_QPS of them */
	/* above the distance of each index that was ever used from where numbers begin; written under `lock` */
	_Atomic uint32_t qps_end;
	struct weft_window_entry *windows; /* WEFT_MRS of them */
	struct weft_lock window_lock;	   /* guards them; taken after a queue pair's */
	struct weft_srq **srq_of; /* from which each receives; guarded by the queue's lock */
	/* guards the list of queues that were ever armed and what enters and leaves `qps`; taken before a completion
	 * queue's */
	struct weft_lock lock;
	struct weft_cq *_Atomic armed;
	uint32_t
		looks; /* of weft_nic_look so far; guarded by the lock above, within which `unheard` is asked */
	struct weft_srq *srq;	       /* all queues; guarded by the lock above */
	struct weft_lock waiting_lock; /* taken after a queue pair's, unless that is only tried */
	struct weft_qp *waiting;
	/* queue pairs that wait; of them: that nothing tells when to go on; with a transport; of them: with a card */
	_Atomic uint32_t nwaiting, ntrying, nconnected, nhanded;
	_Atomic uint64_t
		under_way; /* requests, of those that weft_nic_progress looked after last */
	_Atomic uint64_t
		ended; /* that it has seen end, about: threads do not wait for each other */
	/* offset of the ring that was populated last, and in its low bits the logarithm of its size */
	_Atomic uint64_t ring_populated;
	struct weft_lock
		ring_lock[WEFT_SIGNAL_LOCKS]; /* threads of this process take turns on a ring */
	struct weft_lock doorbell_lock; /* and at the doorbells for cards; taken after all others */
	struct weft_lock
		outbox_lock; /* guards the outboxes, and what is put there; taken before that */
	struct weft_nic_outbox outbox[WEFT_OUTBOXES];
};

static inline void *weft_nic_alloc(const struct weft_nic *nic, size_t bytes)
{
	return nic->machine->alloc(nic->machine->context, bytes);
}

static inline void weft_nic_free(const struct weft_nic *nic, void *at)
{
	nic->machine->free(nic->machine->context, at);
}

static inline void weft_nic_yield(const struct weft_nic *nic)
{
	nic->machine->yield(nic->machine->context);
}

static inline void weft_nic_kick(const struct weft_nic *nic)
{
	nic->machine->kick(nic->machine->context);
}

static inline uint32_t weft_nic_self(const struct weft_nic *nic)
{
	return nic->machine->self(nic->machine->context);
}

static inline uint64_t weft_nic_stamp_ns(const struct weft_nic *nic)
{
	return nic->machine->stamp_ns(nic->machine->context);
}

/* Of a completion for that member. 0: another kernel counts from another moment, and its own poller stamps it. */
static inline uint64_t weft_nic_stamp_for(const struct weft_nic *nic, uint16_t member)
{
	return nic->pool->calls->near(nic->pool, member) ? weft_nic_stamp_ns(nic) : 0;
}

/* ---- What makes it go on ---- */

/* Tries again what waits, and ends what has waited too long. now_ns: by the clock of the machine's stamp_ns. The
 * next look is due in at most the returned time, UINT64_MAX: never. */
uint64_t weft_nic_progress(struct weft_nic *nic, struct weft_caller *caller, uint64_t now_ns);
/* The helper was signalled: queue pairs that their peers found at fault, and those whose completions were
 * lost, go to error. Whether some were locked: look again soon. */
bool weft_nic_faults(struct weft_nic *nic);
/* All queue pairs are to go that way at the next look: the pool is not this process's any more. */
void weft_nic_lose_all(struct weft_nic *nic);
/* A host has gone: all that are connected see whether their peer is there. Some may be at work: then true, and it is
 * to be called again. */
bool weft_nic_look_anew(struct weft_nic *nic);

/* The helper was signalled: armings that were claimed by producers that cannot tell the channel. */
void weft_nic_events(struct weft_nic *nic);
/* The helper looks at all queues that were armed: for completions of producers that have not told of them, as they
 * are dead or stand still, and for claims after which no channel was told. Whether to look again soon. */
bool weft_nic_look(struct weft_nic *nic);
/*
 * While memory of this process is rehomed no executor is at work here, nor do its own threads issue requests: hold
 * takes the locks of all queue pairs, sends peers away (WEFT_REHOMING) and waits for executors at work. One that
 * stands still is left behind: what it writes goes nowhere, and its queue pair is lost. Queue pairs must not come
 * and go.
 */
void weft_nic_hold(struct weft_nic *nic);
void weft_nic_let_go(struct weft_nic *nic);

#endif
