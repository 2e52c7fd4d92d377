/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a request of a connection may do at the responder, whichever transport has brought it: *begin* checks the
 * rights, the receive and the key, *place* copies its bytes, *end* tells the responder. All rules about keys,
 * receives, atomics, invalidation and faults of connections stand here and in arrive.c; those of datagrams in
 * datagram.c.
 *
 * From begin to end the busy line of the calling thread names the responder's owner, and a lock of
 * the carrier's lets one request of the requester arrive at a time. What is frequent is inline: as
 * calls it would cost a posted WRITE an eighth of its time.
 */
#ifndef WEFT_NIC_ARRIVE_H
#define WEFT_NIC_ARRIVE_H

#include "nic/errors.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "nic/responder.h"
#include "nic/transport.h"
#include "pool/slice.h"
#include "pool/step.h"
#include "pool/format_line.h"
#include "pool/format_queue.h"

/* For a call of the rare half, which takes a pointer: a copy of the arrival that is made at the call, or the
 * compiler would make one for each request. */
#define WEFT_ASIDE(a) (&(const struct weft_arrival[]){a}[0])

#define WEFT_ARRIVE   static inline __attribute__((always_inline))

/* One request that has arrived. Passed by value, so that it stays in registers. Of the request only
 * the header counts, which is what stands before its list. */
struct weft_arrival {
	struct weft_nic *nic;	   /* of the executor */
	struct weft_responder *to; /* whose keys and receives it is about */
	const struct weft_wqe *request;
	struct weft_caller *caller;
	const struct weft_span *here; /* the bytes on the requester's side: `nhere` spans */
	uint64_t len_bytes;
	unsigned int nhere;
	enum weft_cause *cause; /* written with WEFT_FAILED */
};

/* A receive that a message goes into. */
struct weft_arrive_receive {
	const struct weft_pool_recv *recv;
	uint64_t wr_id;
	uint64_t binding; /* of the window that it ends */
	uint32_t used;	  /* elements of the receive that the message needs */
};

/* Both sides are in error, as after a NAK. */
enum weft_outcome weft_arrive_blame(const struct weft_arrival *a, enum weft_event event,
				    enum weft_cause cause);
/* The same for what the responder refuses; a requester without reliability is not told (9.8.3). */
enum weft_outcome weft_arrive_refuse(const struct weft_arrival *a, enum weft_event event,
				     enum weft_cause cause);
/* Bytes of a one-sided request, or of a message, could not be placed; WEFT_UNDER_WAY: not yet, where
 * the carrier has given a->to->grant a struct weft_later. here: the spans on the requester's side, of which the one at
 * fault may be one. */
enum weft_outcome weft_arrive_unreachable(const struct weft_arrival *a, int err);
enum weft_outcome weft_arrive_undelivered(const struct weft_arrival *a,
					  const struct weft_arrive_receive *landing, int err);
/* The buffers of the receive that was taken were not found, for that cause: the receive is at fault, unless their
 * owner only rehomes them. */
enum weft_outcome weft_arrive_not_found(const struct weft_arrival *a,
					const struct weft_arrive_receive *landing,
					enum weft_cause cause);
/* As weft_arrive_find_received, for any receive. */
enum weft_cause weft_arrive_find_list(const struct weft_arrival *a,
				      struct weft_arrive_receive *landing,
				      struct weft_spans *there);
/* What is no region of the responder's domain may be a window. */
bool weft_arrive_find_window(const struct weft_arrival *a, uint64_t bytes, uint8_t access,
			     struct weft_span *span);
/* Whether what could not be placed is no fault of the responder's; then *outcome. */
bool weft_arrive_is_own_fault(const struct weft_arrival *a, int err, enum weft_outcome *outcome);

/* Of windows of type 2 at the responder. */
static inline uint64_t weft_arrive_window_domain(struct weft_arrival a)
{
	return weft_domain(a.to->grant.member, a.to->from.dest_qpn | WEFT_PD_QP_WINDOW);
}

