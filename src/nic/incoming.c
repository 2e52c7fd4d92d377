/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/incoming.h"

#include "nic/arrive.h"
#include "nic/busy.h"
#include "nic/wqe.h"
#include "pool/format_qp.h"
#include "pool/format_queue.h"

enum family { SENDS, WRITES, READS };

static enum family family_of(uint8_t opcode)
{
	if (opcode == WEFT_OP_READ)
		return READS;
	return opcode == WEFT_OP_WRITE || opcode == WEFT_OP_WRITE_IMM ? WRITES : SENDS;
}

/* All of the request; its bytes on the requester's side are not here. */
static struct weft_arrival arrival(const struct weft_incoming *in, enum weft_cause *cause)
{
	return (struct weft_arrival){.nic = in->to->from.nic,
				     .to = in->at,
				     .request = &in->request,
				     .caller = in->caller,
				     .len_bytes = in->len_bytes,
				     .cause = cause};
}

void weft_incoming_prepare(struct weft_incoming *in, struct weft_responder *to,
			   const struct weft_wqe *request, uint64_t len_bytes)
{
	*in = (struct weft_incoming){.to = to, .at = to, .len_bytes = len_bytes};
	__builtin_memcpy(&in->request, request, sizeof(in->request));
}

void weft_incoming_prepare_xrc(struct weft_incoming *in, struct weft_responder *to,
			       struct weft_xrc_queue *queue, const struct weft_wqe *request,
			       uint64_t len_bytes)
{
	weft_incoming_prepare(in, to, request, len_bytes);
	in->queue = queue;
}

/* ---- Being there ---- */

/* A receive of a queue from which others take, too, was let go of as the line was read anew; a queue pair that was
 * reset has no receive any more. */
static bool has_lost(const struct weft_incoming *in)
{
	bool receives =
		family_of(in->request.opcode) == SENDS || in->request.opcode == WEFT_OP_WRITE_IMM;

	return in->begun && (in->tag != in->to->tag || (receives && in->to->take.at));
}

static enum weft_outcome look_at_header(struct weft_incoming *in)
{
	/* acquire: pairs with the release in publish_qp (qp.c) */
	if (atomic_load_explicit(&in->to->slot->conn, memory_order_acquire) == in->to->grant.was)
		return WEFT_DONE;
	if (!weft_responder_read(in->to))
		return weft_responder_rehomes(in->to) ? WEFT_REHOMING : WEFT_NO_ANSWER;
	if (has_lost(in)) {
		in->begun = false;
		return WEFT_NO_RECEIVE;
	}
	in->tag = in->to->tag;
	return WEFT_DONE;
}

/* Finds the queue that it names, without a line; what was held of another, or of this one before its owner
 * rehomed, is let go of. False: not found, as *outcome says; WEFT_DONE: there is none. */
static bool find_queue(struct weft_incoming *in, enum weft_outcome *outcome)
{
	struct weft_responder *at = in->at;

	in->lost |= in->begun && at->held;
	weft_responder_drop(at);
	in->queue->number = 0;
	*outcome = WEFT_REHOMING;
	if (!weft_responder_queue(in->to, weft_xrc_number(&in->request), at)) {
		if (weft_responder_rehomes(at))
			return false;
		in->at = NULL;
		in->lost |= in->begun;
	}
	*outcome = in->lost ? WEFT_NO_RECEIVE : WEFT_DONE;
	if (in->lost)
		in->begun = in->lost = false;
	return in->at && *outcome == WEFT_DONE;
}

/* The line that named the owner of the connection is idle again. */
static enum weft_outcome enter_queue(struct weft_incoming *in)
{
	uint32_t number = weft_xrc_number(&in->request);
	struct weft_xrc_queue *q = in->queue;
	bool known = weft_xrc_knows(q, in->to, number);
	enum weft_outcome outcome;

	in->at = &q->responder;
	if (!known && !find_queue(in, &outcome)) {
		if (outcome == WEFT_DONE)
			in->next = weft_busy_begin(in->caller, in->to->busy_at);
		return outcome;
	}
	in->next = weft_busy_begin(in->caller, q->responder.busy_at);
	if (known ? !weft_responder_is_gone(&q->responder) : weft_xrc_map(q, in->to, number))
		return WEFT_DONE;
	weft_incoming_leave(in);
	return WEFT_NO_ANSWER;
}

enum weft_outcome weft_incoming_enter(struct weft_incoming *in, struct weft_caller *caller)
{
	enum weft_outcome outcome;

	in->caller = caller;
	in->next = weft_busy_begin(caller, in->to->busy_at);
	outcome = look_at_header(in);
	if (outcome == WEFT_DONE && !in->queue)
		return outcome;
	weft_incoming_leave(in);
	return outcome == WEFT_DONE ? enter_queue(in) : outcome;
}

void weft_incoming_leave(struct weft_incoming *in)
{
	weft_busy_end(in->caller, in->next);
}

/* ---- Begin ---- */

