/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The requester's packets (9.7.1, 9.7.2): which may go, and what stands in them. */
#include "wire/roce/internal.h"

/* An answer is asked for at the end of each message, and at least so often. */
#define UNASKED_MOST 32u
/* Packets that a READ asks for at once: they come whether there is room for them or not. A socket buffer as
 * Linux has it by default takes 90 of 1 KiB. */
#define PART_MOST    64u
#define MESSAGE_MOST (1ull << 31)

static struct weft_roce_request *slot_of(const struct weft_roce_requester *r, uint64_t position)
{
	return &r->ring[position & (r->ring_size - 1)];
}

uint64_t weft_roce_position(const struct weft_roce_requester *r, uint64_t from, uint64_t psn)
{
	while (from < r->posted && slot_of(r, from)->end <= psn)
		from++;
	return from;
}

/* What needs an answer of its own, and counts against max_rd_atomic. */
static bool fetches(const struct weft_roce_request *request)
{
	return weft_op_fetches(request->opcode) || request->opcode == WEFT_OP_ATOMIC_WRITE;
}

/* ---- May it go? ---- */

/* 9.9.2: first its length, then whether there may be such a request, then its keys. */
static int local_fault(struct weft_roce_qp *qp, const struct weft_roce_request *request,
		       uint64_t position)
{
	bool eight = weft_op_is_atomic(request->opcode) || request->opcode == WEFT_OP_ATOMIC_WRITE;

	if (request->length > MESSAGE_MOST)
		return WEFT_CAUSE_MESSAGE_LENGTH;
	if (eight && request->length != 8)
		return WEFT_CAUSE_ATOMIC_LENGTH;
	if (qp->config.service == WEFT_ROCE_UC &&
	    (fetches(request) || request->opcode == WEFT_OP_SEND_INV))
		return WEFT_CAUSE_OPERATION;
	if (fetches(request) && !qp->config.max_rd_atomic)
		return WEFT_CAUSE_NO_READS;
	return qp->world->check(qp, position);
}

static void find_bad(struct weft_roce_qp *qp, int cause)
{
	qp->requester.bad = (enum weft_cause)cause;
	qp->requester.bad_at = qp->requester.at;
	weft_roce_settle(qp);
}

static uint32_t room_in_window(const struct weft_roce_qp *qp)
{
	const struct weft_roce_requester *r = &qp->requester;
	uint64_t under_way = r->next - r->una;
	uint32_t window = r->state == WEFT_ROCE_PROBING ? 1 : r->rate.window;

	if (qp->config.service == WEFT_ROCE_UC)
		return UINT32_MAX;
	return under_way < window ? window - (uint32_t)under_way : 0;
}

/* 10.8.3.3: a fence waits for READs and atomics before it. */
static bool fenced(const struct weft_roce_requester *r, const struct weft_roce_request *request)
{
	return request->fence && r->next == request->first && r->fetch_head != r->fetch_tail &&
	       r->fetch[r->fetch_head % WEFT_ROCE_FETCHES].first < request->first;
}

/* ---- What stands in it ---- */

static uint8_t opcode_of(const struct weft_roce_request *request, bool first, bool last)
{
	/* by place: neither, first, last, both */
	static const uint8_t sends[] = {WEFT_ROCE_OP_SEND_MIDDLE, WEFT_ROCE_OP_SEND_FIRST,
					WEFT_ROCE_OP_SEND_LAST, WEFT_ROCE_OP_SEND_ONLY};
	static const uint8_t writes[] = {WEFT_ROCE_OP_WRITE_MIDDLE, WEFT_ROCE_OP_WRITE_FIRST,
					 WEFT_ROCE_OP_WRITE_LAST, WEFT_ROCE_OP_WRITE_ONLY};
	bool writing = request->opcode == WEFT_OP_WRITE || request->opcode == WEFT_OP_WRITE_IMM;
	bool imm = request->opcode == WEFT_OP_SEND_IMM || request->opcode == WEFT_OP_WRITE_IMM;
	uint8_t opcode = (writing ? writes : sends)[first | last << 1];

	if (last && imm)
		opcode++;
	if (last && request->opcode == WEFT_OP_SEND_INV)
		opcode = first ? WEFT_ROCE_OP_SEND_ONLY_INV : WEFT_ROCE_OP_SEND_LAST_INV;
	return opcode;
}

