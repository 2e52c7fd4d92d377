/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The requester's half of carrying out requests at a responder in the same pool: the bytes on this
 * side, and what became of each request. The responder's half is nic/arrive.h. */
#include "nic/arrive.h"
#include "nic/busy.h"
#include "nic/gather.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "pool/address.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"
#include "pool/sizes.h"
#include "pool/slice.h"
#include "transport/direct/direct.h"

/* The way of a WRITE or READ from the queue to its bytes is one function, or a third of its time
 * goes into calls. */
#define HOT static inline __attribute__((always_inline))

/* What a connected queue pair has for this transport. */
struct direct {
	struct weft_responder to;
	uint64_t connected_at; /* our own conn word before we were ready: older faults are not ours
				*/
	/* of the oldest atomic request, which was carried out while the memory for its answer was being rehomed */
	uint64_t answer;
	union {
		struct {
			bool has_answer;
			bool asks_owner; /* its atomics are the peer's helper's */
		};
		uint16_t aside; /* either */
	};
	uint32_t begun_ms; /* when the present ask was first looked at; 0: not yet */
	uint32_t several;  /* requests that one ask is for; 0: at most one is under way */
	/* of the requests that are under way; without one it is all zeros */
	struct weft_later later;
};

/* A queue pair of XRC. */
struct xrc {
	struct direct direct;
	struct weft_xrc_queue queue;
};

static inline struct direct *direct_of(struct weft_qp *qp)
{
	return qp->carried;
}

static enum weft_outcome fail_here(struct weft_arrival a, enum weft_cause cause)
{
	*a.cause = cause;
	return WEFT_FAILED;
}

/* there: the bytes of the receive, unless they were not found for a cause. */
HOT enum weft_outcome deliver(struct weft_arrival a, const struct weft_arrive_receive *landing,
			      enum weft_cause fault, const struct weft_span *there)
{
	int err;

	if (fault)
		return weft_arrive_not_found(WEFT_ASIDE(a), landing, fault);
	err = weft_arrive_place(a, there);
	if (err)
		return weft_arrive_undelivered(WEFT_ASIDE(a), landing, err);
	weft_arrive_end_send(a, landing);
	return WEFT_DONE;
}

/* Apart, as is carry_out_list: a frame has room for one list of spans (tools/check-freestanding.py). */
static __attribute__((__noinline__)) enum weft_outcome
deliver_list(const struct weft_arrival *a, struct weft_arrive_receive *landing)
{
	struct weft_spans there;
	enum weft_cause fault = weft_arrive_find_list(a, landing, &there);

	return deliver(*a, landing, fault, there.span);
}

HOT enum weft_outcome execute_send(struct weft_arrival a)
{
	struct weft_arrive_receive landing;
	struct weft_span there;
	enum weft_outcome outcome = weft_arrive_begin_send(a, &landing);
	enum weft_cause fault;

	if (outcome != WEFT_DONE)
		return outcome;
	if (!weft_arrive_is_single(a, &landing))
		return deliver_list(WEFT_ASIDE(a), &landing);
	fault = weft_arrive_find_received(a, &landing, &there);
	return deliver(a, &landing, fault, &there);
}

HOT enum weft_outcome execute_write(struct weft_arrival a)
{
	const struct weft_pool_recv *recv;
	struct weft_span to;
	enum weft_outcome outcome = weft_arrive_begin_write(a, &to, &recv);
	int err;

	if (outcome != WEFT_DONE)
		return outcome;
	err = weft_arrive_place(a, &to);
	if (err)
		return weft_arrive_unreachable(WEFT_ASIDE(a), err);
	weft_arrive_end_write(a, recv);
	return WEFT_DONE;
}

