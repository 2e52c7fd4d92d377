/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Send queues: carrying out requests in order, waiting for peers that are not ready, completing. */
#include "nic/mw.h"
#include "nic/nic.h"
#include "nic/qp.h"
#include "nic/queues.h"
#include "nic/submit.h"
#include "pool/step.h"
#include "pool/sizes.h"
#include "pool/format_qp.h"

/* 9.7.5.2.8, table 45: the RNR timer codes, in units of 10 µs. */
static const uint32_t rnr_timer_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/* ---- Waiting ---- */

static void list_waiting(struct weft_qp *qp)
{
	struct weft_nic *nic = qp->nic;

	weft_lock(nic, &nic->waiting_lock, 0);
	qp->waiting_next = nic->waiting;
	nic->waiting = qp;
	atomic_fetch_add_explicit(&nic->nwaiting, 1, memory_order_relaxed);
	weft_unlock(&nic->waiting_lock, false);
}

/* All but those that are with a transport which tells their ends by itself. */
static bool needs_tries(const struct weft_qp *qp)
{
	return qp->state != WEFT_QPS_RTS || !qp->transport->in_order ||
	       weft_sq_next_issue(qp) < qp->sq_posted;
}

static void see_to_tries(struct weft_qp *qp)
{
	bool tries = qp->waits && needs_tries(qp);

	if (tries == qp->tries)
		return;
	qp->tries = tries;
	if (!tries) {
		atomic_fetch_sub_explicit(&qp->nic->ntrying, 1, memory_order_relaxed);
		return;
	}
	/* before the look at whether the helper sleeps: it looks in the other order (helper.c) */
	atomic_fetch_add(&qp->nic->ntrying, 1);
	WEFT_STEP(send_waits);
	weft_nic_kick(qp->nic);
}

void weft_sq_wait(struct weft_qp *qp)
{
	qp->waits = true;
	qp->deadline_ns = 0;
	if (qp->visited)
		return;
	list_waiting(qp);
	see_to_tries(qp);
}

void weft_sq_stop_waiting(struct weft_qp *qp)
{
	struct weft_nic *nic = qp->nic;
	struct weft_qp **at;

	if (!qp->waits)
		return;
	qp->waits = false;
	see_to_tries(qp);
	weft_lock(nic, &nic->waiting_lock, 0);
	for (at = &nic->waiting; *at; at = &(*at)->waiting_next)
		if (*at == qp) {
			*at = qp->waiting_next;
			atomic_fetch_sub_explicit(&nic->nwaiting, 1, memory_order_relaxed);
			break;
		}
	weft_unlock(&nic->waiting_lock, false);
}

/* An owner that rehomes may be slow, or stand still itself; the queue pair's timers are for peers that are
 * gone. */
#define REHOMING_PATIENCE_NS 30000000000ull

uint64_t weft_sq_rnr_patience_ns(uint8_t rnr_retry, uint8_t timer)
{
	return rnr_retry == 7 ? UINT64_MAX : rnr_retry * 10000ull * rnr_timer_10us[timer & 31];
}

uint64_t weft_sq_patience_ns(uint8_t retry_cnt, uint8_t timeout)
{
	return timeout ? (retry_cnt + 1ull) * (4096ull << (timeout & 31)) : UINT64_MAX;
}

static uint64_t patience_ns(const struct weft_qp *qp)
{
	if (qp->awaited == WEFT_REHOMING)
		return REHOMING_PATIENCE_NS;
	if (qp->awaited == WEFT_NO_RECEIVE)
		return weft_sq_rnr_patience_ns(qp->attr.rnr_retry, qp->peer_rnr_timer);
	return weft_sq_patience_ns(qp->attr.retry_cnt, qp->attr.timeout);
}

/* ---- Ending ---- */

#define DRAINS_EACH_NS                                                                             \
	1000000ull /* how often a transport that was left is asked whether it has let go */

bool weft_sq_drained(struct weft_qp *qp)
{
	/* SQE: the transport is not left, and those that it has end */
	if (!qp->drains)
		return !qp->under_way;
	if (!qp->drains->drained(qp))
		return false;
	qp->drains = NULL;
	qp->under_way = qp->fetching = 0;
	return true;
}

