/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What answers and the passing of time do to requests under way (9.7.5). */
#include "wire/roce/internal.h"

static void stop(struct weft_roce_qp *qp)
{
	struct weft_roce_requester *r = &qp->requester;

	r->state = WEFT_ROCE_STOPPED;
	r->ack_ns = r->probe_ns = r->rnr_ns = 0;
	if (weft_roce_is_reliable(qp->config.service))
		qp->responder.stopped = true;
}

/* The oldest request ends with that cause, and with it all sending. */
static void fail_oldest(struct weft_roce_qp *qp, enum weft_cause cause)
{
	stop(qp);
	qp->world->ended(qp, qp->requester.ended++, cause);
}

void weft_roce_settle(struct weft_roce_qp *qp)
{
	struct weft_roce_requester *r = &qp->requester;

	if (r->bad && r->state != WEFT_ROCE_STOPPED && r->ended == r->bad_at)
		fail_oldest(qp, r->bad);
}

/* ---- Acknowledged; sent again ---- */

static struct weft_roce_request *oldest_request(const struct weft_roce_requester *r)
{
	return &r->ring[r->ended & (r->ring_size - 1)];
}

/* From now on there are answers to wait for. */
static void wait(struct weft_roce_qp *qp, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;
	bool waits = r->una < r->top;
	uint64_t patience_ns = weft_roce_rate_patience_ns(&r->rate, r->probes);

	r->ack_ns = waits && qp->config.timeout ? now_ns + (4096ull << qp->config.timeout) : 0;
	r->probe_ns = waits && patience_ns ? now_ns + patience_ns : 0;
}

/* All before psn are done. */
static void progress(struct weft_roce_qp *qp, uint64_t psn, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;

	if (psn <= r->una)
		return;
	weft_roce_rate_answered(&r->rate, psn, now_ns);
	weft_roce_rate_acked(&r->rate, psn - r->una);
	r->una = psn;
	r->retry_left = qp->config.retry_cnt;
	r->rnr_left = qp->config.rnr_retry;
	r->probes = 0;
	r->rnr_ns = 0;
	while (r->fetch_head != r->fetch_tail &&
	       r->fetch[r->fetch_head % WEFT_ROCE_FETCHES].end <= psn)
		r->fetch_head++;
	if (r->next < psn) {
		r->next = psn;
		r->at = weft_roce_position(r, r->at, psn);
	}
	r->state = psn < r->top ? WEFT_ROCE_BUSY : WEFT_ROCE_IDLE;
	wait(qp, now_ns);
	while (r->ended < r->posted && oldest_request(r)->end <= psn)
		qp->world->ended(qp, r->ended++, WEFT_CAUSE_NONE);
	weft_roce_settle(qp);
}

static void send_again(struct weft_roce_qp *qp)
{
	struct weft_roce_requester *r = &qp->requester;

	r->next = r->una;
	r->at = weft_roce_position(r, r->ended, r->una);
	r->unasked = 0;
	weft_roce_rate_forget(&r->rate);
}

/* Something is missing at una: that is sent again at once, but once; then timers decide, so that
 * what arrives late or twice does no harm. */
static void fill_gap(struct weft_roce_qp *qp, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;

	if (r->gap == r->una + 1 || r->state == WEFT_ROCE_WAITING)
		return;
	r->gap = r->una + 1;
	weft_roce_rate_lost(&r->rate);
	send_again(qp);
	r->probe_ns = 0;
	if (r->state == WEFT_ROCE_PROBING)
		r->state = WEFT_ROCE_BUSY;
}

/* The peer says that it has done all before psn. What must be answered by more than that, and was not, is
 * lost. Whether nothing is. */
static bool done_before(struct weft_roce_qp *qp, uint64_t psn, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;
	uint64_t up_to = psn;

	if (r->fetch_head != r->fetch_tail) {
		uint64_t first = r->fetch[r->fetch_head % WEFT_ROCE_FETCHES].first;
		uint64_t missing = first > r->una ? first : r->una;

		if (missing < up_to)
			up_to = missing;
	}
	progress(qp, up_to, now_ns);
	if (r->state == WEFT_ROCE_STOPPED)
		return false;
	if (up_to == psn)
		return true;
	fill_gap(qp, now_ns);
	return false;
}

/* ---- Answers ---- */

static void ask_for_receive(struct weft_roce_qp *qp, uint8_t code, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;

	qp->counters.rnr_received++;
	if (r->state == WEFT_ROCE_WAITING)
		return;
	if (!r->rnr_left) {
		fail_oldest(qp, WEFT_CAUSE_NO_RECEIVE);
		return;
	}
	r->rnr_left -= r->rnr_left != 7;
	send_again(qp);
	r->state = WEFT_ROCE_WAITING;
	r->ack_ns = r->probe_ns = 0;
	r->rnr_ns = now_ns + weft_roce_rnr_ns(code);
}