HOT enum weft_outcome execute_read(struct weft_arrival a)
{
	struct weft_span from;
	enum weft_outcome outcome = weft_arrive_begin_read(a, &from);
	int err;

	if (outcome != WEFT_DONE)
		return outcome;
	err = weft_arrive_fetch(a, &from);
	if (err)
		return weft_arrive_unreachable(WEFT_ASIDE(a), err);
	weft_arrive_end_read(a);
	return WEFT_DONE;
}

/* The old value goes to this side, or later if that is being rehomed: the operation is not done again. */
HOT enum weft_outcome answer_atomic(struct weft_arrival a, uint64_t old)
{
	enum weft_outcome outcome;
	struct weft_span result;
	int err;

	weft_span_private(&result, &old, 8);
	err = weft_place(a.nic, a.caller, NULL, a.here, &result, 8);
	if (err && !weft_arrive_is_own_fault(WEFT_ASIDE(a), err, &outcome))
		return fail_here(a, WEFT_CAUSE_LOCAL_MEMORY);
	((struct direct *)a.to->peer)->answer = old;
	((struct direct *)a.to->peer)->has_answer = err && outcome == WEFT_REHOMING;
	if (err)
		return outcome;
	a.caller->line->counters.ops_atomic++;
	return WEFT_DONE;
}

static __attribute__((__noinline__)) enum weft_outcome
execute_atomic_aside(const struct weft_arrival *arrival)
{
	const struct weft_arrival a = *arrival;
	const struct direct *d = (const struct direct *)a.to->peer;
	enum weft_outcome outcome;
	struct weft_span at;
	uint64_t old;
	int err = -ESRCH;

	if (d->has_answer)
		return answer_atomic(a, d->answer);
	outcome = weft_arrive_begin_atomic(a, WEFT_ACCESS_REMOTE_ATOMIC, &at);
	if (outcome != WEFT_DONE)
		return outcome;
	a.caller->failed = NULL;
	if (!weft_responder_is_gone(a.to))
		err = weft_place_atomic_slow(a.nic, a.caller, &a.to->grant, &at,
					     a.request->opcode == WEFT_OP_FETCH_ADD,
					     a.request->compare_add, a.request->swap, &old);
	return err ? weft_arrive_unreachable(WEFT_ASIDE(a), err) : answer_atomic(a, old);
}

HOT enum weft_outcome execute_atomic(struct weft_arrival a)
{
	enum weft_outcome outcome;
	struct weft_span at;
	uint64_t old;
	int err;

	if (((struct direct *)a.to->peer)->aside)
		return execute_atomic_aside(WEFT_ASIDE(a));
	outcome = weft_arrive_begin_atomic(a, WEFT_ACCESS_REMOTE_ATOMIC, &at);
	if (outcome != WEFT_DONE)
		return outcome;
	err = weft_arrive_atomic(a, &at, a.request->opcode == WEFT_OP_FETCH_ADD,
				 a.request->compare_add, a.request->swap, &old);
	if (err)
		return weft_arrive_unreachable(WEFT_ASIDE(a), err);
	WEFT_STEP(direct_atomic_done);
	WEFT_TURN(direct_atomic_done);
	return answer_atomic(a, old);
}

static enum weft_outcome execute_atomic_write(struct weft_arrival a)
{
	enum weft_outcome outcome;
	struct weft_grant waits = a.to->grant;
	struct weft_span at, operand;
	uint64_t value;
	int err;

	if (a.len_bytes != 8)
		return fail_here(a, WEFT_CAUSE_ATOMIC_LENGTH);
	outcome = weft_arrive_begin_atomic(a, WEFT_ACCESS_REMOTE_WRITE, &at);
	if (outcome != WEFT_DONE)
		return outcome;
	weft_span_private(&operand, &value, 8);
	/* the bytes go to this frame, so that the call has to wait for them */
	waits.later = 0;
	err = weft_place(a.nic, a.caller, &waits, &operand, a.here, 8);
	err = err ? err : weft_arrive_atomic_write(WEFT_ASIDE(a), &at, value);
	return err ? weft_arrive_unreachable(WEFT_ASIDE(a), err) : WEFT_DONE;
}

