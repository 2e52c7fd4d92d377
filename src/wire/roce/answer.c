/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * READs and atomics at the responder: done once, remembered, and answered again when asked again
 * (9.7.5.1, 9.4.5). Answers go in the order of PSNs, in pieces; an acknowledgement follows those before
 * it, since it would acknowledge them, too.
 */
#include "wire/roce/internal.h"

#define MESSAGE_MOST (1u << 31)

static struct weft_roce_answer *answer_at(struct weft_roce_responder *r, uint32_t i)
{
	return &r->answer[i % WEFT_ROCE_FETCHES];
}

/* ---- Asked for ---- */

/* Room to remember one more, in place of the oldest, which the peer has the answer of, even if that is just
 * being given again; a peer that asks for more at a time than was agreed breaks the rules. */
static bool has_room(struct weft_roce_qp *qp)
{
	struct weft_roce_responder *r = &qp->responder;
	const struct weft_roce_answer *oldest = answer_at(r, r->answer_head);

	if (r->answer_tail - r->answer_head < qp->config.max_dest_rd_atomic)
		return true;
	if (!qp->config.max_dest_rd_atomic || !oldest->told)
		return false;
	r->answer_head++;
	return true;
}

static uint8_t access_of(uint8_t verb)
{
	return verb == WEFT_ROCE_READ	     ? WEFT_ACCESS_REMOTE_READ
	       : verb == WEFT_ROCE_ATOMIC_OP ? WEFT_ACCESS_REMOTE_ATOMIC
					     : WEFT_ACCESS_REMOTE_WRITE;
}

static int carry_out_request(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
			     uint8_t verb, uint32_t bytes, uint64_t *old)
{
	int answer;

	if (!qp->config.max_dest_rd_atomic || bytes > MESSAGE_MOST)
		return WEFT_CAUSE_REMOTE_RIGHT;
	answer = qp->world->allows(qp, packet->rkey, packet->va, bytes, access_of(verb));
	if (answer)
		return answer;
	if (verb != WEFT_ROCE_READ && packet->va & 7)
		return WEFT_CAUSE_ALIGNMENT;
	if (!has_room(qp))
		return WEFT_CAUSE_REMOTE_RIGHT;
	if (verb == WEFT_ROCE_ATOMIC_OP)
		return qp->world->atomic(qp, packet, old);
	return verb == WEFT_ROCE_READ
		       ? 0
		       : qp->world->place(qp, packet->rkey, packet->va, packet->payload, 8);
}

void weft_roce_ask(struct weft_roce_qp *qp, const struct weft_roce_packet *packet)
{
	const uint8_t verb = weft_roce_row(packet->opcode)->verb;
	struct weft_roce_responder *r = &qp->responder;
	uint32_t bytes = verb == WEFT_ROCE_READ ? packet->length : 8;
	uint64_t old = 0, first = r->expected;
	int answer = carry_out_request(qp, packet, verb, bytes, &old);

	if (answer > 0)
		weft_roce_refuse(qp, (enum weft_cause)answer);
	if (answer)
		return;
	r->msn++;
	r->expected += verb == WEFT_ROCE_READ ? weft_roce_packets(bytes, qp->config.mtu) : 1;
	*answer_at(r, r->answer_tail++) = (struct weft_roce_answer){
		.opcode = packet->opcode,
		.srqn = packet->srqn,
		.first = first,
		.end = r->expected,
		.from = first,
		.at = first,
		.stop = r->expected,
		.va = packet->va,
		.rkey = packet->rkey,
		.length = bytes,
		.msn = r->msn,
		.old = old,
	};
}

/* The same, or the rest, or a part of it. The key is checked anew as its bytes are taken. */
void weft_roce_ask_again(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
			 uint64_t psn)
{
	struct weft_roce_responder *r = &qp->responder;

	for (uint32_t i = r->answer_head; i != r->answer_tail; i++) {
		struct weft_roce_answer *a = answer_at(r, i);
		uint64_t offset = (psn - a->first) * qp->config.mtu, stop = a->end;

		if (psn < a->first || psn >= a->end)
			continue;
		if (packet->opcode != a->opcode || packet->srqn != a->srqn ||
		    packet->rkey != a->rkey || packet->va != a->va + offset)
			return;
		if (weft_roce_row(a->opcode)->verb == WEFT_ROCE_READ) {
			if (packet->length > a->length - offset)
				return;
			stop = psn + weft_roce_packets(packet->length, qp->config.mtu);
			/* a part that ends within a packet is not one that was asked for */
			if (stop < a->end && packet->length % qp->config.mtu)
				return;
		}
		if (a->at == a->stop || stop > a->stop)
			a->stop = stop;
		/* the peer has what is before, and takes nothing but a first packet now, even if this has not been
		 * answered for the first time yet */
		a->from = a->at = psn;
		return;
	}
}

