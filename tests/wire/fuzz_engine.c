/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libFuzzer's target for the engine: a list of requests, packets, delays and whims of the world. Packets are
 * built of fields near right ones, or parsed from raw bytes; ICRCs are not checked. Whatever came, the counts of PSNs stay in
 * their order, and every request ends at last.
 */
#include <stdlib.h>
#include <string.h>

#include "rig.h"

struct input {
	const uint8_t *at, *end;
};

static struct input in;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t next(void)
{
	return in.at < in.end ? *in.at++ : 0;
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void post(struct rig *r)
{
	static const uint16_t lengths[] = {0, 1, 8, RIG_MTU - 1, RIG_MTU, RIG_MTU + 1, 1000, 4096};
	uint8_t how = next();
	struct weft_roce_request request = {
		.opcode = next() % (WEFT_OP_SEND_INV + 1),
		.length = lengths[how & 7],
		.fence = how & 8,
		.remote_addr = RIG_VA,
		.rkey = RIG_KEY,
		.qkey = 0x1234,
	};

	if (how & 16)
		request.opcode = WEFT_OP_ATOMIC_WRITE;
	if (weft_op_is_local(request.opcode))
		request.opcode = WEFT_OP_READ;
	if (how & 32 && !(how & 7))
		request.length = (1ull << 31) + how;
	weft_roce_post(&r->qp, &request);
}

/* A packet with fields near those that the requester or the responder expects. */
static void packet_of_fields(struct rig *r)
{
	static const uint16_t bytes[] = {0, 8, RIG_MTU, 1, RIG_MTU - 1, 4096, 7, 2 * RIG_MTU};
	uint8_t how = next(), opcode = next();
	int8_t at = (int8_t)next();
	bool answers;
	struct weft_roce_packet p;

	opcode = (uint8_t)(opcode % 0x1e | r->qp.config.service << 5);
	if (!weft_roce_row(opcode)->name)
		return;
	answers = weft_roce_row(opcode)->verb >= WEFT_ROCE_RESPONSE;
	p = rig_packet(opcode,
		       rig_at(answers ? r->qp.requester.una : r->qp.responder.expected) + at / 8,
		       bytes[how & 7]);
	if (weft_roce_row(opcode)->length == WEFT_ROCE_NONE)
		p.payload_bytes = 0;
	if (how & 8)
		p.rkey++;
	if (how & 16)
		p.length = next() * 128u;
	if (how & 32)
		p.va += next();
	if (how & 64)
		p.syndrome = next();
	rig_receive(r, &p);
}

static void packet_of_bytes(struct rig *r)
{
	size_t bytes = next() * 4u;
	struct weft_roce_packet p;
	uint8_t *copy;

	if (bytes > (size_t)(in.end - in.at))
		bytes = (size_t)(in.end - in.at);
	copy = malloc(bytes ? bytes : 1);
	require(copy);
	memcpy(copy, in.at, bytes);
	in.at += bytes;
	if (!weft_roce_parse(copy, bytes, &p)) {
		p.dest_qpn = RIG_QPN;
		p.pkey = 0xffff;
		p.qkey = 0x1234;
		rig_receive(r, &p);
	}
	free(copy);
}

static void whim(struct rig *r)
{
	static const int answers[] = {0,
				      WEFT_ROCE_LATER,
				      WEFT_CAUSE_RECEIVE_KEY,
				      WEFT_CAUSE_REMOTE_MEMORY,
				      WEFT_CAUSE_LOCAL_KEY,
				      0,
				      0,
				      0};
	uint8_t how = next();

	r->receives = how & 3;
	switch (how >> 2 & 7) {
	case 0:
		r->send = answers[how >> 5] == WEFT_ROCE_LATER ? WEFT_ROCE_LATER : 0;
		break;
	case 1:
		r->check = answers[how >> 5] == WEFT_CAUSE_LOCAL_KEY ? WEFT_CAUSE_LOCAL_KEY : 0;
		break;
	case 2:
		r->fill = answers[how >> 5] == WEFT_CAUSE_RECEIVE_KEY ? WEFT_CAUSE_RECEIVE_KEY : 0;
		break;
	case 3:
		r->place = answers[how >> 5] == WEFT_CAUSE_REMOTE_MEMORY ? WEFT_CAUSE_REMOTE_MEMORY
									 : 0;
		break;
	case 4:
		r->receive_bytes = how >> 5 ? RIG_MEMORY : 16;
		break;
	default:
		r->fill = r->place = r->send = 0;
	}
}

static void look(const struct rig *r, uint64_t expected)
{
	const struct weft_roce_requester *q = &r->qp.requester;
	const struct weft_roce_responder *p = &r->qp.responder;

	require(q->una <= q->next && q->next <= q->top && q->top <= q->end);
	require(q->ended <= q->posted && q->at <= q->posted && r->ended == q->ended);
	require(q->fetch_tail - q->fetch_head <= r->qp.config.max_rd_atomic);
	require(p->answer_tail - p->answer_head <= r->qp.config.max_dest_rd_atomic);
	require(q->rate.window >= WEFT_ROCE_LEAST_WINDOW &&
		q->rate.window <= WEFT_ROCE_MOST_WINDOW);
	require(r->qp.config.service == WEFT_ROCE_UD || p->expected >= expected);
	require(r->nevents <= 1);
	for (uint32_t i = 0; i < r->nsent && i < 64; i++)
		require(weft_roce_length_holds(&r->sent[i], RIG_MTU));
}

static void step(struct rig *r)
{
	uint8_t op = next();

	switch (op & 7) {
	case 0:
		post(r);
		break;
	case 1:
	case 2:
	case 3:
		packet_of_fields(r);
		break;
	case 4:
		packet_of_bytes(r);
		break;
	case 5:
		whim(r);
		break;
	case 6:
		r->now_ns += (uint64_t)next() << (op >> 3);
		break;
	case 7:
		if (r->qp.deadline_ns) {
			r->now_ns = r->qp.deadline_ns;
			weft_roce_timer(&r->qp, r->now_ns);
		}
		break;
	}
	if (op & 128)
		weft_roce_run(&r->qp, 1 + (op >> 4 & 7), r->now_ns);
}

/* The peer says nothing more, and the world is well: all ends. */
static void end(struct rig *r)
{
	r->send = r->check = 0;
	for (int i = 0; i < 1000; i++) {
		rig_clear(r);
		rig_run(r);
		if (!r->qp.deadline_ns)
			break;
		r->now_ns = r->qp.deadline_ns;
		weft_roce_timer(&r->qp, r->now_ns);
	}
	require(r->qp.requester.ended == r->qp.requester.posted ||
		r->qp.requester.state == WEFT_ROCE_STOPPED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const enum weft_roce_service services[] = {WEFT_ROCE_RC, WEFT_ROCE_XRC, WEFT_ROCE_UC,
							  WEFT_ROCE_UD};
	static struct rig r;
	uint8_t how;

	in = (struct input){data, data + bytes};
	how = next();
	rig_open(&r, services[how & 3], how >> 2 & 3);
	r.qp.config.max_rd_atomic = r.qp.config.max_dest_rd_atomic = how >> 4 & 7;
	while (in.at < in.end) {
		uint64_t expected = r.qp.responder.expected;

		step(&r);
		look(&r, expected);
		if (r.nsent >= 64)
			rig_clear(&r);
	}
	end(&r);
	return 0;
}