HOT enum weft_outcome execute(struct weft_arrival a)
{
	switch ((enum weft_opcode)a.request->opcode) {
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
		return execute_write(a);
	case WEFT_OP_SEND:
	case WEFT_OP_SEND_IMM:
	case WEFT_OP_SEND_INV:
		return execute_send(a);
	case WEFT_OP_ATOMIC_WRITE:
		return execute_atomic_write(a);
	case WEFT_OP_READ:
		return execute_read(a);
	case WEFT_OP_CMP_SWAP:
	case WEFT_OP_FETCH_ADD:
		return execute_atomic(a);
	case WEFT_OP_LOCAL_INV: /* never come here */
	case WEFT_OP_BIND_MW:
	case WEFT_OPS:
		break;
	}
	return fail_here(a, WEFT_CAUSE_OPERATION);
}

/* Called by those that have a list of spans in their frame. */
static __attribute__((__noinline__)) enum weft_outcome execute_rare(const struct weft_arrival *a)
{
	return execute(*a);
}

/* What is wrong on this side is told although no answer comes. */
static __attribute__((__noinline__)) enum weft_outcome without_responder(struct weft_qp *qp,
									 struct weft_wqe *wqe,
									 struct weft_caller *caller,
									 enum weft_cause *cause)
{
	struct weft_spans here;

	*cause = weft_gather(qp, wqe, caller, &here);
	if (*cause)
		return weft_gather_failed(caller);
	/* the responder has answered: what has become of it since does not matter */
	if (direct_of(qp)->has_answer && weft_op_is_atomic(wqe->opcode))
		return execute_rare(&(struct weft_arrival){qp->nic, &direct_of(qp)->to, wqe, caller,
							   here.span, here.len_bytes, here.n,
							   cause});
	return weft_responder_rehomes(&direct_of(qp)->to) ? WEFT_REHOMING : WEFT_NO_ANSWER;
}

static __attribute__((__noinline__)) enum weft_outcome
carry_out_list(struct weft_qp *qp, struct weft_responder *to, struct weft_wqe *wqe,
	       struct weft_caller *caller, enum weft_cause *cause)
{
	struct weft_spans here;

	*cause = weft_gather(qp, wqe, caller, &here);
	if (*cause)
		return weft_gather_failed(caller);
	return execute_rare(&(struct weft_arrival){qp->nic, to, wqe, caller, here.span,
						   here.len_bytes, here.n, cause});
}

/* At the responder that is connected, or at a queue that the request names. */
HOT enum weft_outcome carry_out(struct weft_qp *qp, struct weft_responder *to, struct weft_wqe *wqe,
				struct weft_caller *caller, enum weft_cause *cause)
{
	struct weft_span here;
	enum weft_cause fault;

	if (__builtin_expect(!weft_gather_is_single(wqe), 0))
		return carry_out_list(qp, to, wqe, caller, cause);
	fault = weft_gather_single(qp, wqe, caller, &here);
	if (fault) {
		*cause = fault;
		return weft_gather_failed(caller);
	}
	return execute(
		(struct weft_arrival){qp->nic, to, wqe, caller, &here, here.len_bytes, 1, cause});
}

static bool find_changed(struct weft_qp *qp, struct direct *d)
{
	bool ready;

	/* what was placed was placed for another receive, or another queue pair */
	weft_later_drop(qp->nic, &d->later);
	d->to.from.psn = qp->attr.sq_psn;
	ready = weft_responder_read(&d->to);
	qp->peer_rnr_timer = d->to.from.rnr_timer;
	return ready;
}

HOT enum weft_outcome issue_direct_alone(struct weft_qp *qp, struct weft_wqe *wqe,
					 struct weft_caller *caller, enum weft_cause *cause)
{
	struct direct *d = direct_of(qp);
	enum weft_outcome outcome;
	uint64_t next;

