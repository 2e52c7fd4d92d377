/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What this process knows of the peer of a queue pair (peer.c). The queue pair's lock is held. */
#ifndef WEFT_TRANSPORT_DIRECT_PEER_H
#define WEFT_TRANSPORT_DIRECT_PEER_H

#include "nic/nic.h"
#include "transport/direct/seat.h"

/* Good for as long as the peer's conn word stays the same. */
struct peer {
	struct weft_pool_qp *slot;
	struct weft_right right; /* was: the conn word */
	uint64_t busy_at; /* our line while we execute there */
	uint64_t connected_at; /* our own conn word before we were ready: older faults are not ours */
	uint8_t *rq;
	struct weft_pool_ring *ring;
	uint64_t posted; /* as last seen */
	uint64_t taken;
	uint64_t holder; /* of keys: its owner and protection domain */
	uint64_t receive_holder;
	uint32_t tag, rq_mask, rq_stride, rq_sges, ring_mask, rq_epoch;
	uint8_t access, ring_bits;
	bool stamped; /* the ring wants to know when */
	uint16_t addressed; /* member + 1 that has had the destination GID since we are connected; 0: none */
	/* where it receives from a queue of which we are not the only taker; posted is taken then */
	struct weft_seat seat;
	struct weft_pool_slot *held; /* taken, and not yet completed */
	/* of the oldest atomic request, which was carried out, but where its answer belongs has moved */
	uint64_t answer;
	bool has_answer;
};

_Static_assert(sizeof(struct peer) <= WEFT_TRANSPORT_STATE, "the queue pair has room for it");

static inline struct peer *weft_peer(struct weft_qp *qp)
{
	return (struct peer *)qp->transport_state;
}

/* Whether the member has that address. */
bool weft_peer_has_gid(struct weft_pool *pool, uint16_t member, const uint8_t gid[16]);

/* Whether the peer's owner has the destination GID, or had it once in this connection: that outlives
 * addresses. */
bool weft_peer_addressed(struct weft_qp *qp, struct peer *p);

/* The entry of the destination QPN. False: no such queue pair now. */
bool weft_peer_find(struct weft_qp *qp, struct peer *p);
/* Reads its line anew; the busy line names its owner. False: it is not ready for us. */
bool weft_peer_read(struct weft_qp *qp, struct peer *p);

/* The connection ends: tells how many receives of the peer are used, in case that we come back. */
void weft_peer_leave(struct weft_qp *qp, struct peer *p);

/* Where such a queue lies; the busy line names its owner. False: nowhere. */
bool weft_peer_map_seat(struct weft_pool *pool, struct peer *p, uint64_t off, uint64_t wake_off);
/* The same from a queue of which we are not the only taker. */
const struct weft_pool_recv *weft_peer_take(struct weft_qp *qp, struct peer *p);
/* Forgets the receive that was taken so. The busy line names its owner. */
void weft_peer_let_go(struct weft_qp *qp, struct peer *p);

/* XRC: what a request may reach by the receive queue of that number, in the domain of the peer. False:
 * there is none, or its owner's memory moves. */
bool weft_peer_queue(struct weft_qp *qp, const struct peer *p, uint32_t number, struct peer *queue);

/* The oldest receive that the peer has posted and we have not used, or NULL. */
static inline const struct weft_pool_recv *weft_peer_receive(struct weft_qp *qp, struct peer *p)
{
	if (p->taken == p->posted) {
		if (p->seat.at)
			return weft_peer_take(qp, p);
		/* acquire: pairs with the release in weft_rq_post */
		p->posted = atomic_load_explicit(&p->slot->rq_posted, memory_order_acquire);
		if (p->taken == p->posted)
			return NULL;
	}
	return (const void *)(p->rq + (p->taken & p->rq_mask) * p->rq_stride);
}

/* Uses that receive up: its completion, with the bytes already in place. */
void weft_peer_complete(struct weft_qp *qp, struct peer *p, const struct weft_wqe *wqe,
			uint64_t wr_id, uint32_t bytes, enum weft_wc_status status,
			uint32_t thread);

/* It is not ready for us: only because its owner's memory moves? */
static inline bool weft_peer_moves(const struct peer *p)
{
	return p->slot && (atomic_load_explicit(&p->slot->conn, memory_order_relaxed) >> 24 & 0xff) ==
				  WEFT_CONN_MOVES;
}

/* Tells the peer's owner that its queue pair is in error. */
void weft_peer_blame(struct weft_qp *qp, struct peer *p, enum weft_event event);

#endif
