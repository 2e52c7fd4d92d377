/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The requester's half of datagrams: the bytes on this side, and their header. The responder's half
 * is nic/datagram.h. */
#include "nic/busy.h"
#include "nic/errors.h"
#include "nic/gather.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/wqe.h"
#include "transport/direct/direct.h"
#include "transport/direct/grh.h"
#include "pool/format_line.h"

static bool any_foreign(const struct weft_spans *spans)
{
	for (unsigned int i = 0; i < spans->n; i++)
		if (weft_span_is_foreign(&spans->span[i]))
			return true;
	return false;
}

/* The list names memory of other processes, or on demand: a copy of all of it, which is the caller's to give back. */
static enum weft_cause gather_foreign(struct weft_qp *qp, const struct weft_wqe *wqe,
				      struct weft_caller *caller, uint8_t **bytes,
				      struct weft_spans *here)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_span copy;
	uint64_t next;
	int err;

	*bytes = weft_nic_alloc(qp->nic, WEFT_MTU);
	if (!*bytes)
		return WEFT_CAUSE_LOCAL_MEMORY;
	weft_span_private(&copy, *bytes, WEFT_MTU);
	next = weft_busy_begin(caller, weft_busy_at(qp->nic->pool->me, 0));
	if (!weft_spans_find(qp->nic->pool, caller, wqe->sge, wqe->num_sge, qp->domain, 0, here))
		cause = WEFT_CAUSE_LOCAL_KEY;
	err = cause ? 0
		    : weft_place_scattered(qp->nic, caller, NULL, &copy, here->span,
					   here->len_bytes);
	if (err) {
		cause = WEFT_CAUSE_LOCAL_MEMORY;
		caller->rehomes =
			err == -ESRCH; /* or its owner has just gone, which the next look tells */
	}
	weft_busy_end(caller, next);
	here->n = 1;
	here->span[0] = copy;
	return cause;
}

/* The bytes on this side, behind room for the header. *copy: of them, where they are of other processes,
 * which may go before the last destination has them. Apart: a frame has room for one list of spans. */
static __attribute__((__noinline__)) enum weft_cause
gather(struct weft_qp *qp, struct weft_wqe *wqe, uint8_t **copy, struct weft_datagram *d)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_spans here;

	here.n = 1;
	if (wqe->flags & WEFT_SEND_INLINE)
		weft_span_private(&here.span[0], weft_wqe_inline(wqe), wqe->len_bytes);
	else if (!weft_spans_find(qp->nic->pool, d->caller, wqe->sge, wqe->num_sge, qp->domain, 0,
				  &here))
		cause = WEFT_CAUSE_LOCAL_KEY;
	else if (any_foreign(&here))
		cause = gather_foreign(qp, wqe, d->caller, copy, &here);
	d->bytes = wqe->len_bytes;
	for (unsigned int i = 0; i < here.n; i++)
		d->span[1 + i] = here.span[i];
	return cause;
}

static enum weft_outcome issue_datagram_alone(struct weft_qp *qp, struct weft_wqe *wqe,
					      struct weft_caller *caller, enum weft_cause *cause)
{
	uint8_t grh[WEFT_GRH_BYTES], *copy = NULL;
	bool has_imm = wqe->opcode == WEFT_OP_SEND_IMM;
	struct weft_datagram d = {
		.nic = qp->nic,
		.caller = caller,
		/* the controlled Q_Keys are a queue pair's own (10.2.5) */
		.qkey = wqe->remote_qkey >> 31 ? qp->attr.qkey : wqe->remote_qkey,
		.imm = wqe->imm,
		.has_imm = has_imm,
		.solicited = wqe->flags & WEFT_SEND_SOLICITED,
	};
	struct weft_ah *ah = wqe->ah;
	bool own;

	*cause = gather(qp, wqe, &copy, &d);
	if (*cause) {
		if (copy)
			weft_nic_free(qp->nic, copy);
		return weft_gather_failed(caller);
	}
	d.src_qpn = qp->qpn | (uint32_t)weft_grh_fill(grh, ah, has_imm, d.bytes) << 24;
	weft_span_private(&d.span[0], grh, sizeof(grh));
	if (wqe->remote_qpn == WEFT_QPN_MULTICAST) {
		weft_datagram_deliver_all(&d, ah->dgid, 0);
	} else {
		own = weft_lock(qp->nic, &ah->lock, caller->thread);
		weft_datagram_deliver(&d, wqe->remote_qpn, ah->dgid, ah->carried);
		weft_unlock(&ah->lock, own);
	}
	if (copy)
		weft_nic_free(qp->nic, copy);
	return WEFT_DONE;
}

enum weft_outcome weft_direct_issue_datagram(struct weft_qp *qp, struct weft_wqe *wqe,
					     struct weft_caller *caller, enum weft_cause *cause)
{
	return weft_gather_issue(issue_datagram_alone, qp, wqe, caller, cause);
}