	if (!d->to.slot && !weft_responder_find(&d->to))
		return without_responder(qp, wqe, caller, cause);
	next = weft_busy_begin(caller, d->to.busy_at);
	if (__builtin_expect(atomic_load_explicit(&d->to.slot->conn, memory_order_acquire) ==
				     d->to.grant.was,
			     1) ||
	    find_changed(qp, d))
		outcome = carry_out(qp, &d->to, wqe, caller, cause);
	else
		outcome = without_responder(qp, wqe, caller, cause);
	WEFT_STEP(direct_done);
	weft_busy_end(caller, next);
	return outcome;
}

static enum weft_outcome issue_direct(struct weft_qp *qp, struct weft_wqe *wqe,
				      struct weft_caller *caller, enum weft_cause *cause)
{
	return weft_gather_issue(issue_direct_alone, qp, wqe, caller, cause);
}

/* ---- Small WRITEs to memory of a device that wait together ---- */

/* A copy of more bytes takes longer than to begin it. */
#define SMALL_BYTES 4096u

static uint32_t small_bytes(const struct weft_wqe *wqe)
{
	return wqe->flags & WEFT_SEND_INLINE ? wqe->len_bytes : wqe->sge[0].len_bytes;
}

static bool is_small_write(const struct weft_wqe *wqe)
{
	return wqe->opcode == WEFT_OP_WRITE && weft_gather_is_single(wqe) && small_bytes(wqe) &&
	       small_bytes(wqe) <= SMALL_BYTES;
}

/* Of this host, at an address of this process. */
static bool lies_here(struct weft_pool *pool, const struct weft_span *span)
{
	return span->at ||
	       (!weft_span_is_foreign(span) && !weft_mr_on_device(weft_span_mr(pool, span)));
}

/* All checks that carrying it out would make, without what they would tell. */
static bool may_join(struct weft_qp *qp, struct weft_responder *to, struct weft_wqe *wqe,
		     struct weft_caller *caller, struct weft_span *from, struct weft_span *there)
{
	struct weft_pool *pool = qp->nic->pool;

	return is_small_write(wqe) && to->access & WEFT_ACCESS_REMOTE_WRITE &&
	       !weft_gather_single(qp, wqe, caller, from) && lies_here(pool, from) &&
	       weft_mr_find(pool, caller, wqe->rkey, to->domain, wqe->remote_addr, from->len_bytes,
			    WEFT_ACCESS_REMOTE_WRITE, there) &&
	       !there->at && !weft_span_is_foreign(there) &&
	       weft_mr_on_device(weft_span_mr(pool, there));
}

/*
 * Has the machine keep the bytes of the next requests, as many as may go together: they are small, their rights hold, and
 * their bytes go from this host to one region of a device in another process. Nothing is told to either side, and
 * what is kept is carried out anew when it has been asked for (struct weft_later). How many. Nothing is under way; the
 * caller has a busy line since before `to` was seen ready.
 */
static unsigned int gather_several(struct weft_qp *qp, struct weft_responder *to,
				   struct weft_later *later, struct weft_caller *caller)
{
	uint64_t position = weft_sq_next_issue(qp);
	struct weft_span from, there;
	uint16_t kept = 0;

	*later = (struct weft_later){0};
	while (to->grant.member != qp->nic->pool->me && position < qp->sq_posted &&
	       may_join(qp, to, weft_sq_slot(qp, position), caller, &from, &there)) {
		later->gathers = (uint16_t)from.len_bytes;
		later->done = 0;
		weft_place_scattered(qp->nic, caller, &to->grant, &there, &from, from.len_bytes);
		later->gathers = 0;
		if (later->gathered == kept)
			break;
		kept = later->gathered;
		position++;
	}
	later->done = 0;
	return kept;
}

