/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Send queues: carrying out requests in order, waiting for peers that are not ready, completing. */
#include "nic/submit.h"
#include "pool/step.h"

/* 9.7.5.2.8, table 45: the RNR timer codes, in units of 10 µs. */
static const uint32_t rnr_timer_10us[32] = {
	65536, 1,   2,	 3,   4,   6,	8,    12,   16,	  24,	32,   48,   64,	   96,	  128,	 192,
	256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

void weft_sq_flush(struct weft_qp *qp)
{
	for (; qp->sq_executed < qp->sq_posted; qp->sq_executed++)
		weft_sq_complete(qp, weft_sq_slot(qp, qp->sq_executed), qp->sq_executed,
				 WEFT_WC_WR_FLUSH_ERR, 0);
}

/* ---- Waiting ---- */

static void list_waiting(struct weft_qp *qp)
{
	struct weft_nic *nic = qp->nic;

	weft_lock(nic, &nic->waiting_lock, 0);
	qp->waiting_next = nic->waiting;
	nic->waiting = qp;
	/* before the look at whether the engine sleeps: it looks in the other order (engine.c) */
	atomic_fetch_add(&nic->nwaiting, 1);
	weft_unlock(&nic->waiting_lock, false);
}

void weft_sq_wait(struct weft_qp *qp)
{
	qp->waits = true;
	qp->deadline_ns = 0;
	list_waiting(qp);
	WEFT_STEP(send_waits);
	qp->nic->env->kick();
}

void weft_sq_stop_waiting(struct weft_qp *qp)
{
	struct weft_nic *nic = qp->nic;
	struct weft_qp **at;

	if (!qp->waits)
		return;
	qp->waits = false;
	weft_lock(nic, &nic->waiting_lock, 0);
	for (at = &nic->waiting; *at; at = &(*at)->waiting_next)
		if (*at == qp) {
			*at = qp->waiting_next;
			atomic_fetch_sub_explicit(&nic->nwaiting, 1, memory_order_relaxed);
			break;
		}
	weft_unlock(&nic->waiting_lock, false);
}

/* Who moves memory may be slow, or be stopped himself; the verb's timers are for peers that are gone. */
#define MOVE_PATIENCE_NS 30000000000ull

static uint64_t patience_ns(const struct weft_qp *qp)
{
	if (qp->awaited == WEFT_MOVES)
		return MOVE_PATIENCE_NS;
	if (qp->awaited == WEFT_NO_RECEIVE)
		return qp->attr.rnr_retry == 7 ? UINT64_MAX :
						 qp->attr.rnr_retry * 10000ull *
							 rnr_timer_10us[qp->peer_rnr_timer & 31];
	return qp->attr.timeout ? (qp->attr.retry_cnt + 1ull) * (4096ull << qp->attr.timeout) :
				  UINT64_MAX;
}

/* ---- Carrying out ---- */

/* Without a reliable service only the send queue stops: peers may go on sending (10.3.1.6). The state
 * comes first, for whoever looks at it because of the completion. */
static void fail(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_cause cause)
{
	bool all = qp->type != WEFT_QPT_UC && qp->type != WEFT_QPT_UD;

	qp->nic->env->failed(qp, wqe, cause);
	qp->state = all ? WEFT_QPS_ERR : WEFT_QPS_SQE;
	if (!all)
		atomic_store_explicit(&qp->slot->state, WEFT_QPS_SQE, memory_order_relaxed);
	weft_sq_complete(qp, wqe, qp->sq_executed++, weft_cause_status(cause), 0);
	if (all)
		weft_qp_fail(qp);
	else
		weft_sq_flush(qp);
}

void weft_sq_stumble(struct weft_qp *qp, struct weft_wqe *wqe, enum weft_outcome outcome,
		     enum weft_cause cause)
{
	if (outcome == WEFT_FAILED) {
		fail(qp, wqe, cause);
		return;
	}
	if (qp->awaited != outcome)
		qp->deadline_ns = 0;
	qp->awaited = outcome;
}

void weft_sq_defer(struct weft_qp *qp)
{
	if (qp->state == WEFT_QPS_ERR || qp->state == WEFT_QPS_SQE)
		weft_sq_flush(qp);
}

bool weft_sq_run(struct weft_qp *qp, struct weft_caller *caller)
{
	while (qp->state == WEFT_QPS_RTS && qp->sq_executed < qp->sq_posted) {
		if (weft_sq_carry_out(qp, weft_sq_slot(qp, qp->sq_executed), caller))
			qp->deadline_ns = 0;
		else
			break;
	}
	return qp->state == WEFT_QPS_RTS && qp->sq_executed < qp->sq_posted;
}

/* The next waiting queue pair that nobody is using, taken off the list with its lock held. */
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

static uint64_t progress_one(struct weft_qp *qp, struct weft_caller *caller)
{
	uint64_t patience, now_ns;

	qp->waits = weft_sq_run(qp, caller);
	if (!qp->waits)
		return UINT64_MAX;
	patience = patience_ns(qp);
	/* not before: a wait that begins here would begin before its request was tried */
	now_ns = qp->nic->env->clock_ns();
	if (!qp->deadline_ns)
		qp->deadline_ns = patience == UINT64_MAX ? UINT64_MAX : now_ns + patience;
	if (now_ns < qp->deadline_ns)
		return qp->deadline_ns - now_ns;
	qp->waits = false;
	WEFT_STEP(send_given_up);
	/* a peer that found us at fault answers no more: its verdict came first */
	if (weft_qp_look(qp))
		return UINT64_MAX;
	fail(qp, weft_sq_slot(qp, qp->sq_executed),
	     qp->awaited == WEFT_NO_RECEIVE ? WEFT_CAUSE_NO_RECEIVE : WEFT_CAUSE_NO_ANSWER);
	return UINT64_MAX;
}

uint64_t weft_nic_progress(struct weft_nic *nic, struct weft_caller *caller)
{
	struct weft_qp *again = NULL, *qp;
	uint64_t least = UINT64_MAX;
	bool kick;

	while ((qp = take_waiting(nic))) {
		uint64_t due = progress_one(qp, caller);

		least = due < least ? due : least;
		if (qp->waits) {
			/* its lock is kept until all have been looked at, so that none is met twice */
			qp->waiting_next = again;
			again = qp;
		} else {
			weft_unlock(&qp->lock, false);
		}
	}
	/* the engine may have found the list empty meanwhile, and gone to sleep for good */
	kick = again;
	while ((qp = again)) {
		again = qp->waiting_next;
		list_waiting(qp);
		weft_unlock(&qp->lock, false);
	}
	if (kick)
		nic->env->kick();
	return least;
}
