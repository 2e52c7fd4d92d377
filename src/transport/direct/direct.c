/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Carrying out the requests of a queue pair at a peer in the same pool. */
#include "nic/place.h"
#include "pool/step.h"
#include "transport/direct/busy.h"
#include "transport/direct/direct.h"
#include "transport/direct/peer.h"

#define ESRCH	  3
#define ENXIO	  6
#define EACCES	  13
#define ESTALE	  116
#define ETIMEDOUT 110

/* The way of a WRITE or READ from the queue to its bytes is one function, or a third of its time goes
 * into calls. */
#define HOT static inline __attribute__((always_inline))

/* One request on its way: what every step below needs. Passed by value, so that it stays in registers. */
struct job {
	struct weft_qp *qp;
	struct peer *peer;
	struct weft_wqe *wqe;
	struct weft_caller *caller;
	struct weft_spans *here; /* the bytes on this side */
	enum weft_cause *cause;
};

static enum weft_outcome fail_here(struct job job, enum weft_cause cause)
{
	*job.cause = cause;
	return WEFT_FAILED;
}

/* Keys end with their owner, too, just after its queue pairs: what is wrong then is that nobody is
 * there. */
static bool is_gone(const struct peer *p)
{
	/* pairs with the release in end_mrs (lease.c) */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&p->slot->conn, memory_order_relaxed) != p->right.was;
}

/* As a NAK does: both sides are in error. */
static enum weft_outcome blame(struct job job, enum weft_event event, enum weft_cause cause)
{
	/* the queue pair's own peer, whosever queue the request was for */
	weft_peer_blame(job.qp, weft_peer(job.qp), event);
	*job.cause = cause;
	return WEFT_FAILED;
}

/* Without reliability what the peer finds wrong is dropped (9.8.3): as if nobody were there. */
static enum weft_outcome fail_there(struct job job, enum weft_event event, enum weft_cause cause)
{
	if (is_gone(job.peer) || job.qp->type == WEFT_QPT_UC)
		return WEFT_NO_ANSWER;
	return blame(job, event, cause);
}

/* The owner of memory is gone or stopped: as silence on the wire. */
static bool is_silence(int err)
{
	return err == -ESRCH || err == -ETIMEDOUT;
}

static bool is_local(struct job job, const struct weft_span *span)
{
	return span >= job.here->span && span < job.here->span + WEFT_MAX_SGE;
}

/* Memory on this side is not mapped; or a member that shares a domain with us, or with the peer, moves its
 * memory, or has just taken it from us: the next look at the key tells. A READ may be done again where its bytes
 * were lost. */
static bool is_not_peers_fault(struct job job, int err, enum weft_outcome *outcome)
{
	const struct weft_span *failed = job.caller->failed;
	bool local = failed && is_local(job, failed);

	if (failed && (err == -ESRCH || (err == -ESTALE && local)))
		*outcome = WEFT_MOVES;
	else if (err == -ENXIO || local)
		*outcome = fail_here(job, WEFT_CAUSE_LOCAL_MEMORY);
	else
		return false;
	return true;
}

static __attribute__((noinline)) enum weft_outcome unreachable_memory(struct job job, int err)
{
	enum weft_outcome outcome;

	if (is_not_peers_fault(job, err, &outcome))
		return outcome;
	if (is_silence(err))
		return WEFT_NO_ANSWER;
	if (err == -ESTALE)
		return job.qp->type == WEFT_QPT_UC ? WEFT_NO_ANSWER : fail_here(job, WEFT_CAUSE_LEFT_BEHIND);
	return fail_there(job, WEFT_EVENT_QP_ACCESS_ERR,
			  err == -EACCES ? WEFT_CAUSE_REMOTE_KEY : WEFT_CAUSE_REMOTE_MEMORY);
}

HOT int place(struct job job, const struct weft_span *to, const struct weft_span *from)
{
	return weft_place(job.qp->nic, job.caller, &job.peer->right, to, from,
			  job.here->len_bytes);
}

