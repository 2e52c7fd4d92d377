/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Datagrams (9.8.2, 9.8.3.2): one packet each, to any queue pair; what cannot be taken is dropped. */
#include "nic/ipv4.h"
#include "wire/roce/internal.h"

#define UDP	  17
#define UDP_BYTES 8u

/* ---- Sending ---- */

static int send_one(struct weft_roce_qp *qp, const struct weft_roce_request *request,
		    uint64_t position)
{
	bool imm = request->opcode == WEFT_OP_SEND_IMM;
	struct weft_roce_packet p =
		weft_roce_blank(qp, imm ? WEFT_ROCE_OP_UD_SEND_ONLY_IMM : WEFT_ROCE_OP_UD_SEND_ONLY,
				request->first);
	struct weft_roce_bytes bytes = {WEFT_ROCE_OF_REQUEST, .position = position};
	int answer;

	if (request->opcode != WEFT_OP_SEND && !imm)
		return WEFT_CAUSE_OPERATION;
	if (request->length > qp->config.mtu)
		return WEFT_CAUSE_DATAGRAM_LENGTH;
	answer = qp->world->check(qp, position);
	if (answer)
		return answer;
	p.dest_qpn = request->dest_qpn;
	/* the controlled Q_Keys are a queue pair's own (10.2.5) */
	p.qkey = request->qkey >> 31 ? qp->config.qkey : request->qkey;
	p.src_qpn = qp->config.qpn;
	p.solicited = request->solicited;
	p.imm = request->imm;
	p.payload_bytes = (uint32_t)request->length;
	return weft_roce_send(qp, &p, &bytes);
}

bool weft_roce_datagrams(struct weft_roce_qp *qp, uint32_t *budget)
{
	struct weft_roce_requester *r = &qp->requester;

	while (r->state != WEFT_ROCE_STOPPED && r->ended < r->posted) {
		int answer;

		if (!*budget)
			return true;
		answer = send_one(qp, weft_roce_request_at(qp, r->ended), r->ended);
		if (answer < 0)
			return false;
		--*budget;
		r->state = answer ? WEFT_ROCE_STOPPED : WEFT_ROCE_IDLE;
		qp->world->ended(qp, r->ended++, (enum weft_cause)answer);
	}
	return false;
}

/* ---- Receiving ---- */

void weft_roce_grh(const struct weft_roce_arrival *arrival, uint8_t grh[WEFT_ROCE_GRH_BYTES])
{
	uint32_t bytes = UDP_BYTES + arrival->udp_bytes;
	uint8_t *ip = grh + 20;

	__builtin_memset(grh, 0, WEFT_ROCE_GRH_BYTES);
	if (weft_roce_is_ipv4(&arrival->route)) {
		ip[0] = 0x45;
		ip[1] = arrival->traffic_class;
		weft_ipv4_put16(ip + 2, 20 + bytes);
		weft_ipv4_put16(ip + 4, arrival->id);
		ip[6] = 0x40; /* not to be cut */
		ip[8] = arrival->hop_limit;
		ip[9] = UDP;
		__builtin_memcpy(ip + 12, arrival->route.src + 12, 4);
		__builtin_memcpy(ip + 16, arrival->route.dst + 12, 4);
		weft_ipv4_put16(ip + 10, weft_ipv4_checksum(ip));
		return;
	}
	weft_ipv4_put16(grh, 6u << 12 | (uint32_t)arrival->traffic_class << 4);
	weft_ipv4_put16(grh + 4, bytes);
	grh[6] = UDP;
	grh[7] = arrival->hop_limit;
	__builtin_memcpy(grh + 8, arrival->route.src, 16);
	__builtin_memcpy(grh + 24, arrival->route.dst, 16);
}

/* A datagram that is too long leaves the receive for the next; what is wrong with a receive itself fails the queue
 * pair (9.9.3, classes D and E). */
void weft_roce_datagram(struct weft_roce_qp *qp, const struct weft_roce_arrival *arrival,
			const struct weft_roce_packet *packet)
{
	struct weft_roce_responder *r = &qp->responder;
	struct weft_roce_received what = {
		.bytes = WEFT_ROCE_GRH_BYTES + packet->payload_bytes,
		.with_imm = packet->opcode == WEFT_ROCE_OP_UD_SEND_ONLY_IMM,
		.imm = packet->imm,
		.solicited = packet->solicited,
		.src_qpn = packet->src_qpn,
	};
	uint8_t grh[WEFT_ROCE_GRH_BYTES];
	int answer;

	if (r->stopped || packet->qkey != qp->config.qkey || packet->payload_bytes > qp->config.mtu)
		return;
	r->taken = r->taken || !qp->world->take(qp);
	if (!r->taken)
		return;
	weft_roce_grh(arrival, grh);
	answer = qp->world->fill(qp, 0, grh, WEFT_ROCE_GRH_BYTES);
	if (!answer && packet->payload_bytes)
		answer = qp->world->fill(qp, WEFT_ROCE_GRH_BYTES, packet->payload,
					 packet->payload_bytes);
	if (answer < 0 || answer == WEFT_CAUSE_RECEIVE_LENGTH)
		return;
	if (answer)
		what.cause = answer == WEFT_CAUSE_RECEIVE_KEY ? WEFT_CAUSE_OWN_RECEIVE_KEY
							      : WEFT_CAUSE_OWN_RECEIVE_MEMORY;
	r->taken = false;
	qp->world->received(qp, &what);
	if (answer) {
		r->stopped = true;
		qp->world->event(qp, WEFT_EVENT_QP_FATAL);
	}
}