/* One packet of a SEND or WRITE. */
static int send_part(struct weft_roce_qp *qp, const struct weft_roce_request *request)
{
	struct weft_roce_requester *r = &qp->requester;
	uint64_t offset = (r->next - request->first) * qp->config.mtu,
		 rest = request->length - offset;
	bool first = r->next == request->first, last = r->next + 1 == request->end;
	struct weft_roce_packet p = weft_roce_blank(qp, opcode_of(request, first, last), r->next);
	struct weft_roce_bytes bytes = {WEFT_ROCE_OF_REQUEST, .position = r->at, .offset = offset};
	uint32_t often = r->rate.window / 4 < UNASKED_MOST ? r->rate.window / 4 : UNASKED_MOST;

	p.payload_bytes = rest < qp->config.mtu ? (uint32_t)rest : qp->config.mtu;
	p.solicited = last && request->solicited;
	p.srqn = request->srqn;
	p.va = request->remote_addr;
	p.rkey = request->rkey;
	p.length = (uint32_t)request->length;
	p.imm = p.ended_key = request->imm;
	p.ack_requested = weft_roce_is_reliable(qp->config.service) &&
			  (last || r->unasked >= often || room_in_window(qp) == 1);
	int answer = weft_roce_send(qp, &p, &bytes);

	if (!answer)
		r->unasked = p.ack_requested ? 0 : r->unasked + 1;
	return answer;
}

static int send_atomic(struct weft_roce_qp *qp, const struct weft_roce_request *request)
{
	bool writes = request->opcode == WEFT_OP_ATOMIC_WRITE,
	     adds = request->opcode == WEFT_OP_FETCH_ADD;
	struct weft_roce_packet p = weft_roce_blank(qp,
						    writes ? WEFT_ROCE_OP_ATOMIC_WRITE
						    : adds ? WEFT_ROCE_OP_FETCH_ADD
							   : WEFT_ROCE_OP_CMP_SWAP,
						    qp->requester.next);
	struct weft_roce_bytes bytes = {writes ? WEFT_ROCE_OF_REQUEST : WEFT_ROCE_NO_BYTES,
					.position = qp->requester.at};

	p.ack_requested = true;
	p.srqn = request->srqn;
	p.va = request->remote_addr;
	p.rkey = request->rkey;
	p.length = 8;
	p.payload_bytes = writes ? 8 : 0;
	p.swap_add = adds ? request->compare_add : request->swap;
	p.compare = adds ? 0 : request->compare_add;
	return weft_roce_send(qp, &p, &bytes);
}

/* Asks for the bytes whose responses have the PSNs next to end - 1. */
static int send_read(struct weft_roce_qp *qp, const struct weft_roce_request *request, uint64_t end)
{
	struct weft_roce_requester *r = &qp->requester;
	uint64_t offset = (r->next - request->first) * qp->config.mtu,
		 rest = request->length - offset;
	uint64_t most = (end - r->next) * qp->config.mtu;
	struct weft_roce_packet p = weft_roce_blank(qp, WEFT_ROCE_OP_READ_REQUEST, r->next);
	struct weft_roce_bytes none = {WEFT_ROCE_NO_BYTES};

	p.ack_requested = true;
	p.srqn = request->srqn;
	p.va = request->remote_addr + offset;
	p.rkey = request->rkey;
	p.length = (uint32_t)(rest < most ? rest : most);
	return weft_roce_send(qp, &p, &none);
}

