/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The rare half of a request's arrival (nic/arrive.h): lists, windows, and all that can be wrong. */
#include "nic/arrive.h"
#include "nic/errors.h"
#include "pool/format_line.h"
#include "pool/format_queue.h"

static enum weft_outcome fail_because(const struct weft_arrival *a, enum weft_cause cause)
{
	*a->cause = cause;
	return WEFT_FAILED;
}

enum weft_outcome weft_arrive_blame(const struct weft_arrival *a, enum weft_event event,
				    enum weft_cause cause)
{
	weft_responder_blame(a->to->peer, event);
	return fail_because(a, cause);
}

enum weft_outcome weft_arrive_refuse(const struct weft_arrival *a, enum weft_event event,
				     enum weft_cause cause)
{
	/* a request that is dropped looks to its requester as if there were no responder */
	if (weft_responder_is_gone(a->to) || a->to->from.type == WEFT_QPT_UC)
		return WEFT_NO_ANSWER;
	return weft_arrive_blame(a, event, cause);
}

/* ---- Bytes that could not be placed ---- */

/* The owner of memory is gone or stopped: as silence on the wire. */
static bool is_silence(int err)
{
	return err == -ESRCH || err == -ETIMEDOUT;
}

/* Memory on the requester's side is not mapped; or a member that shares a domain with it, or with the responder,
 * rehomes it, or has just ended it: the next look at the key tells. A READ may be done again where its bytes were
 * lost. */
bool weft_arrive_is_own_fault(const struct weft_arrival *a, int err, enum weft_outcome *outcome)
{
	const struct weft_span *failed = a->caller->failed;
	bool local = failed && failed >= a->here && failed < a->here + a->nhere;

	if (failed && (err == -ESRCH || (err == -ESTALE && local)))
		*outcome = WEFT_REHOMING;
	else if (err == -ENXIO || local)
		*outcome = fail_because(a, WEFT_CAUSE_LOCAL_MEMORY);
	else
		return false;
	return true;
}

enum weft_outcome weft_arrive_unreachable(const struct weft_arrival *a, int err)
{
	enum weft_outcome outcome;

	if (err == -EINPROGRESS)
		return WEFT_UNDER_WAY;
	if (weft_arrive_is_own_fault(a, err, &outcome))
		return outcome;
	if (is_silence(err))
		return WEFT_NO_ANSWER;
	/* tried again it might be carried out twice */
	if (err == -EALREADY)
		return fail_because(a, WEFT_CAUSE_NO_ANSWER);
	if (err == -ESTALE)
		return a->to->from.type == WEFT_QPT_UC ? WEFT_NO_ANSWER
						       : fail_because(a, WEFT_CAUSE_LEFT_BEHIND);
	return weft_arrive_refuse(a, WEFT_EVENT_QP_ACCESS_ERR,
				  err == -EACCES ? WEFT_CAUSE_REMOTE_KEY
						 : WEFT_CAUSE_REMOTE_MEMORY);
}

/* ---- Receives ---- */

static enum weft_outcome blame_receive(const struct weft_arrival *a,
				       const struct weft_arrive_receive *landing,
				       enum weft_cause cause)
{
	bool too_long = cause == WEFT_CAUSE_RECEIVE_LENGTH;
	bool unreliable = a->to->from.type == WEFT_QPT_UC;
	uint32_t given = WEFT_NO_LKEY;

	/* too long for the receive: a datagram of an unreliable connection leaves the receive where it is (9.9.3,
	 * class D); only what is wrong with the receive itself fails its queue pair */
	if (weft_responder_is_gone(a->to) || (unreliable && too_long)) {
		weft_responder_let_go(a->to);
		return WEFT_NO_ANSWER;
	}
	if (too_long)
		given = (uint32_t)a->len_bytes;
	else if (cause == WEFT_CAUSE_RECEIVE_KEY)
		given = weft_cause_lkey(a->nic->pool, landing->recv, landing->used,
					a->to->receive_domain);
	weft_responder_complete(a->to, a->request, landing->wr_id, given,
				too_long ? WEFT_WC_LOC_LEN_ERR : WEFT_WC_LOC_PROT_ERR,
				a->caller->thread);
	weft_arrive_blame(a, too_long ? WEFT_EVENT_QP_REQ_ERR : WEFT_EVENT_QP_FATAL, cause);
	return unreliable ? WEFT_NO_ANSWER : WEFT_FAILED;
}

enum weft_outcome weft_arrive_undelivered(const struct weft_arrival *a,
					  const struct weft_arrive_receive *landing, int err)
{
	enum weft_outcome outcome;

	if (err == -EINPROGRESS)
		return WEFT_UNDER_WAY;
	if (err == -ESTALE)
		return WEFT_REHOMING; /* no program looks into a buffer before its receive is complete */
	if (weft_arrive_is_own_fault(a, err, &outcome))
		return outcome;
	if (is_silence(err))
		return WEFT_NO_ANSWER;
	return blame_receive(a, landing, WEFT_CAUSE_RECEIVE_MEMORY);
}

enum weft_outcome weft_arrive_not_found(const struct weft_arrival *a,
					const struct weft_arrive_receive *landing,
					enum weft_cause cause)
{
	return weft_find_later(a->caller) ? WEFT_REHOMING : blame_receive(a, landing, cause);
}

/* What is wrong: first the length, then keys. */
enum weft_cause weft_arrive_find_list(const struct weft_arrival *a,
				      struct weft_arrive_receive *landing, struct weft_spans *there)
{
	const struct weft_pool_recv *recv = landing->recv;
	uint64_t room = 0;
	uint32_t *used = &landing->used;

	/* what lies behind the last byte is not looked at */
	for (*used = 0; *used < recv->num_sge && *used < a->to->rq_sges && room < a->len_bytes;
	     ++*used)
		room += recv->sge[*used].len_bytes;
	if (room < a->len_bytes)
		return WEFT_CAUSE_RECEIVE_LENGTH;
	if (!weft_spans_find(a->nic->pool, a->caller, recv->sge, *used, a->to->receive_domain,
			     WEFT_ACCESS_LOCAL_WRITE, there))
		return WEFT_CAUSE_RECEIVE_KEY;
	/* the list may be damaged between two looks */
	return there->len_bytes < a->len_bytes ? WEFT_CAUSE_RECEIVE_LENGTH : WEFT_CAUSE_NONE;
}

/* ---- Keys ---- */

bool weft_arrive_find_window(const struct weft_arrival *a, uint64_t bytes, uint8_t access,
			     struct weft_span *span)
{
	struct weft_pool *pool = a->nic->pool;
	const struct weft_wqe *request = a->request;

	return weft_mr_find(pool, a->caller, request->rkey,
			    a->to->domain | (uint64_t)WEFT_PD_WINDOW << 32, request->remote_addr,
			    bytes, access, span) ||
	       weft_mr_find(pool, a->caller, request->rkey, weft_arrive_window_domain(*a),
			    request->remote_addr, bytes, access, span);
}

/* ---- ATOMIC WRITE ---- */

int weft_arrive_atomic_write(const struct weft_arrival *a, const struct weft_span *at,
			     uint64_t value)
{
	struct weft_counters *counters = &a->caller->line->counters;
	struct weft_later *later = weft_later_of(&a->to->grant);
	uint64_t old = later ? later->seen : 0, seen;
	int err;

	do {
		seen = old;
		if (later)
			later->seen = seen;
		err = weft_arrive_atomic(*a, at, false, seen, value, &old);
	} while (!err && old != seen);
	if (err)
		return err;
	counters->ops_write++;
	counters->bytes_write += 8;
	return 0;
}
