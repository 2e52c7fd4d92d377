/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a responder makes of requests (9.7.4, 9.8.3, 9.9.3). Those of a reliable connection are done in
 * the order of their PSNs, each once. Without reliability a message is done whole or not at all, and
 * what is wrong with it ends nothing else.
 */
#include "wire/roce/internal.h"

/* A packet of an unreliable connection that is so far behind was overtaken, or comes twice. */
#define OVERTAKEN 1024u

/* ---- What is wrong ---- */

void weft_roce_refuse(struct weft_roce_qp *qp, enum weft_cause cause)
{
#define STATUS(name, status, clause, words) [WEFT_CAUSE_##name] = WEFT_WC_##status,
	static const uint8_t status_of[] = {WEFT_CAUSES(STATUS)};
#undef STATUS
	struct weft_roce_responder *r = &qp->responder;

	r->stopped = true;
	r->nak_psn = r->expected;
	switch (status_of[cause]) {
	case WEFT_WC_REM_ACCESS_ERR:
		r->nak = WEFT_ROCE_SYNDROME_ACCESS;
		r->fault = WEFT_EVENT_QP_ACCESS_ERR;
		break;
	case WEFT_WC_REM_OP_ERR:
		r->nak = WEFT_ROCE_SYNDROME_OPERATION;
		r->fault = cause == WEFT_CAUSE_REMOTE_MEMORY ? WEFT_EVENT_QP_ACCESS_ERR
							     : WEFT_EVENT_QP_FATAL;
		break;
	default:
		r->nak = WEFT_ROCE_SYNDROME_INVALID;
		r->fault = WEFT_EVENT_QP_REQ_ERR;
		break;
	}
}

/* Of a message without reliability: the rest of it is passed over, and a receive taken for it serves the
 * next. */
static void wrong(struct weft_roce_qp *qp, int cause)
{
	if (!weft_roce_is_reliable(qp->config.service))
		qp->responder.message = WEFT_ROCE_SKIPPING;
	else if (cause > 0)
		weft_roce_refuse(qp, (enum weft_cause)cause);
}

/* Whether there is a receive; if not, the peer is told to try again later. */
static bool has_receive(struct weft_roce_qp *qp)
{
	struct weft_roce_responder *r = &qp->responder;
	int answer = r->taken ? 0 : qp->world->take(qp);

	r->taken |= !answer;
	if (answer == WEFT_ROCE_NO_RECEIVE && weft_roce_is_reliable(qp->config.service)) {
		r->nak = WEFT_ROCE_SYNDROME_RNR | (qp->config.min_rnr_timer & 31);
		r->nak_psn = r->expected;
		r->named = true;
	} else if (answer) {
		wrong(qp, answer);
	}
	return r->taken;
}

/* What is wrong with a receive itself fails its queue pair; a message too long for it, where there is no
 * reliability, is passed over (9.9.3, classes D and E). */
static void bad_receive(struct weft_roce_qp *qp, int cause, uint64_t bytes)
{
	struct weft_roce_received what = {.bytes = bytes, .cause = WEFT_CAUSE_OWN_RECEIVE_MEMORY};

	if (cause < 0 ||
	    (cause == WEFT_CAUSE_RECEIVE_LENGTH && !weft_roce_is_reliable(qp->config.service))) {
		wrong(qp, cause);
		return;
	}
	if (cause == WEFT_CAUSE_RECEIVE_LENGTH)
		what.cause = WEFT_CAUSE_OWN_RECEIVE_LENGTH;
	else if (cause == WEFT_CAUSE_RECEIVE_KEY)
		what.cause = WEFT_CAUSE_OWN_RECEIVE_KEY;
	qp->responder.taken = false;
	qp->world->received(qp, &what);
	weft_roce_refuse(qp, (enum weft_cause)cause);
}

/* ---- Messages ---- */

static void note_part(struct weft_roce_qp *qp, const struct weft_roce_packet *packet, bool last)
{
	struct weft_roce_responder *r = &qp->responder;

	r->expected++;
	r->offset += packet->payload_bytes;
	r->ack |= packet->ack_requested && weft_roce_is_reliable(qp->config.service);
	if (last) {
		r->message = WEFT_ROCE_BETWEEN;
		r->msn++;
	}
}

static void complete_receive(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
			     uint64_t bytes, bool by_write)
{
	const uint8_t headers = weft_roce_row(packet->opcode)->headers;

	qp->responder.taken = false;
	qp->world->received(
		qp, &(struct weft_roce_received){
			    .bytes = bytes,
			    .by_write = by_write,
			    .with_imm = headers & WEFT_ROCE_IMM,
			    .with_inv = headers & WEFT_ROCE_IETH,
			    .imm = headers & WEFT_ROCE_IETH ? packet->ended_key : packet->imm,
			    .solicited = packet->solicited,
		    });
}

static void send_came(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		      const struct weft_roce_row *row)
{
	struct weft_roce_responder *r = &qp->responder;
	bool last = row->place & WEFT_ROCE_LAST;
	int answer = 0;

	if (row->place & WEFT_ROCE_FIRST) {
		if (!has_receive(qp))
			return;
		r->offset = 0;
	}
	if (packet->payload_bytes)
		answer = qp->world->fill(qp, r->offset, packet->payload, packet->payload_bytes);
	if (answer) {
		bad_receive(qp, answer, r->offset + packet->payload_bytes);
		return;
	}
	if (row->headers & WEFT_ROCE_IETH)
		answer = qp->world->end_key(qp, packet->ended_key);
	if (answer) {
		wrong(qp, answer);
		return;
	}
	r->message = WEFT_ROCE_IN_SEND;
	r->srqn = packet->srqn;
	note_part(qp, packet, last);
	if (last)
		complete_receive(qp, packet, r->offset, false);
}

