/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs (qp.c, attr.c). Their two queues: queues.h. */
#ifndef WEFT_NIC_QP_H
#define WEFT_NIC_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "nic/cause.h"
#include "nic/lock.h"
#include "nic/transport.h"
#include "nic/types.h"

struct weft_caller;
struct weft_cq;
struct weft_nic;
struct weft_pool;
struct weft_pool_qp;
struct weft_srq;

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
	bool tells_drained; /* of the transition to SQD */
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
	bool tries;   /* there, and counted in `ntrying` of the nic */
	bool visited; /* or taken off it while weft_nic_progress looks after it */
	/* a completion, as its queue was full (then written under the queue's lock); or an executor, left behind
	 * as memory was rehomed */
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
		fetching;	 /* requests with the transport; READs and atomics among them */
	uint32_t most_under_way; /* at present, at most what the transport says */
	uint64_t failed_at;	 /* the first that has ended in error; UINT64_MAX: none */
	enum weft_cause failed_of;
	const struct weft_transport
		*drains; /* the one of the connection before, which has yet to let go of requests */
	bool tells_drained; /* SQD: an event when nothing is under way */
	/* which has something of the connection in the pool until RESET; NULL: none has */
	const struct weft_transport *keeper;
	uint64_t hand_off; /* its struct weft_pool_hand; 0: no card carries its requests */
	/* of entries in return rings, 0: none count; requests before `returned` were taken from there. Guarded by
	 * send_cq's lock */
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
/* The effects of a checked transition. The api has merged the attributes. 0, -ENOMEM, -ENOSPC; -EINVAL: it has
 * failed meanwhile, and is not in `from` any more. */
int weft_qp_modify(struct weft_qp *qp, enum weft_qp_state from, enum weft_qp_state to,
		   const struct weft_qp_attr *attr, struct weft_caller *caller);
/* Error of the connection: peers are shut out, all that is outstanding is flushed. The lock is held. */
void weft_qp_fail(struct weft_qp *qp);
/* The same, with its event, if the peer has found it at fault or a completion of it was lost;
 * whether so. The lock is held. */
bool weft_qp_look(struct weft_qp *qp);

#endif