/* The right is looked at once more: since the last time we may have been stopped, the queue pair taken
 * from us, its memory moved out of our reach (verbs/rehome.c), and its new place learned by another
 * thread of this process. */
HOT int place_there(struct job job, const struct weft_span *to, const struct weft_span *from)
{
	if (__builtin_expect(is_gone(job.peer), 0)) {
		job.caller->failed = NULL;
		return -ESRCH;
	}
	return place(job, to, from);
}

HOT int place_atomic(struct job job, const struct weft_span *at, bool add, uint64_t compare_add,
		     uint64_t swap, uint64_t *old)
{
	if (is_gone(job.peer)) {
		job.caller->failed = NULL;
		return -ESRCH;
	}
	return weft_place_atomic(job.qp->nic, job.caller, &job.peer->right, at, add, compare_add, swap,
				 old);
}

/* The receive that was taken is at fault; `used` elements of it were needed. */
static __attribute__((noinline)) enum weft_outcome bad_receive(struct job job,
								const struct weft_pool_recv *recv,
								uint64_t wr_id, uint32_t used,
								enum weft_cause cause)
{
	bool too_long = cause == WEFT_CAUSE_RECEIVE_LENGTH;
	bool unreliable = job.qp->type == WEFT_QPT_UC;
	uint32_t given = WEFT_NO_LKEY;

	/* too long for the receive: a datagram of an unreliable connection leaves that where it is
	 * (9.9.3, class D); only what is wrong with the receive itself fails its queue pair */
	if (is_gone(job.peer) || (unreliable && too_long)) {
		weft_peer_let_go(job.qp, job.peer);
		return WEFT_NO_ANSWER;
	}
	if (too_long)
		given = (uint32_t)job.here->len_bytes;
	else if (cause == WEFT_CAUSE_RECEIVE_KEY)
		given = weft_cause_lkey(job.qp->nic->pool, recv, used, job.peer->receive_holder);
	weft_peer_complete(job.qp, job.peer, job.wqe, wr_id, given,
			   too_long ? WEFT_WC_LOC_LEN_ERR : WEFT_WC_LOC_PROT_ERR, job.caller->thread);
	blame(job, too_long ? WEFT_EVENT_QP_REQ_ERR : WEFT_EVENT_QP_FATAL, cause);
	return unreliable ? WEFT_NO_ANSWER : WEFT_FAILED;
}

/* Of windows of type 2 at the peer. */
static uint64_t qp_window_holder(struct job job)
{
	return weft_holder(job.peer->right.member, job.qp->attr.dest_qpn | WEFT_PD_QP_WINDOW);
}

/* Of the receive that was taken: *used elements are needed. What is wrong: first the length, then keys. */
static __attribute__((noinline)) enum weft_cause find_list(struct job job,
							   const struct weft_pool_recv *recv,
							   struct weft_spans *there, uint32_t *used)
{
	uint64_t room = 0, bytes = job.here->len_bytes;
	struct peer *p = job.peer;

	/* what lies behind the last byte is not looked at */
	for (*used = 0; *used < recv->num_sge && *used < p->rq_sges && room < bytes; ++*used)
		room += recv->sge[*used].len_bytes;
	if (room < bytes)
		return WEFT_CAUSE_RECEIVE_LENGTH;
	if (!weft_spans_find(job.qp->nic->pool, job.caller, recv->sge, *used, p->receive_holder,
			     WEFT_ACCESS_LOCAL_WRITE, there))
		return WEFT_CAUSE_RECEIVE_KEY;
	/* the list may be damaged between two looks */
	return there->len_bytes < bytes ? WEFT_CAUSE_RECEIVE_LENGTH : WEFT_CAUSE_NONE;
}

/* The same, with little ado for one element. */
HOT enum weft_cause find_received(struct job job, const struct weft_pool_recv *recv,
				  struct weft_spans *there, uint32_t *used)
{
	uint64_t bytes = job.here->len_bytes;
	struct weft_pool_sge sge;