/* WEFT_UNDER_WAY, or nothing goes together: anything else. */
static enum weft_outcome ask_several(struct weft_qp *qp, struct weft_wqe *wqe,
				     struct weft_caller *caller, enum weft_cause *cause)
{
	struct direct *d = direct_of(qp);
	unsigned int kept = 0;
	uint64_t next;

	if (weft_sq_next_issue(qp) + 1 >= qp->sq_posted || !d->to.slot)
		return WEFT_DONE;
	next = weft_busy_begin(caller, d->to.busy_at);
	if (atomic_load_explicit(&d->to.slot->conn, memory_order_acquire) == d->to.grant.was)
		kept = gather_several(qp, &d->to, &d->later, caller);
	if (kept > 1) {
		qp->nic->machine->ask_gathered(qp->nic->machine->context, &d->later);
		d->several = qp->most_under_way = kept;
	}
	WEFT_STEP(device_several_asked);
	weft_busy_end(caller, next);
	return kept > 1 ? WEFT_UNDER_WAY : WEFT_DONE;
}

/* Small WRITEs that wait while one is under way go together. Those behind the first are not issued but counted. */
static enum weft_outcome issue_several(struct weft_qp *qp, struct weft_wqe *wqe,
				       struct weft_caller *caller, enum weft_cause *cause)
{
	if (direct_of(qp)->several ||
	    weft_gather_issue(ask_several, qp, wqe, caller, cause) == WEFT_UNDER_WAY)
		return WEFT_UNDER_WAY;
	weft_later_drop(qp->nic, &direct_of(qp)->later);
	qp->issue = issue_direct;
	return issue_direct(qp, wqe, caller, cause);
}

/* A sender that gets no answer, or that finds no receive, does not learn of it. */
static enum weft_outcome issue_direct_unreliable(struct weft_qp *qp, struct weft_wqe *wqe,
						 struct weft_caller *caller, enum weft_cause *cause)
{
	enum weft_outcome outcome = issue_direct(qp, wqe, caller, cause);

	return outcome == WEFT_FAILED || outcome == WEFT_UNDER_WAY ? outcome : WEFT_DONE;
}

/* Whether the peer takes requests. Its queue may be another member's, at which they are carried
 * out. */
static bool is_ready(struct weft_qp *qp, struct direct *d, struct weft_caller *caller)
{
	uint64_t next;
	bool ready;

	if (!d->to.slot && !weft_responder_find(&d->to))
		return false;
	next = weft_busy_begin(caller, d->to.busy_at);
	ready = atomic_load_explicit(&d->to.slot->conn, memory_order_acquire) == d->to.grant.was ||
		find_changed(qp, d);
	weft_busy_end(caller, next);
	return ready;
}

/* What was begun there has to begin anew. */
static void forget_queue(struct direct *d, struct weft_xrc_queue *q)
{
	weft_later_drop(d->to.from.nic, &d->later);
	weft_responder_drop(&q->responder);
}

/* Keys and receives are those of the named queue's protection domain (A14). */
static enum weft_outcome execute_at_queue(struct weft_qp *qp, struct weft_wqe *wqe,
					  struct weft_caller *caller, enum weft_cause *cause)
{
	struct weft_responder *to = &((struct xrc *)qp->carried)->direct.to;
	struct weft_xrc_queue *q = &((struct xrc *)qp->carried)->queue;
	uint32_t number = weft_xrc_number(wqe);
	enum weft_outcome outcome = WEFT_NO_ANSWER;
	bool known = weft_xrc_knows(q, to, number);
	uint64_t next;