/* One packet that is answered by more than an ACK, and up to where its answers go. A READ is asked for in
 * parts that fit into the window. What is asked for again goes on to the end of its part, whatever the window has
 * become: peers remember parts, and answer no request that reaches over the end of one. */
static int send_fetch(struct weft_roce_qp *qp, const struct weft_roce_request *request,
		      uint32_t most, uint64_t *end)
{
	struct weft_roce_requester *r = &qp->requester;
	uint32_t i = r->fetch_head;
	bool again;
	int answer;

	if (most > PART_MOST)
		most = PART_MOST;
	while (i != r->fetch_tail && r->fetch[i % WEFT_ROCE_FETCHES].end <= r->next)
		i++;
	again = i != r->fetch_tail;
	*end = again ? r->fetch[i % WEFT_ROCE_FETCHES].end : request->end;
	if (!again && r->fetch_tail - r->fetch_head >= qp->config.max_rd_atomic)
		return WEFT_ROCE_LATER;
	if (!again && *end - r->next > most)
		*end = r->next + most;
	answer = request->opcode == WEFT_OP_READ ? send_read(qp, request, *end)
						 : send_atomic(qp, request);
	if (!answer && !again) {
		r->fetch[r->fetch_tail % WEFT_ROCE_FETCHES].first = r->next;
		r->fetch[r->fetch_tail++ % WEFT_ROCE_FETCHES].end = *end;
	}
	return answer;
}

/* ---- One after the other ---- */

static void sent(struct weft_roce_qp *qp, uint64_t end, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;
	uint64_t patience_ns = weft_roce_rate_patience_ns(&r->rate, r->probes);

	if (r->next < r->top)
		qp->counters.sent_again++;
	else
		weft_roce_rate_sent(&r->rate, r->next, now_ns);
	r->next = end;
	r->top = r->top < end ? end : r->top;
	r->at = weft_roce_position(r, r->at, end);
	if (r->state == WEFT_ROCE_IDLE)
		r->state = WEFT_ROCE_BUSY;
	if (!r->ack_ns && qp->config.timeout)
		r->ack_ns = now_ns + (4096ull << qp->config.timeout);
	if (!r->probe_ns && patience_ns)
		r->probe_ns = now_ns + patience_ns;
}

/* Without acknowledgements a message is over when its last packet is gone. */
static void let_request_go(struct weft_roce_qp *qp)
{
	struct weft_roce_requester *r = &qp->requester;

	r->una = r->next;
	r->ack_ns = r->probe_ns = 0;
	if (r->state == WEFT_ROCE_BUSY)
		r->state = WEFT_ROCE_IDLE;
	while (r->ended < r->at)
		qp->world->ended(qp, r->ended++, WEFT_CAUSE_NONE);
	weft_roce_settle(qp);
}

/* Whether one went. */
static bool emit_one(struct weft_roce_qp *qp, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;
	const struct weft_roce_request *request = slot_of(r, r->at);
	uint64_t end = r->next + 1;
	uint32_t most = room_in_window(qp);
	int answer = 0;

	if (!most || fenced(r, request))
		return false;
	if (r->next == request->first && r->next == r->top)
		answer = local_fault(qp, request, r->at);
	if (!answer)
		answer = fetches(request) ? send_fetch(qp, request, most, &end)
					  : send_part(qp, request);
	if (answer > 0)
		find_bad(qp, answer);
	if (answer)
		return false;
	sent(qp, end, now_ns);
	if (qp->config.service == WEFT_ROCE_UC)
		let_request_go(qp);
	return true;
}

bool weft_roce_emit(struct weft_roce_qp *qp, uint32_t *budget, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;

	while (r->state != WEFT_ROCE_WAITING && r->state != WEFT_ROCE_STOPPED &&
	       r->at < r->posted && !(r->bad && r->bad_at == r->at)) {
		if (!*budget)
			return true;
		if (!emit_one(qp, now_ns))
			return false;
		--*budget;
	}
	return false;
}