	if (__builtin_expect(recv->num_sge != 1 || !bytes, 0))
		return find_list(job, recv, there, used);
	sge = recv->sge[0];
	*used = 1;
	if (sge.len_bytes < bytes)
		return WEFT_CAUSE_RECEIVE_LENGTH;
	if (!weft_mr_find(job.qp->nic->pool, job.caller, sge.lkey, job.peer->receive_holder, sge.addr,
			  sge.len_bytes, WEFT_ACCESS_LOCAL_WRITE, &there->span[0]))
		return WEFT_CAUSE_RECEIVE_KEY;
	return WEFT_CAUSE_NONE;
}

static __attribute__((noinline)) enum weft_outcome undelivered(struct job job, int err,
								const struct weft_pool_recv *recv,
								uint64_t wr_id, uint32_t used)
{
	enum weft_outcome outcome;

	if (err == -ESTALE)
		return WEFT_MOVES; /* nobody looks into a receive before it is complete */
	if (is_not_peers_fault(job, err, &outcome))
		return outcome;
	if (is_silence(err))
		return WEFT_NO_ANSWER;
	return bad_receive(job, recv, wr_id, used, WEFT_CAUSE_RECEIVE_MEMORY);
}

HOT enum weft_outcome execute_send(struct job job)
{
	const struct weft_pool_recv *recv = weft_peer_receive(job.qp, job.peer);
	struct weft_counters *counters = &job.caller->line->counters;
	uint64_t wr_id, bytes = job.here->len_bytes, binding;
	bool ends = job.wqe->opcode == WEFT_OP_SEND_INV;
	struct weft_spans there;
	enum weft_cause cause;
	uint32_t used;
	int err;

	if (!recv)
		return WEFT_NO_RECEIVE;
	WEFT_STEP(direct_receive_found);
	if (ends && !weft_mw_find(job.qp->nic->pool, job.wqe->imm, qp_window_holder(job), &binding))
		return fail_there(job, WEFT_EVENT_QP_ACCESS_ERR, WEFT_CAUSE_REMOTE_INVALIDATE);
	wr_id = recv->wr_id;
	cause = find_received(job, recv, &there, &used);
	if (cause)
		return weft_find_later(job.caller) ? WEFT_MOVES :
						     bad_receive(job, recv, wr_id, used, cause);
	err = place_there(job, there.span, job.here->span);
	if (err)
		return undelivered(job, err, recv, wr_id, used);
	if (ends)
		weft_mw_end(job.qp->nic->pool, job.wqe->imm, binding);
	weft_peer_complete(job.qp, job.peer, job.wqe, wr_id, (uint32_t)bytes, WEFT_WC_SUCCESS,
			   job.caller->thread);
	counters->ops_send++;
	counters->bytes_send += bytes;
	return WEFT_DONE;
}

/* What is no region of the peer's domain may be a window. */
static __attribute__((noinline)) bool find_window(struct job job, uint64_t bytes, uint8_t access,
						  struct weft_span *span)
{
	struct weft_pool *pool = job.qp->nic->pool;
	struct weft_wqe *wqe = job.wqe;

	return weft_mr_find(pool, job.caller, wqe->rkey, job.peer->holder | (uint64_t)WEFT_PD_WINDOW << 32,
			    wqe->remote_addr, bytes, access, span) ||
	       weft_mr_find(pool, job.caller, wqe->rkey, qp_window_holder(job), wqe->remote_addr, bytes, access,
			    span);
}

/* The remote range of a one-sided request; one that moves no bytes needs no key (C9-88). False: it is
 * refused, as *outcome says. */
HOT bool find_remote(struct job job, uint64_t bytes, uint8_t access, struct weft_span *span,
		     enum weft_outcome *outcome)
{
	struct peer *p = job.peer;

	if (!(p->access & access)) {
		*outcome = fail_there(job, WEFT_EVENT_QP_REQ_ERR, WEFT_CAUSE_REMOTE_RIGHT);
		return false;
	}
	if (bytes &&
	    !weft_mr_find(job.qp->nic->pool, job.caller, job.wqe->rkey, p->holder,
			  job.wqe->remote_addr, bytes, access, span) &&
	    !find_window(job, bytes, access, span)) {
		*outcome = weft_find_later(job.caller) ?
				   WEFT_MOVES :
				   fail_there(job, WEFT_EVENT_QP_ACCESS_ERR, WEFT_CAUSE_REMOTE_KEY);
		return false;
	}
	return true;
}