/* Where the whole message goes; anything but WEFT_DONE: it goes nowhere. */
static enum weft_outcome find_landing(struct weft_arrival whole,
				      struct weft_arrive_receive *landing, struct weft_spans *there)
{
	enum weft_cause cause = weft_arrive_find_list(&whole, landing, there);

	return cause ? weft_arrive_not_found(&whole, landing, cause) : WEFT_DONE;
}

/* Apart: a frame has room for one list of spans (tools/check-freestanding.py). */
static __attribute__((__noinline__)) enum weft_outcome begin_send(struct weft_incoming *in,
								  struct weft_arrival a)
{
	struct weft_arrive_receive landing = {0};
	struct weft_spans there;
	enum weft_outcome outcome = weft_arrive_begin_send(a, &landing);

	if (outcome == WEFT_DONE)
		outcome = find_landing(a, &landing, &there);
	if (outcome == WEFT_DONE) {
		in->wr_id = landing.wr_id;
		in->binding = landing.binding;
	}
	return outcome;
}

static enum weft_outcome begin_by_opcode(struct weft_incoming *in, struct weft_arrival a)
{
	const struct weft_pool_recv *recv;
	struct weft_span span;
	enum weft_outcome outcome;

	switch (family_of(in->request.opcode)) {
	case READS:
		return weft_arrive_begin_read(a, &span);
	case WRITES:
		outcome = weft_arrive_begin_write(a, &span, &recv);
		if (outcome == WEFT_DONE && recv)
			in->wr_id = recv->wr_id;
		return outcome;
	case SENDS:
		break;
	}
	return begin_send(in, a);
}

enum weft_outcome weft_incoming_begin(struct weft_incoming *in, enum weft_cause *cause)
{
	enum weft_outcome outcome;

	if (!in->at) {
		in->at = in->to;
		return weft_arrive_blame(WEFT_ASIDE(arrival(in, cause)), WEFT_EVENT_QP_REQ_ERR,
					 WEFT_CAUSE_REMOTE_QUEUE);
	}
	outcome = begin_by_opcode(in, arrival(in, cause));
	in->begun = outcome == WEFT_DONE;
	in->tag = in->to->tag;
	return outcome;
}

/* ---- A part ---- */

/* The bytes of a one-sided request from `offset` on. */
static enum weft_outcome place_one_sided(struct weft_arrival a, uint64_t offset, bool write)
{
	struct weft_wqe part;
	struct weft_span there;
	enum weft_outcome outcome;
	int err;

	__builtin_memcpy(&part, a.request, sizeof(part));
	part.remote_addr += offset;
	a.request = &part;
	if (!weft_arrive_find_remote(a, a.len_bytes,
				     write ? WEFT_ACCESS_REMOTE_WRITE : WEFT_ACCESS_REMOTE_READ,
				     &there, &outcome))
		return outcome;
	err = write ? weft_arrive_place(a, &there) : weft_arrive_fetch(a, &there);
	return err ? weft_arrive_unreachable(&a, err) : WEFT_DONE;
}

/* The receive that `begin_by_opcode` has found is still the oldest. */
static enum weft_outcome place_send(struct weft_incoming *in, uint64_t offset,
				    struct weft_arrival a)
{
	struct weft_arrive_receive landing = {.recv = weft_responder_receive(in->at),
					      .wr_id = in->wr_id};
	struct weft_spans there;
	enum weft_outcome outcome;
	int err;

	if (!landing.recv)
		return WEFT_NO_RECEIVE;
	outcome = find_landing(arrival(in, a.cause), &landing, &there);
	if (outcome != WEFT_DONE)
		return outcome;
	weft_spans_cut(&there, offset);
	err = weft_arrive_place(a, there.span);
	return err ? weft_arrive_undelivered(&a, &landing, err) : WEFT_DONE;
}

enum weft_outcome weft_incoming_place(struct weft_incoming *in, uint64_t offset,
				      const struct weft_spans *here, enum weft_cause *cause)
{
	struct weft_arrival a = arrival(in, cause);
	enum family family = family_of(in->request.opcode);

	a.here = here->span;
	a.nhere = here->n;
	a.len_bytes = here->len_bytes;
	return family == SENDS ? place_send(in, offset, a)
			       : place_one_sided(a, offset, family == WRITES);
}

/* ---- End ---- */

void weft_incoming_end(struct weft_incoming *in)
{
	struct weft_arrive_receive landing = {.wr_id = in->wr_id, .binding = in->binding};
	struct weft_pool_recv recv = {.wr_id = in->wr_id};
	struct weft_arrival a = arrival(in, NULL);

	switch (family_of(in->request.opcode)) {
	case READS:
		weft_arrive_end_read(a);
		return;
	case WRITES:
		weft_arrive_end_write(a, in->request.opcode == WEFT_OP_WRITE_IMM ? &recv : NULL);
		return;
	case SENDS:
		weft_arrive_end_send(a, &landing);
	}
}
