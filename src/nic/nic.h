/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The rules of an RDMA network card, over a pool. Freestanding: memory, waiting, time and other
 * processes' memory come through struct weft_machine.
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
#include "nic/errors.h"
#include "nic/lock.h"
#include "nic/machine.h"
#include "nic/transport.h"
#include "nic/types.h"
#include "pool/pool.h"
#include "pool/sge.h"

#define WEFT_MAX_SGE	   32u
#define WEFT_MAX_INLINE	   1024u
#define WEFT_MAX_WR	   32768u
#define WEFT_MAX_CQE	   (1u << 22)
#define WEFT_MAX_MSG_BYTES (1ull << 31)
#define WEFT_MTU	   4096u /* a datagram's most */
#define WEFT_GRH_BYTES	   40u
#define WEFT_QPN_MULTICAST 0xffffffu

struct weft_pool_ring;
struct weft_qp;
struct weft_cq;
struct weft_wqe;
struct weft_srq;

/* What the nic tells the api above it, of objects that are the api's. */
struct weft_nic_api {
	/* A completion event for a queue that was armed; the queue's lock may be held. */
	void (*completion)(struct weft_cq *cq);
	/* The same, of which a producer should have told its channel long ago; it may yet: `lives`. */
	void (*overdue)(struct weft_cq *cq, bool lives);
	/* Whether an event of the queue waits of which its channel does not tell; at the second call it does. */
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

struct weft_nic {
	struct weft_pool *pool;
	const struct weft_machine *machine;
	const struct weft_nic_api *api;
	const struct weft_transport *const *transports; /* in order of preference */
	struct weft_qp **qps;				/* by index of the QPN; WEFT_QPS of them */
	/* no index is that far from where numbers begin, nor was one; guarded as what enters them */
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
	/* queue pairs that wait; with a transport; of them: with a card */
	_Atomic uint32_t nwaiting, nconnected, nhanded;
	/* the ring of completions that was populated last, with how large it is below its offset */
	_Atomic uint64_t ring_populated;
	struct weft_lock
		ring_lock[WEFT_SIGNAL_LOCKS]; /* threads of this process take turns on a ring */
	struct weft_lock doorbell_lock;	      /* and at the doorbells for cards; the last of all */
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

/* ---- Work requests ---- */

/* Where datagrams go (10.2.3). The api keeps it until the requests that name it have completed. */
struct weft_ah {
	uint32_t pd;
	uint32_t flow_label;
	uint8_t sgid[16], dgid[16];
	uint8_t traffic_class, hop_limit;
	bool v2;	       /* RoCE v2: IP and UDP */
	struct weft_lock lock; /* guards what the transport knows of the destination */
	const struct weft_transport *_Atomic transport; /* set by weft_ah_find */
	void *carried;					/* its state of the destination */
};

/* A send request in the queue pair's private queue. sge or inline bytes follow. */
struct weft_wqe {
	uint64_t wr_id;
	uint8_t opcode, flags;
	uint16_t num_sge;
	uint32_t imm;
	union {
		uint64_t remote_addr;
		struct weft_ah *ah; /* UD */
	};
	union {
		uint32_t rkey;
		uint32_t remote_qpn; /* UD */
	};
	uint32_t len_bytes; /* inline: as posted; else once carried out */
	union {
		uint64_t compare_add;
		uint32_t remote_qkey; /* UD */
	};
	union {
		uint64_t swap;
		uint32_t remote_srqn; /* XRC; of atomics it is `imm` */
	};
	struct weft_pool_sge sge[];
};

static inline uint8_t *weft_wqe_inline(struct weft_wqe *wqe)
{
	return (uint8_t *)wqe->sge;
}

/* What WEFT_OP_BIND_MW shows by the key `rkey` to be. No bytes: it is unbound. */
struct weft_bind {
	uint64_t addr, len_bytes;
	uint32_t lkey, access;
};

static inline void weft_wqe_set_bind(struct weft_wqe *wqe, const struct weft_bind *bind)
{
	wqe->remote_addr = bind->addr;
	wqe->compare_add = bind->len_bytes;
	wqe->swap = (uint64_t)bind->lkey << 32 | bind->access;
}

static inline struct weft_bind weft_wqe_bind(const struct weft_wqe *wqe)
{
	return (struct weft_bind){wqe->remote_addr, wqe->compare_add, (uint32_t)(wqe->swap >> 32),
				  (uint32_t)wqe->swap};
}

/* ---- Completion queues (cq.c; pushing and polling: complete.h) ---- */

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
	uint8_t armed; /* 0, 1 any, 2 solicited; somebody else may have ended that: the alarm says so */
	bool overrun;
	/* both set before the first use */
	bool ignores_overrun; /* what finds no room is dropped, and nobody is told */
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
/* Whether somebody has claimed the arming and so made an event, which is now the caller's. Any thread; the
 * queue is not being destroyed. */
bool weft_cq_take_event(struct weft_cq *cq);
/* The helper was signalled: armings that were claimed by those that cannot tell the channel. */
void weft_nic_events(struct weft_nic *nic);
/* The helper looks at all queues that were armed: for completions of those that have not told of them, dead or
 * stopped, and for claims after which no channel was told. Whether to look again soon. */
bool weft_nic_look(struct weft_nic *nic);
/* For the files of the nic: the same of one queue, as far as it is known to be armed; its lock is held. */
void weft_cq_look(struct weft_cq *cq);
/* And: makes the event, if it is still armed; likewise. */
void weft_cq_fire(struct weft_cq *cq);
/* Is destroyed: nobody completes into it any more. */
void weft_cq_disarm(struct weft_cq *cq);

/* Takes what the rings hold into the private queue, behind what stands there. */
void weft_cq_drain(struct weft_cq *cq);
/* Forgets the completions of a queue pair. */
void weft_cq_purge(struct weft_cq *cq, struct weft_qp *qp);

/* ---- Queue pairs (qp.c, attr.c) ---- */

/* What a connection has been told, for the transport that carries its requests. */
struct weft_qp_attr {
	uint32_t dest_qpn;
	uint32_t sq_psn, rq_psn; /* WEFT_ANY_PSN: whatever the peer's is */
	uint8_t access;
	uint8_t max_rd_atomic, max_dest_rd_atomic; /* outstanding, as requester and as responder */
	uint8_t path_mtu;			   /* code of enum ibv_mtu */
	uint8_t sgid_index, hop_limit, traffic_class, service_level;
	uint32_t flow_label;
	uint8_t min_rnr_timer, rnr_retry, retry_cnt, timeout; /* codes of 9.7.5.2.8, 11.2.5.2 */
	uint8_t sgid[16], dgid[16];
	uint32_t qkey;
	bool tells_drained; /* of the move to SQD */
};

struct weft_qp_cap {
	uint32_t max_send_wr, max_recv_wr;
	uint32_t max_send_sge, max_recv_sge;
	uint32_t max_inline_bytes;
};

struct weft_qp {
	/* what posting touches, first */
	struct weft_lock lock;
	_Atomic uint8_t state; /* changes under the lock */
	uint8_t type;
	bool signal_all;
	bool waits;   /* on the waiting list, */
	bool visited; /* or for now off it, to be looked after */
	/* a completion: its queue was full, and this is written under that's lock; or a peer that was stopped:
	 * it was left behind when memory moved */
	atomic_bool lost;
	uint32_t qpn, pd;
	uint64_t domain; /* of our own keys (place.h) */
	uint32_t
		tag; /* of completions: the QPN, and the connection above it. Guarded by recv_cq's lock */
	struct weft_nic *nic;
	weft_issue *issue; /* of the transport, for this type */
	void *carried;	   /* the transport's state of this connection, or of the one before */
	uint8_t *sq;
	uint32_t sq_stride, sq_size;
	uint32_t opcodes; /* that its type has: a bit each */
	/* Requests before sq_done are complete. Those before sq_issued are with the transport, or have ended
	 * behind one that has not; while none is, sq_issued may lag behind. */
	uint64_t sq_posted, sq_done, sq_issued;
	_Atomic uint64_t sq_freed; /* by polling */
	struct weft_cq *send_cq, *recv_cq;
	struct weft_pool_qp *slot;
	const struct weft_transport *transport; /* NULL: not connected */