HOT enum weft_outcome execute_write(struct job job)
{
	struct weft_counters *counters = &job.caller->line->counters;
	const struct weft_pool_recv *recv = NULL;
	uint64_t bytes = job.here->len_bytes;
	enum weft_outcome outcome;
	struct weft_span to;
	int err;

	if (!find_remote(job, bytes, WEFT_ACCESS_REMOTE_WRITE, &to, &outcome))
		return outcome;
	if (job.wqe->opcode == WEFT_OP_WRITE_IMM) {
		recv = weft_peer_receive(job.qp, job.peer);
		if (!recv)
			return WEFT_NO_RECEIVE;
	}
	err = place_there(job, &to, job.here->span);
	if (err)
		return unreachable_memory(job, err);
	WEFT_STEP(direct_written);
	if (recv)
		weft_peer_complete(job.qp, job.peer, job.wqe, recv->wr_id, (uint32_t)bytes,
				   WEFT_WC_SUCCESS, job.caller->thread);
	counters->ops_write++;
	counters->bytes_write += bytes;
	return WEFT_DONE;
}

HOT enum weft_outcome execute_read(struct job job)
{
	struct weft_counters *counters = &job.caller->line->counters;
	enum weft_outcome outcome;
	struct weft_span from;
	int err;

	if (!find_remote(job, job.here->len_bytes, WEFT_ACCESS_REMOTE_READ, &from, &outcome))
		return outcome;
	err = place(job, job.here->span, &from);
	if (err)
		return unreachable_memory(job, err);
	/* acquire: pairs with the releases of whoever wrote those bytes; the next READ sees no older ones
	 * (9.5), on Arm as well */
	atomic_thread_fence(memory_order_acquire);
	counters->ops_read++;
	counters->bytes_read += job.here->len_bytes;
	return WEFT_DONE;
}

/* What was there goes to this side. If that moves, it does so later: the operation is not done again. */
HOT enum weft_outcome answer_atomic(struct job job, uint64_t old)
{
	struct peer *own = weft_peer(job.qp);
	enum weft_outcome outcome;
	struct weft_span result;
	int err;

	weft_span_private(&result, &old, 8);
	err = weft_place(job.qp->nic, job.caller, NULL, job.here->span, &result, 8);
	if (err && !is_not_peers_fault(job, err, &outcome))
		return fail_here(job, WEFT_CAUSE_LOCAL_MEMORY);
	own->answer = old;
	own->has_answer = err && outcome == WEFT_MOVES;
	if (err)
		return outcome;
	job.caller->line->counters.ops_atomic++;
	return WEFT_DONE;
}

HOT enum weft_outcome execute_atomic(struct job job)
{
	struct weft_wqe *wqe = job.wqe;
	enum weft_outcome outcome;
	struct weft_span at;
	uint64_t old;
	int err;

	if (weft_peer(job.qp)->has_answer)
		return answer_atomic(job, weft_peer(job.qp)->answer);
	if (!find_remote(job, 8, WEFT_ACCESS_REMOTE_ATOMIC, &at, &outcome))
		return outcome;
	/* a zero-based region may begin anywhere, so that both count */
	if ((wqe->remote_addr | (at.at ? (uintptr_t)at.at : at.mr->va + at.start)) & 7)
		return fail_there(job, WEFT_EVENT_QP_REQ_ERR, WEFT_CAUSE_ALIGNMENT);
	err = place_atomic(job, &at, wqe->opcode == WEFT_OP_FETCH_ADD, wqe->compare_add, wqe->swap, &old);
	if (err)
		return unreachable_memory(job, err);
	WEFT_STEP(direct_atomic_done);
	WEFT_TURN(direct_atomic_done);
	return answer_atomic(job, old);
}