	q->number = known ? number : 0;
	if (!known)
		forget_queue(qp->carried, q);
	if (!known && !weft_responder_queue(to, number, &q->responder)) {
		if (weft_responder_rehomes(&q->responder))
			return WEFT_REHOMING;
		*cause = WEFT_CAUSE_REMOTE_QUEUE;
		weft_responder_blame(to, WEFT_EVENT_QP_REQ_ERR);
		return WEFT_FAILED;
	}
	weft_later_attach(&q->responder.grant, &direct_of(qp)->later);
	next = weft_busy_begin(caller, q->responder.busy_at);
	if (known ? !weft_responder_is_gone(&q->responder) : weft_xrc_map(q, to, number)) {
		outcome = carry_out(qp, &q->responder, wqe, caller, cause);
		if (outcome != WEFT_UNDER_WAY)
			weft_responder_let_go(&q->responder);
	}
	weft_busy_end(caller, next);
	return outcome;
}

static enum weft_outcome issue_xrc(struct weft_qp *qp, struct weft_wqe *wqe,
				   struct weft_caller *caller, enum weft_cause *cause)
{
	struct direct *d = direct_of(qp);
	enum weft_outcome outcome;

	if (caller->shared)
		qp->nic->pool->calls->share_lock(qp->nic->pool);
	outcome = is_ready(qp, d, caller) ? execute_at_queue(qp, wqe, caller, cause)
					  : without_responder(qp, wqe, caller, cause);
	if (caller->shared)
		qp->nic->pool->calls->share_unlock(qp->nic->pool);
	return outcome;
}

/* ---- What only the owner's helper reaches ---- */

/* How long a request that needs such an answer waits for it; then the queue pair's timers begin. */
#define HELPER_PATIENCE_NS 1000000000ull

/* An atomic that was carried out must not be again, whatever has become of the connection. */
static void keep_answer(struct weft_qp *qp, struct direct *d)
{
	const struct weft_machine *machine = qp->nic->machine;
	const struct weft_wqe *wqe = weft_sq_slot(qp, qp->sq_issued - 1);

	if (weft_op_is_atomic(wqe->opcode) && !d->has_answer)
		d->has_answer = machine->carried_out(machine->context, &d->later, &d->answer);
}

/* What waits behind a WRITE that a helper has carried out, and is like it, may go together. */
static void try_several(struct weft_qp *qp)
{
	const struct weft_wqe *wqe = weft_sq_slot(qp, qp->sq_issued - 1);

	if (qp->type == WEFT_QPT_RC && wqe->opcode == WEFT_OP_WRITE &&
	    qp->nic->machine->ask_gathered)
		qp->issue = issue_several;
}

/* The last request that was begun. */
static void settle_late(struct weft_qp *qp, enum weft_outcome outcome, enum weft_cause cause)
{
	if (outcome == WEFT_UNDER_WAY)
		return;
	if (outcome == WEFT_DONE)
		try_several(qp);
	weft_later_drop(qp->nic, &direct_of(qp)->later);
	direct_of(qp)->begun_ms = 0;
	if (outcome == WEFT_DONE)
		weft_sq_end(qp, qp->sq_issued - 1, WEFT_CAUSE_NONE);
	else if (outcome == WEFT_FAILED)
		weft_sq_end(qp, qp->sq_issued - 1, cause);
	else
		weft_sq_return(qp, outcome);
}

/* Of those that are asked for together the ones from that position on are as if never issued. */
static void leave_several(struct weft_qp *qp, uint64_t position)
{
	weft_sq_recall(qp, position);
	direct_of(qp)->several = 0;
	qp->most_under_way = qp->transport->most_under_way;
}

/* They have been answered, as far as they were carried out: each is so anew, up to the first that is not done. */
static void end_several(struct weft_qp *qp, struct weft_caller *caller)
{
	struct direct *d = direct_of(qp);
	uint64_t at = qp->sq_issued - qp->under_way, end = qp->sq_issued;
	enum weft_outcome outcome = WEFT_DONE;
	enum weft_cause cause = WEFT_CAUSE_NONE;

	for (; at < end; at++) {
		d->later.done = d->later.at = 0;
		outcome = issue_direct(qp, weft_sq_slot(qp, at), caller, &cause);
		if (outcome != WEFT_DONE)
			break;
		weft_sq_end(qp, at, WEFT_CAUSE_NONE);
	}
	d->begun_ms = 0;
	/* one that is under way yet is another than was asked for: it is issued anew */
	leave_several(qp, outcome == WEFT_UNDER_WAY ? at : at + 1);
	if (outcome == WEFT_DONE || outcome == WEFT_UNDER_WAY)
		weft_later_drop(qp->nic, &d->later);
	else
		settle_late(qp, outcome, cause);
	if (outcome != WEFT_DONE)
		qp->issue = issue_direct;
}

