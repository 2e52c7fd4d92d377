/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The requests of one queue pair: where they are posted, their bytes on the requester's side, and how it is told that they have
 * ended. */
#include "card/hand.h"
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "nic/wqe.h"
#include "pool/completed.h"
#include "pool/format_qp.h"
#include "pool/format_ring.h"
#include "pool/step.h"

/* ---- Bytes ---- */

static struct weft_wqe *request_at(const struct weft_card_hand *hand, uint64_t position)
{
	return (void *)(hand->sq + (position & hand->sq_mask) * hand->sq_stride);
}

const struct weft_wqe *weft_card_request(const struct weft_card_hand *hand, uint64_t position)
{
	return request_at(hand, position);
}

static enum weft_outcome refuse_request(enum weft_cause *cause, enum weft_cause what)
{
	*cause = what;
	return WEFT_FAILED;
}

static enum weft_outcome find_bytes(struct weft_card_hand *hand, const struct weft_wqe *request,
				    uint64_t offset, uint8_t access, struct weft_spans *spans,
				    enum weft_cause *cause)
{
	struct weft_caller *caller = hand->card->caller;
	uint32_t most = (hand->sq_stride - (uint32_t)sizeof(*request)) /
			(uint32_t)sizeof(struct weft_pool_sge);
	uint64_t domain = weft_domain(hand->grant.member, hand->slot->pd);

	spans->n = 0;
	if (request->num_sge > most || request->num_sge > WEFT_MAX_SGE ||
	    !weft_spans_find(hand->card->nic->pool, caller, request->sge, request->num_sge, domain,
			     access, spans))
		return weft_find_later(caller) ? WEFT_REHOMING
					       : refuse_request(cause, WEFT_CAUSE_LOCAL_KEY);
	if (offset)
		weft_spans_cut(spans, offset);
	return WEFT_DONE;
}

/* An error between here and the requester's memory. */
static enum weft_outcome unreachable(struct weft_card_hand *hand, int err, enum weft_cause *cause)
{
	/* the carrier does not wait (weft_later_attach) */
	if (err == -EINPROGRESS)
		return WEFT_UNDER_WAY;
	/* the requester, or a member of its domain, rehomes or has ended: the next look tells which */
	if (err == -ESRCH || err == -ESTALE)
		return WEFT_REHOMING;
	return refuse_request(cause, WEFT_CAUSE_LOCAL_MEMORY);
}

enum weft_outcome weft_card_gather(struct weft_card_hand *hand, uint64_t position,
				   const struct weft_wqe *request, uint64_t offset, void *here,
				   uint64_t bytes, enum weft_cause *cause)
{
	struct weft_spans from;
	struct weft_span to;
	enum weft_outcome outcome;
	int err;

	if (request->flags & WEFT_SEND_INLINE) {
		if (offset + bytes > hand->sq_stride - sizeof(*request))
			return refuse_request(cause, WEFT_CAUSE_MESSAGE_LENGTH);
		__builtin_memcpy(here, weft_wqe_inline(request_at(hand, position)) + offset, bytes);
		return WEFT_DONE;
	}
	outcome = find_bytes(hand, request, offset, 0, &from, cause);
	if (outcome != WEFT_DONE || !bytes)
		return outcome;
	weft_span_private(&to, here, bytes);
	err = weft_place_scattered(hand->card->nic, hand->card->caller, &hand->grant, &to,
				   from.span, bytes);
	return err ? unreachable(hand, err, cause) : WEFT_DONE;
}

enum weft_outcome weft_card_scatter(struct weft_card_hand *hand, const struct weft_wqe *request,
				    uint64_t offset, void *here, uint64_t bytes,
				    enum weft_cause *cause)
{
	struct weft_spans to;
	struct weft_span from;
	enum weft_outcome outcome;
	int err;

	outcome = find_bytes(hand, request, offset, WEFT_ACCESS_LOCAL_WRITE, &to, cause);
	if (outcome != WEFT_DONE || !bytes)
		return outcome;
	weft_span_private(&from, here, bytes);
	err = weft_place_scattered(hand->card->nic, hand->card->caller, &hand->grant, to.span,
				   &from, bytes);
	return err ? unreachable(hand, err, cause) : WEFT_DONE;
}

/* ---- Ending ---- */

static void put_return(struct weft_card_hand *hand, uint64_t position, uint32_t bytes)
{
	struct weft_pool_ring *ring = hand->returns;
	uint64_t at = atomic_load_explicit(&ring->produced, memory_order_relaxed);
	struct weft_pool_cqe *cqe = &ring->cqe[at & hand->returns_mask];

	cqe->wr_id = position;
	cqe->qpn = hand->tag;
	cqe->byte_len = bytes;
	cqe->imm = cqe->src_qpn = 0;
	cqe->status = WEFT_WC_SUCCESS;
	cqe->opcode = cqe->flags = cqe->solicited = 0;
	if (ring->stamped)
		weft_pool_ring_stamps(ring, hand->returns_mask + 1)[at & hand->returns_mask] =
			weft_nic_stamp_ns(hand->card->nic);
	WEFT_STEP(card_entry_written);
	/* release: pairs with the acquire of the poller (weft_cq_entry_at) */
	atomic_store_explicit(&cqe->lap, (uint32_t)(at >> hand->returns_bits) + 1,
			      memory_order_release);
	WEFT_STEP(card_returned);
	atomic_store_explicit(&ring->produced, at + 1, memory_order_relaxed);
}

void weft_card_succeed(struct weft_card_hand *hand, uint64_t position,
		       const struct weft_wqe *request)
{
	bool tells = hand->signal_all || request->flags & WEFT_SEND_SIGNALED;

	if (tells)
		put_return(hand, position, request->len_bytes);
	/* release: pairs with the acquire in take_ended (handed.c) */
	atomic_store_explicit(&hand->hand->ended, position + 1, memory_order_release);
	WEFT_STEP(card_ended);
	if (tells)
		weft_pool_completed(hand->card->nic->pool, hand->returns, hand->grant.member,
				    false);
}

void weft_card_fail(struct weft_card_hand *hand, uint64_t position, enum weft_cause cause)
{
	struct weft_pool *pool = hand->card->nic->pool;

	hand->stopped = true;
	/* release: pairs with the acquire in take_ended (handed.c) */
	atomic_store_explicit(&hand->hand->verdict, weft_verdict(position, cause),
			      memory_order_release);
	WEFT_STEP(card_verdict);
	pool->calls->signal(pool, hand->grant.member, WEFT_SIGNAL_WORK);
}
