/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What an executor of requests at a queue pair knows of it (responder.c): its line, its
 * receives and the ring of its completions. The requests of one requester are carried out one at a
 * time, under a lock of the carrier's; in all calls but weft_responder_find the busy line names the
 * responder's owner.
 */
#ifndef WEFT_NIC_RESPONDER_H
#define WEFT_NIC_RESPONDER_H

#include "nic/machine.h"
#include "nic/take.h"
#include "nic/transport.h"
#include "nic/wqe.h"
#include "pool/format_qp.h"
#include "pool/pool.h"

struct weft_lock;
struct weft_nic;
struct weft_qp;

/* The queue pair whose requests arrive. Nothing else of it is known here, wherever it is. */
struct weft_requester {
	struct weft_nic *nic; /* of the executor */
	struct weft_pool_qp
		*slot; /* its line, in which the executor notes receives used and faults found */
	uint32_t qpn, dest_qpn;
	uint32_t
		psn; /* of its first request, which its carrier has from the transition to RTS on */
	uint8_t dgid[16];
	uint8_t type;
	uint8_t rnr_timer; /* of the responder, code of 9.7.5.2.8; written here */
};

/* Good for as long as the responder's conn word stays the same. */
struct weft_responder {
	struct weft_requester from;
	struct weft_responder
		*peer; /* that is connected, and is told of faults: itself, but with XRC */
	struct weft_pool_qp *slot;
	struct weft_grant grant; /* was: the conn word */
	uint64_t busy_at;	 /* the executor's line while it is at work there */
	uint8_t *rq;
	struct weft_pool_ring *ring;
	struct weft_lock *ring_lock;
	uint64_t posted; /* as last seen */
	uint64_t taken;
	uint64_t domain; /* of keys: its owner and protection domain */
	uint64_t receive_domain;
	uint32_t tag, rq_mask, rq_stride, rq_sges, ring_mask, rq_epoch;
	uint8_t access, ring_bits;
	bool stamped;	    /* the ring wants to know when */
	uint16_t addressed; /* member + 1 that has had the destination GID since it was connected;
			       0: none */
	/* where it receives from a queue of which others take, too; posted is taken then */
	struct weft_take take;
	struct weft_pool_slot *held; /* taken, and not yet completed */
};

/* Whether the member has that address. */
bool weft_responder_has_gid(struct weft_pool *pool, uint16_t member, const uint8_t gid[16]);

/* Whether the owner has the destination GID, or had it once in this connection: that outlives
 * addresses. */
bool weft_responder_addressed(struct weft_responder *to);

/* For the carrier of that queue pair's requests: no queue pair is found yet. */
void weft_responder_begin(struct weft_responder *to, const struct weft_qp *qp);
/* The entry of the destination QPN. False: no such queue pair now. */
bool weft_responder_find(struct weft_responder *to);
/* Reads its line anew. False: it is not ready for these requests. */
bool weft_responder_read(struct weft_responder *to);

/* The connection ends: tells how many receives of the responder are used, in case that it comes
 * back. */
void weft_responder_leave(struct weft_responder *to);

/* Where a queue lies from which others take, too. False: nowhere. */
bool weft_responder_map_take(struct weft_pool *pool, struct weft_responder *to, uint64_t off,
			     uint64_t wake_off);
/* A receive from such a queue. */
const struct weft_pool_recv *weft_responder_take(struct weft_responder *to);
/* Forgets the receive that was taken so. */
void weft_responder_let_go(struct weft_responder *to);
/* The same without a busy line. */
void weft_responder_drop(struct weft_responder *to);

/* XRC: what a request may reach by the receive queue of that number, in the domain of the responder that is
 * connected. False: there is none, or its owner rehomes. */
bool weft_responder_queue(const struct weft_responder *to, uint32_t number,
			  struct weft_responder *queue);

/* What was reached last by way of a connection of XRC: all zero at first. */
struct weft_xrc_queue {
	struct weft_responder responder;
	uint64_t conn;	 /* of the responder that was connected then */
	uint32_t number; /* 0: of none */
};

static inline uint32_t weft_xrc_number(const struct weft_wqe *request)
{
	return weft_op_is_atomic(request->opcode) ? request->imm : request->remote_srqn;
}

/* Whether that is the queue of that number, by that connection, and it is still there. */
bool weft_xrc_knows(const struct weft_xrc_queue *q, const struct weft_responder *to,
		    uint32_t number);
/* Reads where its receives are, of one that weft_responder_queue has found. False: it is gone. */
bool weft_xrc_map(struct weft_xrc_queue *q, const struct weft_responder *to, uint32_t number);

/* The oldest receive that is posted and not used, or NULL. */
static inline const struct weft_pool_recv *weft_responder_receive(struct weft_responder *to)
{
	if (to->taken == to->posted) {
		if (to->take.at)
			return weft_responder_take(to);
		/* acquire: pairs with the release in weft_rq_post */
		to->posted = atomic_load_explicit(&to->slot->rq_posted, memory_order_acquire);
		if (to->taken == to->posted)
			return NULL;
	}
	return (const void *)(to->rq + (to->taken & to->rq_mask) * to->rq_stride);
}

/* Uses that receive up: its completion, with the bytes already in place. */
void weft_responder_complete(struct weft_responder *to, const struct weft_wqe *request,
			     uint64_t wr_id, uint32_t bytes, enum weft_wc_status status,
			     uint32_t thread);

/* Its queue pair has ended, or is not in the state any more in which it was found. Keys end with
 * their owner, too, just after its queue pairs: what is wrong then is that the responder is gone. */
static inline bool weft_responder_is_gone(const struct weft_responder *to)
{
	/* pairs with the release in end_mrs (lease.c) */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&to->slot->conn, memory_order_relaxed) != to->grant.was;
}

/* It is not ready: only because its owner rehomes? Not one whose host is silent, which may have died meanwhile. */
bool weft_responder_rehomes(const struct weft_responder *to);

/* Tells the owner of the queue pair that is connected that this one is in error. */
void weft_responder_blame(struct weft_responder *to, enum weft_event event);

#endif