void weft_sq_flush(struct weft_qp *qp)
{
	if (!weft_sq_drained(qp)) {
		if (!qp->waits)
			weft_sq_wait(qp);
		return;
	}
	for (; qp->sq_done < qp->sq_posted; qp->sq_done++)
		weft_sq_complete(qp, weft_sq_slot(qp, qp->sq_done), qp->sq_done,
				 WEFT_WC_WR_FLUSH_ERR, 0);
	qp->failed_at = UINT64_MAX;
}

/* Without a reliable service only the send queue stops: peers may go on sending (10.3.1.6). The
 * state comes first, for a program that looks at it because of the completion. */
static void fail_request(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_cause cause)
{
	bool all = qp->type != WEFT_QPT_UC && qp->type != WEFT_QPT_UD;

	qp->nic->api->failed(qp, wqe, cause);
	qp->state = all ? WEFT_QPS_ERR : WEFT_QPS_SQE;
	if (!all)
		atomic_store_explicit(&qp->slot->state, WEFT_QPS_SQE, memory_order_relaxed);
	weft_sq_complete(qp, wqe, qp->sq_done++, weft_cause_status(cause), 0);
	if (all)
		weft_qp_fail(qp);
	else
		weft_sq_flush(qp);
}

/* Those that end in order need not be counted: their transport keeps the fences. */
static uint32_t counts_as_fetch(const struct weft_qp *qp, const struct weft_wqe *wqe)
{
	const struct weft_transport *t = qp->transport ? qp->transport : qp->drains;

	return !(t && t->in_order) && weft_op_fetches(wqe->opcode);
}

void weft_sq_end(struct weft_qp *qp, uint64_t position, enum weft_cause cause)
{
	struct weft_wqe *wqe = weft_sq_slot(qp, position);

	qp->under_way--;
	qp->fetching -= counts_as_fetch(qp, wqe);
	wqe->flags |= WEFT_SEND_ENDED;
	if (cause && position < qp->failed_at) {
		qp->failed_at = position;
		qp->failed_of = cause;
	}
}

/* Their slots may hold later requests already: a program that has polled them may post again. */
void weft_sq_end_before(struct weft_qp *qp, uint64_t position)
{
	if (position > qp->sq_issued)
		position = qp->sq_issued;
	if (position <= qp->sq_done)
		return;
	qp->under_way -= (uint32_t)(position - qp->sq_done);
	qp->sq_done = position;
}

void weft_sq_recall(struct weft_qp *qp, uint64_t position)
{
	if (position >= qp->sq_issued)
		return;
	/* a request that has failed on this side is not among them any more */
	qp->under_way -= (uint32_t)(qp->sq_issued - position) -
			 (qp->failed_at >= position && qp->failed_at < qp->sq_issued);
	qp->sq_issued = position;
}

void weft_sq_return(struct weft_qp *qp, enum weft_outcome outcome)
{
	struct weft_wqe *wqe = weft_sq_slot(qp, --qp->sq_issued);

	qp->under_way--;
	qp->fetching -= weft_op_fetches(wqe->opcode);
	qp->awaited = outcome;
	qp->deadline_ns = 0;
}

/* Completes those that have ended and are the oldest. */
static void complete_ended(struct weft_qp *qp)
{
	if (qp->transport && qp->transport->in_order && qp->sq_done != qp->failed_at)
		return;
	while (qp->sq_done < qp->sq_issued &&
	       (qp->state == WEFT_QPS_RTS || qp->state == WEFT_QPS_SQD)) {
		struct weft_wqe *wqe = weft_sq_slot(qp, qp->sq_done);

		if (!(wqe->flags & WEFT_SEND_ENDED))
			return;
		if (qp->sq_done == qp->failed_at) {
			fail_request(qp, wqe, qp->failed_of);
			return;
		}
		if (qp->signal_all || wqe->flags & WEFT_SEND_SIGNALED)
			weft_sq_complete(qp, wqe, qp->sq_done, WEFT_WC_SUCCESS, 0);
		qp->sq_done++;
	}
}

bool weft_sq_is_draining(const struct weft_qp *qp)
{
	return qp->state == WEFT_QPS_SQD && qp->under_way;
}