/* The grant is looked at once more: since the last time the thread may have been stopped, the queue pair taken
 * from the requester, its memory rehomed out of its reach (process/rehome.c), and the new place learned by another
 * thread of this process. */
WEFT_ARRIVE int weft_arrive_place(struct weft_arrival a, const struct weft_span *to)
{
	if (__builtin_expect(weft_responder_is_gone(a.to), 0)) {
		a.caller->failed = NULL;
		return -ESRCH;
	}
	return weft_place(a.nic, a.caller, &a.to->grant, to, a.here, a.len_bytes);
}

/* Bytes that a READ asks for: nothing of the responder's changes. */
WEFT_ARRIVE int weft_arrive_fetch(struct weft_arrival a, const struct weft_span *from)
{
	return weft_place(a.nic, a.caller, &a.to->grant, a.here, from, a.len_bytes);
}

/* ---- SEND ---- */

/* WEFT_DONE: there is a receive for the message, and its bytes have to be found. */
WEFT_ARRIVE enum weft_outcome weft_arrive_begin_send(struct weft_arrival a,
						     struct weft_arrive_receive *landing)
{
	landing->recv = weft_responder_receive(a.to);
	if (!landing->recv)
		return WEFT_NO_RECEIVE;
	WEFT_STEP(direct_receive_found);
	if (a.request->opcode == WEFT_OP_SEND_INV &&
	    !weft_mw_find(a.nic->pool, a.request->imm, weft_arrive_window_domain(a),
			  &landing->binding))
		return weft_arrive_refuse(WEFT_ASIDE(a), WEFT_EVENT_QP_ACCESS_ERR,
					  WEFT_CAUSE_REMOTE_INVALIDATE);
	landing->wr_id = landing->recv->wr_id;
	return WEFT_DONE;
}

/* Whether the receive is one element, and the message has bytes. */
WEFT_ARRIVE bool weft_arrive_is_single(struct weft_arrival a,
				       const struct weft_arrive_receive *landing)
{
	return __builtin_expect(landing->recv->num_sge == 1 && a.len_bytes, 1);
}

/* Where the bytes of such a receive lie. WEFT_CAUSE_NONE: the message may be placed there, and then must end. */
WEFT_ARRIVE enum weft_cause weft_arrive_find_received(struct weft_arrival a,
						      struct weft_arrive_receive *landing,
						      struct weft_span *there)
{
	struct weft_pool_sge sge = landing->recv->sge[0];

	landing->used = 1;
	if (sge.len_bytes < a.len_bytes)
		return WEFT_CAUSE_RECEIVE_LENGTH;
	if (!weft_mr_find(a.nic->pool, a.caller, sge.lkey, a.to->receive_domain, sge.addr,
			  sge.len_bytes, WEFT_ACCESS_LOCAL_WRITE, there))
		return WEFT_CAUSE_RECEIVE_KEY;
	return WEFT_CAUSE_NONE;
}

WEFT_ARRIVE void weft_arrive_end_send(struct weft_arrival a,
				      const struct weft_arrive_receive *landing)
{
	struct weft_counters *counters = &a.caller->line->counters;

	if (a.request->opcode == WEFT_OP_SEND_INV)
		weft_mw_end(a.nic->pool, a.request->imm, landing->binding);
	weft_responder_complete(a.to, a.request, landing->wr_id, (uint32_t)a.len_bytes,
				WEFT_WC_SUCCESS, a.caller->thread);
	counters->ops_send++;
	counters->bytes_send += a.len_bytes;
}

/* ---- WRITE, READ, atomics ---- */

/* The remote range of a one-sided request; one of no bytes needs no key (C9-88). False: it is refused, as *outcome
 * says. */
