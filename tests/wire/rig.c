/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

static uint8_t payload[8192];

static struct rig *rig_of(struct weft_roce_qp *qp)
{
	return (struct rig *)qp;
}

static struct memory memory_of(struct rig *r)
{
	const uint8_t all =
		WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_ATOMIC;

	return (struct memory){r->memory, RIG_MEMORY, RIG_VA, r->key, r->rights, all};
}

static int send(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		const struct weft_roce_bytes *bytes)
{
	struct rig *r = rig_of(qp);
	const struct memory memory = memory_of(r);
	uint8_t gathered[RIG_MEMORY];

	if (r->send)
		return r->send;
	if (bytes->from == WEFT_ROCE_OF_MEMORY && r->unmapped)
		return WEFT_CAUSE_REMOTE_MEMORY;
	if (bytes->from == WEFT_ROCE_OF_MEMORY &&
	    memory_gather(&memory, bytes->rkey, bytes->va, gathered, packet->payload_bytes))
		return WEFT_CAUSE_REMOTE_KEY;
	if (r->nsent < 64)
		r->sent[r->nsent] = *packet;
	r->nsent++;
	return 0;
}

static int check(struct weft_roce_qp *qp, uint64_t position)
{
	return rig_of(qp)->check;
}

static int fetched(struct weft_roce_qp *qp, uint64_t position, uint64_t offset, const uint8_t *from,
		   uint32_t bytes)
{
	rig_of(qp)->fetched += bytes;
	return 0;
}

static void ended(struct weft_roce_qp *qp, uint64_t position, enum weft_cause cause)
{
	struct rig *r = rig_of(qp);

	if (position != r->ended)
		abort();
	r->ended++;
	r->cause = cause;
}

static int allows(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, uint64_t bytes,
		  uint8_t access)
{
	const struct memory memory = memory_of(rig_of(qp));

	return memory_allows(&memory, rkey, va, bytes, access);
}

static int place(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *from,
		 uint32_t bytes)
{
	struct rig *r = rig_of(qp);
	const struct memory memory = memory_of(r);
	int cause;

	if (r->place)
		return r->place;
	if (r->unmapped)
		return WEFT_CAUSE_REMOTE_MEMORY;
	cause = memory_place(&memory, rkey, va, from, bytes);
	r->placed += cause ? 0 : bytes;
	return cause;
}

static int atomic(struct weft_roce_qp *qp, const struct weft_roce_packet *request, uint64_t *old)
{
	struct rig *r = rig_of(qp);

	if (r->unmapped)
		return WEFT_CAUSE_REMOTE_MEMORY;
	*old = 0x1000 + r->atomics++;
	return 0;
}

static int take(struct weft_roce_qp *qp)
{
	struct rig *r = rig_of(qp);

	if (!r->receives)
		return WEFT_ROCE_NO_RECEIVE;
	r->receives--;
	return 0;
}

static int fill(struct weft_roce_qp *qp, uint64_t offset, const uint8_t *from, uint32_t bytes)
{
	struct rig *r = rig_of(qp);

	if (r->fill)
		return r->fill;
	if (offset + bytes > r->receive_bytes)
		return WEFT_CAUSE_RECEIVE_LENGTH;
	memcpy(r->buffer + offset, from, bytes);
	r->filled += bytes;
	return 0;
}

static int end_key(struct weft_roce_qp *qp, uint32_t key)
{
	rig_of(qp)->ended_keys++;
	return key == RIG_KEY ? 0 : WEFT_CAUSE_REMOTE_INVALIDATE;
}

static void received(struct weft_roce_qp *qp, const struct weft_roce_received *what)
{
	rig_of(qp)->nreceived++;
	rig_of(qp)->received = *what;
}

static void event(struct weft_roce_qp *qp, enum weft_event event)
{
	rig_of(qp)->nevents += event != WEFT_EVENT_COMM_EST;
	rig_of(qp)->event = event;
}

static const struct weft_roce_world world = {
	.send = send,
	.check = check,
	.fetched = fetched,
	.ended = ended,
	.allows = allows,
	.place = place,
	.atomic = atomic,
	.take = take,
	.fill = fill,
	.end_key = end_key,
	.received = received,
	.event = event,
};

void rig_open(struct rig *r, enum weft_roce_service service, uint32_t receives)
{
	*r = (struct rig){.now_ns = 1,
			  .receives = receives,
			  .receive_bytes = RIG_MEMORY,
			  .key = RIG_KEY,
			  .rights = WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ |
				    WEFT_ACCESS_REMOTE_ATOMIC};
	for (uint32_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31 + 7);
	r->qp.world = &world;
	r->qp.config = (struct weft_roce_config){
		.service = service,
		.qpn = RIG_QPN,
		.dest_qpn = RIG_PEER,
		.pkey = 0xffff,
		.qkey = 0x1234,
		.mtu = RIG_MTU,
		.sq_psn = RIG_FIRST,
		.rq_psn = RIG_FIRST,
		.timeout = 10,
		.retry_cnt = 7,
		.rnr_retry = 2,
		.min_rnr_timer = 12,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
	};
	weft_roce_open(&r->qp, r->ring, 16);
}

void rig_run(struct rig *r)
{
	while (weft_roce_run(&r->qp, 8, r->now_ns))
		;
}

void rig_clear(struct rig *r)
{
	r->nsent = 0;
	memset(r->sent, 0, sizeof(r->sent));
}

void rig_post(struct rig *r, enum weft_opcode opcode, uint64_t length)
{
	const struct weft_roce_request request = {.opcode = opcode,
						  .length = length,
						  .remote_addr = RIG_VA,
						  .rkey = RIG_KEY,
						  .imm = RIG_KEY,
						  .dest_qpn = RIG_PEER,
						  .qkey = 0x1234};

	if (weft_roce_post(&r->qp, &request))
		abort();
}

struct weft_roce_packet rig_packet(uint8_t opcode, int32_t at, uint32_t payload_bytes)
{
	return (struct weft_roce_packet){
		.opcode = opcode,
		.pkey = 0xffff,
		.dest_qpn = RIG_QPN,
		.psn = (RIG_FIRST + (uint32_t)at) & WEFT_ROCE_PSN_MASK,
		.ack_requested = true,
		.va = RIG_VA,
		.rkey = RIG_KEY,
		.length = payload_bytes,
		.syndrome = WEFT_ROCE_SYNDROME_ACK,
		.ended_key = RIG_KEY,
		.qkey = 0x1234,
		.src_qpn = RIG_PEER,
		.payload = payload,
		.payload_bytes = payload_bytes,
	};
}

void rig_receive(struct rig *r, const struct weft_roce_packet *packet)
{
	const struct weft_roce_arrival arrival = {.udp_bytes = 64};

	weft_roce_receive(&r->qp, &arrival, packet, r->now_ns);
}

int32_t rig_at(uint64_t psn)
{
	return (int32_t)(psn - (1ull << 32) - RIG_FIRST);
}
