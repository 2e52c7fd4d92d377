/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The bytes of a request on the requester's side, whichever transport carries it out: what may be wrong with
 * them is found before anything goes to the responder, and told although no answer comes.
 */
#ifndef WEFT_NIC_GATHER_H
#define WEFT_NIC_GATHER_H

#include "nic/ah.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "nic/qp.h"
#include "nic/wqe.h"

/* The way of a WRITE or READ from the queue to its bytes is one function, or a third of its time
 * goes into calls. */
#define WEFT_GATHER static inline __attribute__((always_inline))

static inline uint64_t weft_gather_listed_bytes(const struct weft_wqe *wqe)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < wqe->num_sge; i++)
		bytes += wqe->sge[i].len_bytes;
	return bytes;
}

/* What is wrong with the number of bytes of a request of a connection. */
WEFT_GATHER enum weft_cause weft_gather_check_bytes(const struct weft_wqe *wqe, uint64_t bytes)
{
	/* atomics are among those that fetch, which are asked for anyway */
	if (weft_op_fetches(wqe->opcode) && weft_op_is_atomic(wqe->opcode) && bytes != 8)
		return WEFT_CAUSE_ATOMIC_LENGTH;
	return bytes > WEFT_MAX_MSG_BYTES ? WEFT_CAUSE_MESSAGE_LENGTH : WEFT_CAUSE_NONE;
}

/* Of a request of a connection that has so many bytes, which is noted. What is wrong: first their number, then a request
 * that may never be outstanding (with max_rd_atomic 0, as network cards do). *access: what it does with them. */
WEFT_GATHER enum weft_cause weft_gather_check(const struct weft_qp *qp, struct weft_wqe *wqe,
					      uint64_t bytes, uint8_t *access)
{
	enum weft_cause cause = weft_gather_check_bytes(wqe, bytes);

	if (cause)
		return cause;
	wqe->len_bytes = (uint32_t)bytes;
	*access = 0;
	if (weft_op_fetches(wqe->opcode)) {
		if (!qp->attr.max_rd_atomic)
			return WEFT_CAUSE_NO_READS;
		*access = WEFT_ACCESS_LOCAL_WRITE;
	}
	return WEFT_CAUSE_NONE;
}

/* Whether the bytes of a request are one span, as nearly all are: inline, or an element with any. */
static inline bool weft_gather_is_single(const struct weft_wqe *wqe)
{
	return wqe->flags & WEFT_SEND_INLINE || (wqe->num_sge == 1 && wqe->sge[0].len_bytes);
}

/* The bytes of such a request, wqe->len_bytes afterwards. What is wrong: as above, then the key. */
WEFT_GATHER enum weft_cause weft_gather_single(const struct weft_qp *qp, struct weft_wqe *wqe,
					       struct weft_caller *caller, struct weft_span *here)
{
	const struct weft_pool_sge *sge = &wqe->sge[0];
	enum weft_cause cause;
	uint8_t access;

	if (wqe->flags & WEFT_SEND_INLINE) {
		weft_span_private(here, weft_wqe_inline(wqe), wqe->len_bytes);
		return WEFT_CAUSE_NONE;
	}
	cause = weft_gather_check(qp, wqe, sge->len_bytes, &access);
	if (cause)
		return cause;
	return weft_mr_find(qp->nic->pool, caller, sge->lkey, qp->domain, sge->addr, sge->len_bytes,
			    access, here)
		       ? WEFT_CAUSE_NONE
		       : WEFT_CAUSE_LOCAL_KEY;
}

/* The bytes of any request of a connection. */
static inline enum weft_cause weft_gather(const struct weft_qp *qp, struct weft_wqe *wqe,
					  struct weft_caller *caller, struct weft_spans *here)
{
	enum weft_cause cause;
	uint8_t access;

	if (weft_gather_is_single(wqe)) {
		cause = weft_gather_single(qp, wqe, caller, &here->span[0]);
		here->n = 1;
		here->len_bytes = wqe->len_bytes;
		return cause;
	}
	cause = weft_gather_check(qp, wqe, weft_gather_listed_bytes(wqe), &access);
	if (cause)
		return cause;
	return weft_spans_find(qp->nic->pool, caller, wqe->sge, wqe->num_sge, qp->domain, access,
			       here)
		       ? WEFT_CAUSE_NONE
		       : WEFT_CAUSE_LOCAL_KEY;
}

/* Issues one as `issue` does, under the pool's lock where the thread has no line of its own (pool/pool.h). */
WEFT_GATHER enum weft_outcome weft_gather_issue(weft_issue *issue, struct weft_qp *qp,
						struct weft_wqe *wqe, struct weft_caller *caller,
						enum weft_cause *cause)
{
	enum weft_outcome outcome;

	if (__builtin_expect(!caller->shared, 1))
		return issue(qp, wqe, caller, cause);
	qp->nic->pool->calls->share_lock(qp->nic->pool);
	outcome = issue(qp, wqe, caller, cause);
	qp->nic->pool->calls->share_unlock(qp->nic->pool);
	return outcome;
}

/* A cause was found on this side. */
static inline enum weft_outcome weft_gather_failed(struct weft_caller *caller)
{
	return weft_find_later(caller) ? WEFT_REHOMING : WEFT_FAILED;
}

/* Of a datagram, but for keys: their number, which is written to the request, and the handle. */
static inline enum weft_cause weft_gather_check_datagram(const struct weft_qp *qp,
							 struct weft_wqe *wqe)
{
	uint64_t bytes =
		wqe->flags & WEFT_SEND_INLINE ? wqe->len_bytes : weft_gather_listed_bytes(wqe);

	if (bytes > WEFT_MTU)
		return WEFT_CAUSE_DATAGRAM_LENGTH;
	if (!wqe->ah || wqe->ah->pd != qp->pd)
		return WEFT_CAUSE_ADDRESS_DOMAIN;
	wqe->len_bytes = (uint32_t)bytes;
	return WEFT_CAUSE_NONE;
}

#endif
