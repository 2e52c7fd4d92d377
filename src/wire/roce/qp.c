/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs of the engine: what comes in, and which file it is for. */
#include "nic/errors.h"
#include "wire/roce/internal.h"

/* Far from 0, so that a PSN before the first is none below 0. */
#define FIRST_PSN (1ull << 32)

uint64_t weft_roce_rnr_ns(uint8_t code)
{
	/* in units of 10 µs */
	static const uint32_t units[32] = {
		65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
		48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return units[code & 31] * 10000ull;
}

const char *weft_roce_state_str(enum weft_roce_state state)
{
	static const char *const names[WEFT_ROCE_STATES] = {
		[WEFT_ROCE_IDLE] = "idle",	 [WEFT_ROCE_BUSY] = "busy",
		[WEFT_ROCE_PROBING] = "probing", [WEFT_ROCE_WAITING] = "waiting",
		[WEFT_ROCE_STOPPED] = "stopped",
	};

	return names[state];
}

void weft_roce_restart(struct weft_roce_qp *qp)
{
	uint64_t first = FIRST_PSN | (qp->config.sq_psn & WEFT_ROCE_PSN_MASK);

	qp->requester = (struct weft_roce_requester){
		.ring = qp->requester.ring,
		.ring_size = qp->requester.ring_size,
		.end = first,
		.next = first,
		.top = first,
		.una = first,
		.retry_left = qp->config.retry_cnt,
		.rnr_left = qp->config.rnr_retry,
	};
	weft_roce_rate_init(&qp->requester.rate);
}

void weft_roce_open(struct weft_roce_qp *qp, struct weft_roce_request *ring, uint32_t ring_size)
{
	qp->requester.ring = ring;
	qp->requester.ring_size = ring_size;
	weft_roce_restart(qp);
	qp->responder = (struct weft_roce_responder){
		.expected = FIRST_PSN | (qp->config.rq_psn & WEFT_ROCE_PSN_MASK),
	};
	qp->counters = (struct weft_roce_counters){0};
	qp->deadline_ns = 0;
}

int weft_roce_post(struct weft_roce_qp *qp, const struct weft_roce_request *request)
{
	struct weft_roce_requester *r = &qp->requester;
	struct weft_roce_request *slot = &r->ring[r->posted & (r->ring_size - 1)];

	if (r->posted - r->ended >= r->ring_size)
		return -EAGAIN;
	*slot = *request;
	slot->first = r->end;
	r->end += weft_roce_packets(request->length, qp->config.mtu);
	slot->end = r->end;
	r->posted++;
	return 0;
}

static void set_deadline(struct weft_roce_qp *qp)
{
	const struct weft_roce_requester *r = &qp->requester;
	const uint64_t deadlines[] = {r->ack_ns, r->probe_ns, r->rnr_ns};

	qp->deadline_ns = 0;
	for (unsigned int i = 0; i < 3; i++)
		if (deadlines[i] && (!qp->deadline_ns || deadlines[i] < qp->deadline_ns))
			qp->deadline_ns = deadlines[i];
}

/* 9.6.1: those that make a packet none of ours. */
static bool packet_is_ours(const struct weft_roce_qp *qp, const struct weft_roce_arrival *arrival,
			   const struct weft_roce_packet *packet)
{
	const struct weft_roce_route *ours = &qp->config.route, *its = &arrival->route;

	if (weft_roce_service(packet->opcode) != qp->config.service ||
	    packet->dest_qpn != qp->config.qpn ||
	    !weft_roce_pkeys_match(packet->pkey, qp->config.pkey))
		return false;
	return qp->config.service == WEFT_ROCE_UD || (!__builtin_memcmp(its->src, ours->dst, 16) &&
						      !__builtin_memcmp(its->dst, ours->src, 16));
}

void weft_roce_receive(struct weft_roce_qp *qp, const struct weft_roce_arrival *arrival,
		       const struct weft_roce_packet *packet, uint64_t now_ns)
{
	const uint8_t verb = weft_roce_row(packet->opcode)->verb;

	if (!packet_is_ours(qp, arrival, packet)) {
		qp->counters.dropped++;
		return;
	}
	qp->counters.received++;
	if (qp->config.service == WEFT_ROCE_UD)
		weft_roce_datagram(qp, arrival, packet);
	else if (verb >= WEFT_ROCE_RESPONSE)
		weft_roce_answered(qp, packet, now_ns);
	else
		weft_roce_requested(qp, packet);
	set_deadline(qp);
}

void weft_roce_timer(struct weft_roce_qp *qp, uint64_t now_ns)
{
	weft_roce_overdue(qp, now_ns);
	set_deadline(qp);
}

bool weft_roce_run(struct weft_roce_qp *qp, uint32_t budget, uint64_t now_ns)
{
	bool more;

	if (qp->config.service == WEFT_ROCE_UD)
		return weft_roce_datagrams(qp, &budget);
	more = weft_roce_answer(qp, &budget);
	more |= weft_roce_emit(qp, &budget, now_ns);
	set_deadline(qp);
	return more;
}