/* Eight bytes that nobody sees in part, wherever they lie (A19.4). */
static enum weft_outcome execute_atomic_write(struct job job)
{
	enum weft_outcome outcome;
	struct weft_span at, from;
	uint64_t value, old = 0, seen;
	int err;

	if (job.here->len_bytes != 8)
		return fail_here(job, WEFT_CAUSE_ATOMIC_LENGTH);
	if (!find_remote(job, 8, WEFT_ACCESS_REMOTE_WRITE, &at, &outcome))
		return outcome;
	if ((job.wqe->remote_addr | (at.at ? (uintptr_t)at.at : at.mr->va + at.start)) & 7)
		return fail_there(job, WEFT_EVENT_QP_REQ_ERR, WEFT_CAUSE_ALIGNMENT);
	weft_span_private(&from, &value, 8);
	err = place(job, &from, job.here->span);
	do {
		seen = old;
		if (!err)
			err = place_atomic(job, &at, false, seen, value, &old);
	} while (!err && old != seen);
	if (err)
		return unreachable_memory(job, err);
	job.caller->line->counters.ops_write++;
	job.caller->line->counters.bytes_write += 8;
	return WEFT_DONE;
}

static uint64_t listed_bytes(const struct weft_wqe *wqe)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < wqe->num_sge; i++)
		bytes += wqe->sge[i].len_bytes;
	return bytes;
}

/* The bytes of a request on this side. What is wrong: first their number, then a request that may never
 * be outstanding (with max_rd_atomic 0, as cards do), then keys. */
HOT enum weft_cause gather(struct job job)
{
	struct weft_pool *pool = job.qp->nic->pool;
	struct weft_wqe *wqe = job.wqe;
	uint64_t bytes;
	uint8_t access;
	bool found;

	if (wqe->flags & WEFT_SEND_INLINE) {
		job.here->len_bytes = wqe->len_bytes;
		weft_span_private(&job.here->span[0], weft_wqe_inline(wqe), wqe->len_bytes);
		return WEFT_CAUSE_NONE;
	}
	bytes = wqe->num_sge == 1 ? wqe->sge[0].len_bytes : listed_bytes(wqe);
	if (bytes > WEFT_MAX_MSG_BYTES || (weft_op_is_atomic(wqe->opcode) && bytes != 8))
		return weft_op_is_atomic(wqe->opcode) ? WEFT_CAUSE_ATOMIC_LENGTH :
							WEFT_CAUSE_MESSAGE_LENGTH;
	job.here->len_bytes = bytes;
	wqe->len_bytes = (uint32_t)bytes;
	access = 0;
	if (weft_op_fetches(wqe->opcode)) {
		if (!job.qp->attr.may_read)
			return WEFT_CAUSE_NO_READS;
		access = WEFT_ACCESS_LOCAL_WRITE;
	}
	if (wqe->num_sge != 1 || !bytes)
		found = weft_spans_find(pool, job.caller, wqe->sge, wqe->num_sge, job.qp->holder,
					access, job.here);
	else
		found = weft_mr_find(pool, job.caller, wqe->sge[0].lkey, job.qp->holder,
				     wqe->sge[0].addr, bytes, access, &job.here->span[0]);
	return found ? WEFT_CAUSE_NONE : WEFT_CAUSE_LOCAL_KEY;
}

static enum weft_outcome fail_gather(struct job job, enum weft_cause cause)
{
	return weft_find_later(job.caller) ? WEFT_MOVES : fail_here(job, cause);
}

/* What is wrong on this side is told although nobody answers. */
static __attribute__((noinline)) enum weft_outcome without_peer(struct job job)
{
	enum weft_cause cause = gather(job);

	if (cause)
		return fail_gather(job, cause);
	return weft_peer_moves(job.peer) ? WEFT_MOVES : WEFT_NO_ANSWER;
}

