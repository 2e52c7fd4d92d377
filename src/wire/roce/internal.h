/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Between the files of the engine. */
#ifndef WEFT_WIRE_ROCE_INTERNAL_H
#define WEFT_WIRE_ROCE_INTERNAL_H

#include "wire/roce/roce.h"

/* The PSN whose lower 24 bits came, within 2^23 of `near`. */
static inline uint64_t weft_roce_unwrap(uint64_t near, uint32_t psn)
{
	uint32_t ahead = (psn - (uint32_t)near) & WEFT_ROCE_PSN_MASK;

	return near + ahead - (ahead >> 23 ? 1ull << 24 : 0);
}

/* How many packets a message has: one at least. */
static inline uint64_t weft_roce_packets(uint64_t length, uint32_t mtu)
{
	return length ? (length + mtu - 1) / mtu : 1;
}

/* What all packets of a queue pair have. opcode: of RC, in place of that of its own service. */
static inline struct weft_roce_packet weft_roce_blank(const struct weft_roce_qp *qp, uint8_t opcode,
						      uint64_t psn)
{
	return (struct weft_roce_packet){
		.opcode = (uint8_t)(opcode | qp->config.service << 5),
		.migrated = true,
		.pkey = qp->config.pkey,
		.dest_qpn = qp->config.dest_qpn,
		.psn = (uint32_t)psn & WEFT_ROCE_PSN_MASK,
	};
}

static inline int weft_roce_send(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
				 const struct weft_roce_bytes *bytes)
{
	int answer = qp->world->send(qp, packet, bytes);

	qp->counters.sent += !answer;
	return answer;
}

/* requester.c: a packet that answers; deadlines; sends up to *budget packets, whether there is more. */
void weft_roce_answered(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
			uint64_t now_ns);
void weft_roce_overdue(struct weft_roce_qp *qp, uint64_t now_ns);
/* Ends the request that is at fault, if all before it have ended. */
void weft_roce_settle(struct weft_roce_qp *qp);

/* emit.c */
bool weft_roce_emit(struct weft_roce_qp *qp, uint32_t *budget, uint64_t now_ns);
/* The first position whose packets do not all lie before psn. */
uint64_t weft_roce_position(const struct weft_roce_requester *r, uint64_t from, uint64_t psn);

/* responder.c, of connections */
void weft_roce_requested(struct weft_roce_qp *qp, const struct weft_roce_packet *packet);
/* The responder stops: the NAK for what is wrong, and the event that goes with it. */
void weft_roce_refuse(struct weft_roce_qp *qp, enum weft_cause cause);

/* answer.c: READs and atomics in order; again; what is to be sent. */
void weft_roce_ask(struct weft_roce_qp *qp, const struct weft_roce_packet *packet);
void weft_roce_ask_again(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
			 uint64_t psn);
bool weft_roce_answer(struct weft_roce_qp *qp, uint32_t *budget);

/* datagram.c: sends UD; takes one. */
bool weft_roce_datagrams(struct weft_roce_qp *qp, uint32_t *budget);
void weft_roce_datagram(struct weft_roce_qp *qp, const struct weft_roce_arrival *arrival,
			const struct weft_roce_packet *packet);

#endif