/* Whether the request has had its time. Without reliability it is not told. */
static bool is_late(const struct weft_qp *qp, struct direct *d, uint64_t now_ns)
{
	uint64_t patience_ns = qp->type == WEFT_QPT_UC
				       ? 0
				       : weft_sq_patience_ns(qp->attr.retry_cnt, qp->attr.timeout);
	uint32_t now_ms = (uint32_t)(now_ns / 1000000) | 1;

	if (!d->begun_ms)
		d->begun_ms = now_ms;
	/* another thread may have looked at a later time */
	return patience_ns != UINT64_MAX &&
	       (int32_t)(now_ms - d->begun_ms) >
		       (int64_t)((HELPER_PATIENCE_NS + patience_ns) / 1000000);
}

/* A peer that found us at fault answers no more: its verdict came first. */
static void end_silent(struct weft_qp *qp)
{
	if (weft_qp_look(qp))
		return;
	if (direct_of(qp)->several)
		leave_several(qp, qp->sq_issued - qp->under_way + 1);
	settle_late(qp, qp->type == WEFT_QPT_UC ? WEFT_DONE : WEFT_FAILED, WEFT_CAUSE_NO_ANSWER);
}

static uint64_t look_later(struct weft_qp *qp, struct weft_caller *caller, uint64_t now_ns)
{
	const struct weft_machine *machine = qp->nic->machine;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct direct *d = direct_of(qp);
	enum weft_outcome outcome;
	bool asked = d->later.ask[0] || d->later.ask[1];

	if (asked && machine->answered(machine->context, &d->later, now_ns)) {
		d->begun_ms = 0;
		keep_answer(qp, d);
	} else if (is_late(qp, d, now_ns)) {
		end_silent(qp);
		return UINT64_MAX;
	} else if (asked) {
		return UINT64_MAX;
	}
	if (d->several) {
		end_several(qp, caller);
		return UINT64_MAX;
	}
	outcome = qp->issue(qp, weft_sq_slot(qp, qp->sq_issued - 1), caller, &cause);
	settle_late(qp, outcome, cause);
	return UINT64_MAX;
}

/* After abort helpers of others still touch at most bounce buffers of this process. */
static bool drained(struct weft_qp *qp)
{
	return true;
}

static bool reaches_member(struct weft_nic *nic, const uint8_t sgid[16], const uint8_t dgid[16])
{
	if (weft_address_is_group(dgid))
		return true;
	for (uint16_t i = 0; (i = nic->pool->calls->next(nic->pool, i)) < WEFT_MEMBERS; i++)
		if (weft_responder_has_gid(nic->pool, i, dgid))
			return true;
	return false;
}

static int connect_member(struct weft_qp *qp, uint16_t *executor)
{
	struct direct *d = direct_of(qp);

	weft_responder_begin(&d->to, qp);
	weft_later_attach(&d->to.grant, &d->later);
	d->asks_owner = qp->nic->pool->change &&
			weft_host_of_qp(qp->nic->pool, qp->attr.dest_qpn) != qp->nic->pool->host;
	d->connected_at = atomic_load_explicit(&qp->slot->conn, memory_order_relaxed);
	if (!weft_responder_find(&d->to))
		return 0;
	/* only a member that owns the destination can ever complete into our queue */
	*executor = d->to.grant.member;
	/* it may lose the address before we have anything to send */
	weft_responder_addressed(&d->to);
	return 0;
}