HOT enum weft_outcome carry_out(struct job job)
{
	enum weft_cause cause = gather(job);

	if (cause)
		return fail_gather(job, cause);
	switch ((enum weft_opcode)job.wqe->opcode) {
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
		return execute_write(job);
	case WEFT_OP_SEND:
	case WEFT_OP_SEND_IMM:
	case WEFT_OP_SEND_INV:
		return execute_send(job);
	case WEFT_OP_ATOMIC_WRITE:
		return execute_atomic_write(job);
	case WEFT_OP_READ:
		return execute_read(job);
	case WEFT_OP_CMP_SWAP:
	case WEFT_OP_FETCH_ADD:
		return execute_atomic(job);
	case WEFT_OP_LOCAL_INV: /* never come here */
	case WEFT_OP_BIND_MW:
	case WEFT_OPS:
		break;
	}
	return fail_here(job, WEFT_CAUSE_OPERATION);
}

HOT enum weft_outcome execute_alone(struct weft_qp *qp, struct weft_wqe *wqe,
					      struct weft_caller *caller,
					      enum weft_cause *cause)
{
	struct peer *p = weft_peer(qp);
	struct weft_spans here;
	struct job job = { qp, p, wqe, caller, &here, cause };
	enum weft_outcome outcome;
	uint64_t next;

	if (!p->slot && !weft_peer_find(qp, p))
		return without_peer(job);
	next = weft_busy_begin(caller, p->busy_at);
	if (__builtin_expect(
		    atomic_load_explicit(&p->slot->conn, memory_order_acquire) == p->right.was, 1) ||
	    weft_peer_read(qp, p))
		outcome = carry_out(job);
	else
		outcome = without_peer(job);
	WEFT_STEP(direct_done);
	weft_busy_end(caller, next);
	return outcome;
}

static enum weft_outcome execute(struct weft_qp *qp, struct weft_wqe *wqe,
				 struct weft_caller *caller, enum weft_cause *cause)
{
	enum weft_outcome outcome;

	if (__builtin_expect(!caller->shared, 1))
		return execute_alone(qp, wqe, caller, cause);
	weft_pool_share_lock(qp->nic->pool);
	outcome = execute_alone(qp, wqe, caller, cause);
	weft_pool_share_unlock(qp->nic->pool);
	return outcome;
}

/* Whom nobody answers, or who finds no receive, does not learn of it. */
static enum weft_outcome execute_unreliable(struct weft_qp *qp, struct weft_wqe *wqe,
					    struct weft_caller *caller, enum weft_cause *cause)
{
	return execute(qp, wqe, caller, cause) == WEFT_FAILED ? WEFT_FAILED : WEFT_DONE;
}

/* Whether the peer takes requests. Its queue may be another member's, at which they are carried out. */
static bool is_ready(struct weft_qp *qp, struct peer *p, struct weft_caller *caller)
{
	uint64_t next;
	bool ready;

	if (!p->slot && !weft_peer_find(qp, p))
		return false;
	next = weft_busy_begin(caller, p->busy_at);
	ready = atomic_load_explicit(&p->slot->conn, memory_order_acquire) == p->right.was ||
		weft_peer_read(qp, p);
	weft_busy_end(caller, next);
	return ready;
}

/* A queue pair of XRC: its peer, and what was reached last by way of that. */
struct xrc {
	struct peer peer;
	struct peer queue;
	uint64_t conn; /* of the peer, then */
	uint32_t number;
};

_Static_assert(sizeof(struct xrc) <= WEFT_TRANSPORT_STATE, "the queue pair has room for it");

static bool is_known(const struct xrc *x, uint32_t number)
{
	return x->number == number && x->conn == x->peer.right.was && !is_gone(&x->queue);
}

static bool map_queue(struct weft_qp *qp, struct xrc *x, uint32_t number)
{
	const struct weft_pool_qp *slot = x->queue.slot;

	x->number = 0;
	if (is_gone(&x->queue) ||
	    !weft_peer_map_seat(qp->nic->pool, &x->queue, slot->rq_off, slot->ring_off))
		return false;
	x->number = number;
	x->conn = x->peer.right.was;
	return true;
}