void weft_sq_tell_drained(struct weft_qp *qp)
{
	if (!qp->tells_drained || qp->state != WEFT_QPS_SQD || qp->under_way)
		return;
	qp->tells_drained = false;
	qp->nic->api->async(qp, NULL, WEFT_EVENT_SQ_DRAINED);
}

/* ---- Beginning ---- */

/* It is under way, behind the oldest or as the oldest. */
static void note_issued(struct weft_qp *qp, struct weft_wqe *wqe, uint64_t position)
{
	qp->sq_issued = position + 1;
	qp->under_way++;
	qp->fetching += counts_as_fetch(qp, wqe);
	wqe->flags &= (uint8_t)~WEFT_SEND_ENDED;
}

void weft_sq_stumble(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_outcome outcome,
		     enum weft_cause cause)
{
	uint64_t position = weft_sq_next_issue(qp);

	if (outcome == WEFT_UNDER_WAY) {
		qp->awaited = WEFT_DONE;
		note_issued(qp, wqe, position);
	} else if (outcome == WEFT_FAILED && position == qp->sq_done) {
		fail_request(qp, wqe, cause);
	} else if (outcome == WEFT_FAILED) {
		note_issued(qp, wqe, position);
		weft_sq_end(qp, position, cause);
	} else {
		if (qp->awaited != outcome)
			qp->deadline_ns = 0;
		qp->awaited = outcome;
	}
}

/* What is carried out on this side alone waits for all before it, and so does a request with a
 * fence for READs and atomics (10.8.3.3). Behind one that has failed nothing begins. */
static bool may_begin(const struct weft_qp *qp, const struct weft_wqe *wqe)
{
	if (qp->state != WEFT_QPS_RTS || qp->failed_at != UINT64_MAX)
		return false;
	if (!qp->under_way)
		return true;
	return qp->under_way < qp->most_under_way && !weft_op_is_local(wqe->opcode) &&
	       !(wqe->flags & WEFT_SEND_FENCE && qp->fetching);
}

/* The next request, behind those that are under way. False: it waits. */
static bool begin_behind(struct weft_qp *qp, struct weft_caller *caller)
{
	uint64_t position = weft_sq_next_issue(qp);
	struct weft_wqe *wqe = weft_sq_slot(qp, position);
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome = qp->issue(qp, wqe, caller, &cause);

	if (outcome == WEFT_DONE) {
		note_issued(qp, wqe, position);
		weft_sq_end(qp, position, WEFT_CAUSE_NONE);
	} else {
		weft_sq_stumble(qp, wqe, outcome, cause);
	}
	return outcome == WEFT_DONE || outcome == WEFT_UNDER_WAY;
}

static bool begin_next(struct weft_qp *qp, struct weft_caller *caller)
{
	uint64_t position = weft_sq_next_issue(qp);

	if (position != qp->sq_done)
		return begin_behind(qp, caller);
	return weft_sq_carry_out(qp, weft_sq_slot(qp, position), caller) || qp->under_way;
}

bool weft_sq_run(struct weft_qp *qp, struct weft_caller *caller)
{
	complete_ended(qp);
	while (weft_sq_next_issue(qp) < qp->sq_posted &&
	       may_begin(qp, weft_sq_slot(qp, weft_sq_next_issue(qp))) && begin_next(qp, caller)) {
		qp->deadline_ns = 0;
		qp->awaited = WEFT_DONE;
	}
	complete_ended(qp);
	weft_sq_tell_drained(qp);
	return qp->drains || qp->under_way ||
	       (qp->state == WEFT_QPS_RTS && qp->sq_done < qp->sq_posted);
}

void weft_sq_defer(struct weft_qp *qp, struct weft_caller *caller)
{
	if (qp->state == WEFT_QPS_ERR || qp->state == WEFT_QPS_SQE)
		weft_sq_flush(qp);
	else if (qp->under_way)
		weft_sq_run(qp, caller);
	see_to_tries(qp);
}

/* The next waiting queue pair that no thread is using, taken off the list with its lock held. */
static struct weft_qp *take_waiting(struct weft_nic *nic)
{
	struct weft_qp **at, *qp = NULL;