static void leave_member(struct weft_qp *qp)
{
	struct direct *d = direct_of(qp);

	weft_later_drop(qp->nic, &d->later);
	if (qp->type == WEFT_QPT_XRC_SEND)
		weft_responder_drop(&((struct xrc *)qp->carried)->queue.responder);
	weft_responder_drop(&d->to);
	weft_responder_leave(&d->to);
	d->to.slot = NULL;
	d->several = 0;
}

/* Its host is silent, which may have died as a whole; and not just because this was its last process, which has ended. */
static bool has_fallen_silent(struct weft_pool *pool, uint16_t member)
{
	const struct weft_pool_member *m = pool->calls->member(pool, member);

	return m && !atomic_load_explicit(&m->exits, memory_order_relaxed) &&
	       !pool->calls->use(pool, member);
}

/* As with a card, requests find that a peer has died; where none is under way its owner waits for ever, unless it is to be
 * told. */
static bool has_lost_peer(const struct weft_qp *qp, const struct weft_pool_qp *slot)
{
	struct weft_pool *pool = qp->nic->pool;
	uint32_t conn = (uint32_t)atomic_load_explicit(&slot->conn, memory_order_relaxed);

	if (!qp->nic->tells_deaths || qp->type != WEFT_QPT_RC || qp->under_way)
		return false;
	return conn == (WEFT_CONN_DIED << 24 | qp->qpn) ||
	       (conn == (WEFT_CONN_READY << 24 | qp->qpn) && has_fallen_silent(pool, slot->owner));
}

/* The peer may have gone since, and our line may have changed, but not the connection. */
static bool is_blamed_here(struct weft_qp *qp, enum weft_event *event)
{
	uint32_t index = qp->attr.dest_qpn & (WEFT_QPS - 1);
	const struct weft_pool_qp *slot = &qp->nic->pool->qps[index];
	uint64_t conn;

	if (qp->nic->pool->calls->see_qp(qp->nic->pool, index))
		return false;
	*event = WEFT_EVENT_QP_FATAL;
	if (has_lost_peer(qp, slot))
		return true;
	/* acquire: pairs with the release in weft_responder_blame */
	conn = atomic_load_explicit(&slot->fault_conn, memory_order_acquire);
	if (conn <= direct_of(qp)->connected_at || (conn & 0xffffff) != qp->attr.dest_qpn ||
	    slot->fault_qpn != qp->qpn)
		return false;
	*event = slot->fault_code;
	return true;
}

static void look_anew(struct weft_qp *qp)
{
	direct_of(qp)->to.grant.was = UINT64_MAX; /* no conn word has that value */
	/* a queue may be of another member than the peer, and of another host */
	if (qp->type == WEFT_QPT_XRC_SEND)
		((struct xrc *)qp->carried)->queue.number = 0;
}

const struct weft_transport weft_direct = {
	.name = "direct",
	.carries = {[WEFT_QPT_RC] = {issue_direct, sizeof(struct direct)},
		    [WEFT_QPT_UC] = {issue_direct_unreliable, sizeof(struct direct)},
		    [WEFT_QPT_UD] = {weft_direct_issue_datagram, 0},
		    [WEFT_QPT_XRC_SEND] = {issue_xrc, sizeof(struct xrc)},
		    [WEFT_QPT_XRC_RECV] = {issue_xrc, sizeof(struct direct)}},
	.address_bytes = WEFT_DIRECT_ADDRESS_BYTES,
	.most_under_way = 1,
	.silence = WEFT_CAUSE_NO_ANSWER,
	.reaches = reaches_member,
	.connect = connect_member,
	.abort = leave_member,
	.is_blamed = is_blamed_here,
	.look_anew = look_anew,
	.progress = look_later,
	.drained = drained,
};