/* ---- Sent ---- */

static int send_response(struct weft_roce_qp *qp, struct weft_roce_answer *a)
{
	/* by place: neither, first, last, both */
	static const uint8_t responses[] = {WEFT_ROCE_OP_RESPONSE_MIDDLE,
					    WEFT_ROCE_OP_RESPONSE_FIRST, WEFT_ROCE_OP_RESPONSE_LAST,
					    WEFT_ROCE_OP_RESPONSE_ONLY};
	bool atomic = weft_roce_row(a->opcode)->verb == WEFT_ROCE_ATOMIC_OP;
	uint8_t place = (uint8_t)((a->at == a->from) | (a->at + 1 == a->stop) << 1);
	struct weft_roce_packet p = weft_roce_blank(
		qp, atomic ? WEFT_ROCE_OP_ATOMIC_ACKNOWLEDGE : responses[place], a->at);
	struct weft_roce_bytes bytes = {WEFT_ROCE_NO_BYTES};

	p.syndrome = WEFT_ROCE_SYNDROME_ACK;
	p.msn = a->msn & WEFT_ROCE_PSN_MASK;
	p.old = a->old;
	if (weft_roce_row(a->opcode)->verb == WEFT_ROCE_READ && a->length) {
		uint64_t offset = (a->at - a->first) * qp->config.mtu, rest = a->length - offset;

		p.payload_bytes = rest < qp->config.mtu ? (uint32_t)rest : qp->config.mtu;
		bytes = (struct weft_roce_bytes){WEFT_ROCE_OF_MEMORY, .va = a->va + offset,
						 .rkey = a->rkey, .srqn = a->srqn};
	}
	return weft_roce_send(qp, &p, &bytes);
}

/* Behind a response that cannot be given nothing is answered. */
static void cannot_answer(struct weft_roce_qp *qp, uint64_t psn, enum weft_cause cause)
{
	struct weft_roce_responder *r = &qp->responder;

	weft_roce_refuse(qp, cause);
	r->nak_psn = psn;
	r->answer_head = r->answer_tail;
}

/* An ACK or NAK. */
static int send_verdict(struct weft_roce_qp *qp, uint8_t syndrome, uint64_t psn)
{
	struct weft_roce_packet p = weft_roce_blank(qp, WEFT_ROCE_OP_ACKNOWLEDGE, psn);
	struct weft_roce_bytes bytes = {WEFT_ROCE_NO_BYTES};

	p.syndrome = syndrome;
	p.msn = qp->responder.msn & WEFT_ROCE_PSN_MASK;
	return weft_roce_send(qp, &p, &bytes);
}

static void send_verdicts(struct weft_roce_qp *qp)
{
	struct weft_roce_responder *r = &qp->responder;
	bool rnr = (r->nak & WEFT_ROCE_SYNDROME_KIND) == WEFT_ROCE_SYNDROME_RNR;

	if (r->nak) {
		if (send_verdict(qp, r->nak, r->nak_psn))
			return;
		qp->counters.rnr_sent += rnr;
		qp->counters.naks_sent += !rnr;
		r->nak = 0;
		r->ack = false; /* a NAK acknowledges what is before it */
		if (r->stopped)
			qp->world->event(qp, r->fault);
	} else if (r->ack) {
		r->ack = !!send_verdict(qp, WEFT_ROCE_SYNDROME_ACK, r->expected - 1);
	}
}

void weft_roce_close(struct weft_roce_qp *qp)
{
	struct weft_roce_responder *r = &qp->responder;

	for (uint32_t i = r->answer_head; i != r->answer_tail; i++)
		if (answer_at(r, i)->at < answer_at(r, i)->stop)
			return;
	if (!r->nak || r->stopped)
		send_verdicts(qp);
}

bool weft_roce_answer(struct weft_roce_qp *qp, uint32_t *budget)
{
	struct weft_roce_responder *r = &qp->responder;

	for (uint32_t i = r->answer_head; i != r->answer_tail; i++) {
		struct weft_roce_answer *a = answer_at(r, i);

		while (a->at < a->stop) {
			int answer;

			if (!*budget)
				return true;
			answer = send_response(qp, a);
			if (answer < 0)
				return false;
			if (answer) {
				cannot_answer(qp, a->at, (enum weft_cause)answer);
				send_verdicts(qp);
				return false;
			}
			a->at++;
			--*budget;
		}
		a->told = true;
	}
	send_verdicts(qp);
	return false;
}