	weft_lock(nic, &nic->waiting_lock, 0);
	for (at = &nic->waiting; *at; at = &(*at)->waiting_next)
		if (weft_trylock(nic, &(*at)->lock)) {
			qp = *at;
			*at = qp->waiting_next;
			atomic_fetch_sub_explicit(&nic->nwaiting, 1, memory_order_relaxed);
			break;
		}
	weft_unlock(&nic->waiting_lock, false);
	return qp;
}

/* How long the next request may still wait for its peer; 0: too long. A wait begins with a time from behind the try
 * that found the reason for it: the look's own may be long past when its thread had no core. */
static uint64_t patience_left_ns(struct weft_qp *qp, uint64_t now_ns)
{
	uint64_t patience = patience_ns(qp);

	if (qp->awaited == WEFT_DONE || qp->state != WEFT_QPS_RTS)
		return UINT64_MAX;
	if (qp->deadline_ns)
		return now_ns < qp->deadline_ns ? qp->deadline_ns - now_ns : 0;
	qp->deadline_ns =
		patience == UINT64_MAX ? UINT64_MAX : weft_nic_stamp_ns(qp->nic) + patience;
	/* without any, too, it is looked for once more: a wire would have taken longer to ask */
	return patience ? patience : 1;
}

/* A peer that found us at fault answers no more: its verdict came first. */
static void give_up(struct weft_qp *qp)
{
	enum weft_cause cause =
		qp->awaited == WEFT_NO_RECEIVE ? WEFT_CAUSE_NO_RECEIVE : qp->transport->silence;

	WEFT_STEP(send_given_up);
	if (weft_qp_look(qp))
		return;
	weft_sq_stumble(qp, weft_sq_slot(qp, weft_sq_next_issue(qp)), WEFT_FAILED, cause);
}

/* Whether something is left; when to look again: *due_ns. */
static bool progress_one(struct weft_qp *qp, struct weft_caller *caller, uint64_t now_ns,
			 uint64_t *due_ns)
{
	uint64_t left_ns;

	*due_ns = UINT64_MAX;
	if (qp->under_way && !qp->drains)
		*due_ns = qp->transport->progress(qp, caller, now_ns);
	if (qp->state == WEFT_QPS_ERR || qp->state == WEFT_QPS_SQE)
		weft_sq_flush(qp);
	else if (weft_sq_run(qp, caller))
		qp->waits = true;
	if (!qp->waits)
		return false;
	if (qp->drains)
		*due_ns = DRAINS_EACH_NS;
	left_ns = patience_left_ns(qp, now_ns);
	if (!left_ns) {
		qp->waits = false;
		give_up(qp);
		return qp->waits || qp->under_way;
	}
	*due_ns = left_ns < *due_ns ? left_ns : *due_ns;
	return true;
}

#define IN_USE_NS 1000000u

uint64_t weft_nic_progress(struct weft_nic *nic, struct weft_caller *caller, uint64_t now_ns)
{
	struct weft_qp *again = NULL, *qp;
	uint64_t least = UINT64_MAX, under_way = 0,
		 ended = atomic_load_explicit(&nic->ended, memory_order_relaxed);

	while ((qp = take_waiting(nic))) {
		uint64_t due, done = qp->sq_done;

		qp->visited = true;
		qp->waits = false;
		qp->waits = progress_one(qp, caller, now_ns, &due);
		least = due < least ? due : least;
		under_way += qp->under_way;
		ended += qp->sq_done - done;
		see_to_tries(qp);
		if (qp->waits) {
			/* its lock is kept until all have been looked at, so that none is met twice
			 */
			qp->waiting_next = again;
			again = qp;
		} else {
			qp->visited = false;
			weft_unlock(&qp->lock, false);
		}
	}
	/* another thread has one just now */
	if (atomic_load_explicit(&nic->nwaiting, memory_order_relaxed))
		least = least < IN_USE_NS ? least : IN_USE_NS;
	while ((qp = again)) {
		again = qp->waiting_next;
		qp->visited = false;
		list_waiting(qp);
		weft_unlock(&qp->lock, false);
	}
	atomic_store_explicit(&nic->under_way, under_way, memory_order_relaxed);
	atomic_store_explicit(&nic->ended, ended, memory_order_relaxed);
	return least;
}