/* psn: of the request that the peer does not do. */
static void refused(struct weft_roce_qp *qp, uint64_t psn, uint8_t syndrome, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;

	if (psn >= r->top || psn < r->una || !done_before(qp, psn, now_ns))
		return;
	if ((syndrome & WEFT_ROCE_SYNDROME_KIND) == WEFT_ROCE_SYNDROME_RNR) {
		ask_for_receive(qp, syndrome & 31, now_ns);
		return;
	}
	qp->counters.naks_received++;
	switch (syndrome) {
	case WEFT_ROCE_SYNDROME_SEQUENCE:
		fill_gap(qp, now_ns);
		break;
	case WEFT_ROCE_SYNDROME_INVALID:
		fail_oldest(qp, WEFT_CAUSE_REMOTE_RIGHT);
		break;
	case WEFT_ROCE_SYNDROME_ACCESS:
		fail_oldest(qp, WEFT_CAUSE_REMOTE_KEY);
		break;
	case WEFT_ROCE_SYNDROME_OPERATION:
		fail_oldest(qp, WEFT_CAUSE_REMOTE_MEMORY);
		break;
	default: /* reserved: as if it had not come */
		break;
	}
}

/* A response, in order: what it brings is placed, and all before it is done. */
static void brought(struct weft_roce_qp *qp, const struct weft_roce_packet *packet, uint64_t psn,
		    uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;
	const struct weft_roce_request *request;
	uint64_t position, offset, rest;
	const uint8_t *from = packet->payload;
	uint32_t bytes = packet->payload_bytes;
	int answer = 0;

	if (psn < r->una || psn >= r->top || !done_before(qp, psn, now_ns))
		return;
	position = weft_roce_position(r, r->ended, psn);
	request = &r->ring[position & (r->ring_size - 1)];
	offset = (psn - request->first) * qp->config.mtu;
	rest = request->opcode == WEFT_OP_READ ? request->length - offset : 0;
	if (rest > qp->config.mtu)
		rest = qp->config.mtu;
	if (weft_roce_row(packet->opcode)->verb == WEFT_ROCE_ATOMIC_RESPONSE) {
		if (!weft_op_is_atomic(request->opcode))
			return;
		from = (const uint8_t *)&packet->old;
		bytes = 8;
	} else if ((request->opcode != WEFT_OP_READ && request->opcode != WEFT_OP_ATOMIC_WRITE) ||
		   bytes != rest) {
		return;
	}
	if (bytes)
		answer = qp->world->fetched(qp, position, offset, from, bytes);
	if (answer > 0)
		fail_oldest(qp, (enum weft_cause)answer);
	if (!answer)
		progress(qp, psn + 1, now_ns);
}

void weft_roce_answered(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
			uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;
	uint64_t psn = weft_roce_unwrap(r->una, packet->psn);

	if (r->state == WEFT_ROCE_STOPPED || !weft_roce_is_reliable(qp->config.service))
		return;
	if (weft_roce_row(packet->opcode)->verb != WEFT_ROCE_ACK) {
		/* with a NAK in place of an ACK no bytes come */
		if (weft_roce_row(packet->opcode)->headers & WEFT_ROCE_AETH &&
		    packet->syndrome >> 5)
			return;
		brought(qp, packet, psn, now_ns);
	} else if (packet->syndrome >> 5) {
		refused(qp, psn, packet->syndrome, now_ns);
	} else if (psn < r->top) {
		done_before(qp, psn + 1, now_ns);
	}
}

/* ---- Time ---- */

void weft_roce_overdue(struct weft_roce_qp *qp, uint64_t now_ns)
{
	struct weft_roce_requester *r = &qp->requester;

	if (r->rnr_ns && now_ns >= r->rnr_ns) {
		r->rnr_ns = 0;
		r->state = WEFT_ROCE_BUSY;
	}
	if (r->ack_ns && now_ns >= r->ack_ns) {
		qp->counters.timeouts++;
		if (!r->retry_left) {
			fail_oldest(qp, WEFT_CAUSE_NO_ANSWER);
			return;
		}
		r->retry_left--;
		r->gap = 0;
		r->state = WEFT_ROCE_BUSY;
		weft_roce_rate_lost(&r->rate);
		send_again(qp);
		wait(qp, now_ns);
	} else if (r->probe_ns && now_ns >= r->probe_ns) {
		qp->counters.probes++;
		r->probes++;
		r->gap = 0;
		r->state = WEFT_ROCE_PROBING;
		weft_roce_rate_lost(&r->rate);
		send_again(qp);
		r->probe_ns = 0; /* until it is sent */
	}
}