	uint8_t *rq;
	uint32_t rq_size, rq_stride;
	uint64_t rq_off;
	uint64_t made; /* the pool's age when the receive queue was */
	uint64_t rq_posted;
	uint64_t rq_completed;	   /* guarded by recv_cq's lock */
	_Atomic uint64_t rq_freed; /* by polling */

	struct weft_qp_attr attr;
	struct weft_qp_cap cap;
	struct weft_srq *srq; /* instead of a receive queue; NULL: none */
	uint32_t xrcd;	      /* of XRC_RECV */
	bool owns_srq;
	uint64_t ring_off;	/* in recv_cq; 0: none */
	uint8_t peer_rnr_timer; /* told by the transport */
	uint64_t deadline_ns;	/* 0: not begun */
	enum weft_outcome awaited;
	struct weft_qp *waiting_next;
	uint32_t index;
	uint32_t under_way,
		fetching;   /* requests with the transport; READs and atomics among them */
	uint64_t failed_at; /* the first that has ended in error; UINT64_MAX: none */
	enum weft_cause failed_of;
	const struct weft_transport
		*drains;    /* it has been left, and has yet to let go of requests */
	bool tells_drained; /* SQD: an event when nothing is under way */
	/* which has something of the connection in the pool until RESET; NULL: none has */
	const struct weft_transport *keeper;
	uint64_t hand_off; /* its struct weft_pool_hand; 0: no card carries its requests */
	/* of its successes in return rings, 0: none count; those taken are before `returned`. By send_cq's lock */
	uint32_t return_tag;
	uint64_t returned;
};

/*
 * cap holds what is wanted and then what is given; srq: NULL, or whence it receives. 0; -EINVAL (above a limit, no queue);
 * -ENOMEM; -ENOSPC (no number or no pool memory left).
 */
int weft_qp_create(struct weft_nic *nic, struct weft_qp *qp, enum weft_qp_type type, uint32_t pd,
		   struct weft_cq *send_cq, struct weft_cq *recv_cq, struct weft_srq *srq,
		   struct weft_qp_cap *cap, bool signal_all);
void weft_qp_destroy(struct weft_qp *qp);
/* For the files of the nic: the next number of an entry of ours. */
uint32_t weft_qp_number(const struct weft_pool *pool, struct weft_pool_qp *slot, uint32_t index);

/* Table 91 (11.2.5.2): may a queue pair of that type go from `from` to `to`, with which attributes
 * (bits of enum ibv_qp_attr_mask)? */
bool weft_qp_transition(enum weft_qp_type type, enum weft_qp_state from, enum weft_qp_state to,
			uint32_t *required, uint32_t *allowed);
/* The effects of a checked move. The api has merged the attributes. 0, -ENOMEM, -ENOSPC;
 * -EINVAL: it has failed meanwhile, and is not in `from` any more. */
int weft_qp_modify(struct weft_qp *qp, enum weft_qp_state from, enum weft_qp_state to,
		   const struct weft_qp_attr *attr, struct weft_caller *caller);
/* Error of the connection: peers are shut out, all that is outstanding is flushed. The lock is held. */
void weft_qp_fail(struct weft_qp *qp);
/* The same, with its event, if the peer has found it at fault or a completion of it was lost;
 * whether so. The lock is held. */
bool weft_qp_look(struct weft_qp *qp);

/*
 * While memory of ours moves nobody executes here, nor do we: hold takes the locks of all queue pairs,
 * sends peers away (WEFT_REHOMING) and waits for those that are at work. One that stands still is left behind:
 * what it writes goes nowhere, and its queue pair is lost. Queue pairs must not come and go.
 */
void weft_nic_hold(struct weft_nic *nic);
void weft_nic_let_go(struct weft_nic *nic);

/* ---- Posting (submit.h, send.c, recv.c) ---- */

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
/* In error: at once, or when the transport that was left has let go of all. */
void weft_sq_flush(struct weft_qp *qp);
/* Whether the transport that was left has. */
bool weft_sq_drained(struct weft_qp *qp);
/* In SQD, with requests under way. */
bool weft_sq_is_draining(const struct weft_qp *qp);
/* SQD: tells so if nothing is under way, and it was asked for. */
void weft_sq_tell_drained(struct weft_qp *qp);
void weft_rq_flush(struct weft_qp *qp);
void weft_rq_forget(struct weft_qp *qp); /* the same without telling */

/* The position of the request that is begun next. */
static inline uint64_t weft_sq_next_issue(const struct weft_qp *qp)
{
	return qp->sq_issued > qp->sq_done ? qp->sq_issued : qp->sq_done;
}

/* Tries again what waits, and ends what has waited too long. now_ns: by any clock that never goes back, and
 * the same for all calls. The next look is due in at most the returned time, UINT64_MAX: never. */
uint64_t weft_nic_progress(struct weft_nic *nic, struct weft_caller *caller, uint64_t now_ns);
/* The helper was signalled: queue pairs that their peers found at fault, and those whose completions were
 * lost, go to error. Whether some were locked: look again soon. */
bool weft_nic_faults(struct weft_nic *nic);

/* 0; -EINVAL (state, sge count), -ENOMEM (full). The lock is held. */
int weft_rq_post(struct weft_qp *qp, uint64_t wr_id, const struct weft_pool_sge *sge,
		 uint32_t num_sge, uint32_t thread);

/* ---- Regions (mr.c) ---- */

struct weft_mr {
	struct weft_nic *nic;
	uint32_t index, key;
	uint64_t pieces_off, pieces_bytes; /* in the pool, if they are many */
	uint64_t made;			   /* the pool's age */
};

struct weft_mr_piece {
	uint64_t va, len_bytes, off;
};

/* [va, va + len) seen as iova by a peer that has the key, in these pieces; what they leave out is in
 * place. One piece of WEFT_NOWHERE: it reads as zeros, and what is written is lost. */
struct weft_mr_drawing {
	uint32_t pd;
	uint8_t access;
	uint64_t iova, va, len_bytes;
	const struct weft_mr_piece *pieces;
	unsigned int npieces;
};

/* 0, -ENOSPC, -ENOMEM. */
int weft_mr_create(struct weft_nic *nic, struct weft_mr *mr, const struct weft_mr_drawing *drawing);
/* Gives the key of `old` to another region. 0; -ENOSPC, -EBUSY (a window shows it): all is as it was.
 * quiet: as weft_mr_revoke says. */
int weft_mr_replace(struct weft_mr *mr, struct weft_mr *old, const struct weft_mr_drawing *drawing,
		    bool *quiet);
/* Draws it anew by the same key, and the windows that show it: its pieces have changed, which nobody
 * saw (weft_nic_hold). */
void weft_mr_redraw(struct weft_mr *mr, const struct weft_mr_drawing *drawing);
/* The first half of revoke: true, and the key has ended; or a window is bound to the region (EBUSY). */
bool weft_mr_close(struct weft_mr *mr);
/* After this nobody reaches the region, but for one that is stopped: false then, and what the region
 * covers in the pool must be retired. */
bool weft_mr_revoke(struct weft_mr *mr);
/* Gives the key's entry back; after revoke, which said `quiet`. */
void weft_mr_destroy(struct weft_mr *mr, bool quiet);

/* For the files of the nic. The key that an entry gets next; makes the entry what others see, by that
 * key; ends its key, with or without waiting for those that use it (false: one stands still). */
uint32_t weft_mr_next_key(const struct weft_pool *pool, uint32_t index);
void weft_mr_publish(struct weft_pool *pool, uint32_t index, uint32_t key,
		     struct weft_pool_mr *entry);
void weft_mr_store_ended(struct weft_pool *pool, uint32_t index);
void weft_mw_redraw(const struct weft_mr *mr, const struct weft_pool_mr *entry);
bool weft_mr_end_key(struct weft_nic *nic, uint32_t index, uint64_t made);
void weft_mr_free_pieces(struct weft_nic *nic, uint64_t off, uint64_t bytes, bool quiet);

/* ---- Windows (mw.c) ---- */

struct weft_mw {
	struct weft_nic *nic;
	uint32_t index, pd;
	enum weft_mw_type type;
	/* guarded by the nic's window_lock, as are all below */
	uint32_t key; /* of the last binding */
	uint32_t
		parent; /* index of the region's key; 0: not bound, or ended by the peer and noticed */
	struct weft_mw *next;
	uint64_t pieces_off, pieces_bytes;
	uint64_t made; /* the pool's age at the binding */
};

/* A window that shows nothing yet. 0, -ENOSPC. */
int weft_mw_create(struct weft_nic *nic, struct weft_mw *mw, uint32_t pd, enum weft_mw_type type);
void weft_mw_destroy(struct weft_mw *mw);
/* Carries out WEFT_OP_BIND_MW or WEFT_OP_LOCAL_INV; the queue pair's lock is held. WEFT_DONE or
 * WEFT_FAILED with *cause. */
enum weft_outcome weft_mw_execute(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_cause *cause);

#endif