/* All but the last packet are full, and together they are as long as the first has said. */
static int begin_write(struct weft_roce_qp *qp, const struct weft_roce_packet *packet, bool last)
{
	struct weft_roce_responder *r = &qp->responder;

	if (packet->length > 1u << 31 || (!last && packet->length <= qp->config.mtu))
		return WEFT_CAUSE_REMOTE_RIGHT;
	r->offset = 0;
	r->rest = packet->length;
	r->va = packet->va;
	r->rkey = packet->rkey;
	return qp->world->allows(qp, r->rkey, r->va, r->rest, WEFT_ACCESS_REMOTE_WRITE);
}

static void write_came(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		       const struct weft_roce_row *row)
{
	struct weft_roce_responder *r = &qp->responder;
	bool last = row->place & WEFT_ROCE_LAST, imm = row->headers & WEFT_ROCE_IMM;
	int answer = 0;

	if (row->place & WEFT_ROCE_FIRST)
		answer = begin_write(qp, packet, last);
	if (!answer && (last ? packet->payload_bytes != r->rest : packet->payload_bytes >= r->rest))
		answer = WEFT_CAUSE_REMOTE_RIGHT;
	if (answer) {
		wrong(qp, answer);
		return;
	}
	if (imm && !has_receive(qp))
		return;
	if (packet->payload_bytes)
		answer = qp->world->place(qp, r->rkey, r->va + r->offset, packet->payload,
					  packet->payload_bytes);
	if (answer) {
		wrong(qp, answer);
		return;
	}
	r->message = WEFT_ROCE_IN_WRITE;
	r->srqn = packet->srqn;
	r->rest -= packet->payload_bytes;
	note_part(qp, packet, last);
	if (imm)
		complete_receive(qp, packet, r->offset, true);
}

/* ---- In order ---- */

/* Does it belong there, and is it as long as it must be? */
static bool packet_fits(const struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
			const struct weft_roce_row *row)
{
	const enum weft_roce_message message = qp->responder.message;
	bool begins = row->place & WEFT_ROCE_FIRST;

	if (!weft_roce_length_holds(packet, qp->config.mtu))
		return false;
	if (begins || message == WEFT_ROCE_BETWEEN)
		return begins && message == WEFT_ROCE_BETWEEN;
	if (packet->srqn != qp->responder.srqn)
		return false;
	return message == (row->verb == WEFT_ROCE_SEND ? WEFT_ROCE_IN_SEND : WEFT_ROCE_IN_WRITE);
}

static void in_order(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		     const struct weft_roce_row *row)
{
	struct weft_roce_responder *r = &qp->responder;

	r->named = false;
	r->nak = 0;
	if (!r->heard)
		qp->world->event(qp, WEFT_EVENT_COMM_EST);
	r->heard = true;
	if (!packet_fits(qp, packet, row))
		wrong(qp, WEFT_CAUSE_REMOTE_RIGHT);
	else if (row->verb == WEFT_ROCE_SEND)
		send_came(qp, packet, row);
	else if (row->verb == WEFT_ROCE_WRITE)
		write_came(qp, packet, row);
	else
		weft_roce_ask(qp, packet);
}

/* Any packet may be lost: a message that lacks one is passed over. */
static void unreliable(struct weft_roce_qp *qp, const struct weft_roce_packet *packet, uint64_t psn)
{
	const struct weft_roce_row *row = weft_roce_row(packet->opcode);
	struct weft_roce_responder *r = &qp->responder;

	if (psn < r->expected && r->expected - psn <= OVERTAKEN)
		return;
	if (psn < r->expected) /* so many have been lost */
		psn += WEFT_ROCE_PSN_MASK + 1ull;
	if (psn != r->expected && r->message != WEFT_ROCE_BETWEEN)
		r->message = WEFT_ROCE_SKIPPING;
	if (row->place & WEFT_ROCE_FIRST)
		r->message = WEFT_ROCE_BETWEEN;
	r->expected = psn;
	if (r->message != WEFT_ROCE_SKIPPING)
		in_order(qp, packet, row);
	r->expected = psn + 1;
	if (r->nak) { /* only the queue pair's owner hears of it */
		r->nak = 0;
		qp->world->event(qp, r->fault);
	}
}

void weft_roce_requested(struct weft_roce_qp *qp, const struct weft_roce_packet *packet)
{
	const struct weft_roce_row *row = weft_roce_row(packet->opcode);
	struct weft_roce_responder *r = &qp->responder;
	uint64_t psn = weft_roce_unwrap(r->expected, packet->psn);

	if (r->stopped)
		return;
	if (qp->config.service == WEFT_ROCE_UC) {
		unreliable(qp, packet, psn);
	} else if (psn > r->expected) {
		qp->counters.out_of_sequence++;
		if (r->named)
			return;
		r->named = true;
		r->nak = WEFT_ROCE_SYNDROME_SEQUENCE;
		r->nak_psn = r->expected;
	} else if (psn < r->expected) {
		qp->counters.duplicates++;
		if (row->verb == WEFT_ROCE_SEND || row->verb == WEFT_ROCE_WRITE)
			r->ack = true;
		else
			weft_roce_ask_again(qp, packet, psn);
	} else {
		in_order(qp, packet, row);
	}
}