WEFT_ARRIVE bool weft_arrive_find_remote(struct weft_arrival a, uint64_t bytes, uint8_t access,
					 struct weft_span *span, enum weft_outcome *outcome)
{
	if (!(a.to->access & access)) {
		*outcome = weft_arrive_refuse(WEFT_ASIDE(a), WEFT_EVENT_QP_REQ_ERR,
					      WEFT_CAUSE_REMOTE_RIGHT);
		return false;
	}
	if (bytes &&
	    !weft_mr_find(a.nic->pool, a.caller, a.request->rkey, a.to->domain,
			  a.request->remote_addr, bytes, access, span) &&
	    !weft_arrive_find_window(WEFT_ASIDE(a), bytes, access, span)) {
		*outcome = weft_find_later(a.caller)
				   ? WEFT_REHOMING
				   : weft_arrive_refuse(WEFT_ASIDE(a), WEFT_EVENT_QP_ACCESS_ERR,
							WEFT_CAUSE_REMOTE_KEY);
		return false;
	}
	return true;
}

/* *recv: of a WRITE with immediate, which uses a receive up; else NULL. */
WEFT_ARRIVE enum weft_outcome weft_arrive_begin_write(struct weft_arrival a, struct weft_span *to,
						      const struct weft_pool_recv **recv)
{
	enum weft_outcome outcome;

	*recv = NULL;
	if (!weft_arrive_find_remote(a, a.len_bytes, WEFT_ACCESS_REMOTE_WRITE, to, &outcome))
		return outcome;
	if (a.request->opcode == WEFT_OP_WRITE_IMM) {
		*recv = weft_responder_receive(a.to);
		if (!*recv)
			return WEFT_NO_RECEIVE;
	}
	return WEFT_DONE;
}

WEFT_ARRIVE void weft_arrive_end_write(struct weft_arrival a, const struct weft_pool_recv *recv)
{
	struct weft_counters *counters = &a.caller->line->counters;

	WEFT_STEP(direct_written);
	if (recv)
		weft_responder_complete(a.to, a.request, recv->wr_id, (uint32_t)a.len_bytes,
					WEFT_WC_SUCCESS, a.caller->thread);
	counters->ops_write++;
	counters->bytes_write += a.len_bytes;
}

WEFT_ARRIVE enum weft_outcome weft_arrive_begin_read(struct weft_arrival a, struct weft_span *at)
{
	enum weft_outcome outcome;

	return weft_arrive_find_remote(a, a.len_bytes, WEFT_ACCESS_REMOTE_READ, at, &outcome)
		       ? WEFT_DONE
		       : outcome;
}

WEFT_ARRIVE void weft_arrive_end_read(struct weft_arrival a)
{
	struct weft_counters *counters = &a.caller->line->counters;

	/* acquire: pairs with the releases of the executor that wrote those bytes; the next READ sees no
	 * older ones (9.5), on Arm as well */
	atomic_thread_fence(memory_order_acquire);
	counters->ops_read++;
	counters->bytes_read += a.len_bytes;
}

/* The word of an atomic operation, or of an ATOMIC WRITE, of 8 bytes. */
WEFT_ARRIVE enum weft_outcome weft_arrive_begin_atomic(struct weft_arrival a, uint8_t access,
						       struct weft_span *at)
{
	enum weft_outcome outcome;

	if (!weft_arrive_find_remote(a, 8, access, at, &outcome))
		return outcome;
	/* a zero-based region may begin anywhere, so that both count */
	if ((a.request->remote_addr |
	     (at->at ? (uintptr_t)at->at : weft_span_mr(a.nic->pool, at)->va + at->start)) &
	    7)
		return weft_arrive_refuse(WEFT_ASIDE(a), WEFT_EVENT_QP_REQ_ERR,
					  WEFT_CAUSE_ALIGNMENT);
	return WEFT_DONE;
}

/* 0 and the old value, or an error for weft_arrive_unreachable. */
WEFT_ARRIVE int weft_arrive_atomic(struct weft_arrival a, const struct weft_span *at, bool add,
				   uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	if (weft_responder_is_gone(a.to)) {
		a.caller->failed = NULL;
		return -ESRCH;
	}
	return weft_place_atomic(a.nic, a.caller, &a.to->grant, at, add, compare_add, swap, old);
}

/* Stores eight bytes that no reader sees in part, wherever they lie (A19.4). Errors as above. */
int weft_arrive_atomic_write(const struct weft_arrival *a, const struct weft_span *at,
			     uint64_t value);

#endif