/* Keys and receives are those of the named queue's protection domain (A14). */
static enum weft_outcome execute_at_queue(struct job job, uint32_t number)
{
	struct xrc *x = (struct xrc *)job.qp->transport_state;
	enum weft_outcome outcome = WEFT_NO_ANSWER;
	bool known = is_known(x, number);
	uint64_t next;

	x->number = known ? number : 0;
	if (!known && !weft_peer_queue(job.qp, job.peer, number, &x->queue))
		return weft_peer_moves(&x->queue) ?
			       WEFT_MOVES :
			       blame(job, WEFT_EVENT_QP_REQ_ERR, WEFT_CAUSE_REMOTE_QUEUE);
	job.peer = &x->queue;
	next = weft_busy_begin(job.caller, x->queue.busy_at);
	if (known ? !is_gone(&x->queue) : map_queue(job.qp, x, number)) {
		outcome = carry_out(job);
		weft_peer_let_go(job.qp, &x->queue);
	}
	weft_busy_end(job.caller, next);
	return outcome;
}

static enum weft_outcome execute_xrc(struct weft_qp *qp, struct weft_wqe *wqe,
				     struct weft_caller *caller, enum weft_cause *cause)
{
	uint32_t number = weft_op_is_atomic(wqe->opcode) ? wqe->imm : wqe->remote_srqn;
	struct peer *p = weft_peer(qp);
	struct weft_spans here;
	struct job job = { qp, p, wqe, caller, &here, cause };
	enum weft_outcome outcome;

	if (caller->shared)
		weft_pool_share_lock(qp->nic->pool);
	outcome = is_ready(qp, p, caller) ? execute_at_queue(job, number) : without_peer(job);
	if (caller->shared)
		weft_pool_share_unlock(qp->nic->pool);
	return outcome;
}

static void connect(struct weft_qp *qp)
{
	struct peer *p = weft_peer(qp);

	__builtin_memset(p, 0, sizeof(*p));
	p->connected_at = atomic_load_explicit(&qp->slot->conn, memory_order_relaxed);
	/* it may lose the address before we have anything to send */
	if (weft_peer_find(qp, p))
		weft_peer_addressed(qp, p);
}

static void connect_xrc(struct weft_qp *qp)
{
	connect(qp);
	((struct xrc *)qp->transport_state)->number = 0;
}

static void disconnect(struct weft_qp *qp)
{
	struct peer *p = weft_peer(qp);

	if (p->held) {
		weft_pool_visit(qp->nic->pool, p->right.member);
		weft_peer_let_go(qp, p);
		weft_pool_depart(qp->nic->pool);
	}
	weft_peer_leave(qp, p);
	p->slot = NULL;
}

/* The peer may have gone since, and our line may have changed, but not the connection. */
static bool fault(struct weft_qp *qp, enum weft_event *event)
{
	uint32_t index = qp->attr.dest_qpn & (WEFT_QPS - 1);
	const struct weft_pool_qp *slot = &qp->nic->pool->qps[index];
	uint64_t conn;

	if (weft_pool_see_qp(qp->nic->pool, index))
		return false;
	/* acquire: pairs with the release in weft_peer_blame */
	conn = atomic_load_explicit(&slot->fault_conn, memory_order_acquire);
	if (conn <= weft_peer(qp)->connected_at || (conn & 0xffffff) != qp->attr.dest_qpn ||
	    slot->fault_qpn != qp->qpn)
		return false;
	*event = slot->fault_code;
	return true;
}

const struct weft_transport weft_direct = {
	.name = "direct",
	.connect = connect,
	.disconnect = disconnect,
	.execute = execute,
	.fault = fault,
};

const struct weft_transport weft_direct_unreliable = {
	.name = "direct",
	.connect = connect,
	.disconnect = disconnect,
	.execute = execute_unreliable,
	.fault = fault,
};

const struct weft_transport weft_direct_xrc = {
	.name = "direct",
	.connect = connect_xrc,
	.disconnect = disconnect,
	.execute = execute_xrc,
	.fault = fault,
};
