/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What an engine asks for, done in the pool and on the socket (struct weft_roce_world). */
#include <string.h>

#include "card/wire.h"
#include "nic/arrive.h"
#include "nic/busy.h"
#include "nic/errors.h"
#include "nic/nic.h"

#define PATIENCE_NS 1000000u

static struct weft_carried *carried_of(struct weft_roce_qp *qp)
{
	return (struct weft_carried *)qp;
}

/* An outcome in the engine's words: what is neither done nor refused is as if the packet were lost. */
static int answer_of(enum weft_outcome outcome, const enum weft_cause *cause)
{
	switch (outcome) {
	case WEFT_DONE:
		return 0;
	case WEFT_FAILED:
		return *cause;
	case WEFT_NO_RECEIVE:
		return WEFT_ROCE_NO_RECEIVE;
	case WEFT_UNDER_WAY:
	case WEFT_NO_ANSWER:
	case WEFT_REHOMING:
		break;
	}
	return WEFT_ROCE_LATER;
}

/* ---- Copies that take their time ---- */

/*
 * Memory that only the helper of its owner reaches: of another process namespace, of a device, and any for an atomic that is not
 * in the pool. The card waits about as long as a helper takes that has a core, once for each copy. From then on it looks at each
 * try whether there is an answer: what arrives is as if lost, and its peer sends it again; what is to go waits. So an owner
 * that stands still holds up its own queue pairs.
 *
 * Of each kind a queue pair has one copy at a time, as its packets arrive in order, and nothing but the packet itself comes
 * between an atomic and its answer: it is carried out once.
 */

/* Bytes on their way into a packet: what there is of them is gone when it is not sent. */
static bool goes_out(enum weft_copy_kind kind)
{
	return kind == WEFT_COPY_ANSWERS || kind == WEFT_COPY_GATHERS;
}

static void start_anew(struct weft_carried *c, enum weft_copy_kind kind)
{
	weft_later_drop(c->hand->card->nic, &c->hand->later[kind]);
	c->copy[kind].until_ns = 0;
}

static void begin_copy(struct weft_carried *c, struct weft_grant *grant, enum weft_copy_kind kind,
		       uint64_t where, uint64_t offset, uint64_t bytes)
{
	struct weft_late_copy *copy = &c->copy[kind];
	const uint64_t about[] = {where, offset, bytes};

	if (copy->until_ns && ((goes_out(kind) && c->hand->later[kind].done) ||
			       __builtin_memcmp(copy->about, about, sizeof(about)) != 0))
		start_anew(c, kind);
	__builtin_memcpy(copy->about, about, sizeof(about));
	weft_later_attach(grant, &c->hand->later[kind]);
}

/* Whether it is worth while to look again, before the patience is over. */
static bool comes_soon(struct weft_carried *c, enum weft_copy_kind kind)
{
	struct weft_late_copy *copy = &c->copy[kind];
	struct weft_later *later = &c->hand->later[kind];
	const struct weft_nic *nic = c->hand->card->nic;
	const struct weft_machine *machine = nic->machine;
	bool asked = later->ask[0] || later->ask[1];
	uint64_t now_ns = weft_nic_stamp_ns(nic);

	if (!copy->until_ns)
		copy->until_ns = now_ns + PATIENCE_NS;
	while (now_ns < copy->until_ns) {
		machine->yield(machine->context);
		if (!asked || machine->answered(machine->context, later, now_ns))
			return true;
		now_ns = weft_nic_stamp_ns(nic);
	}
	return false;
}

static bool is_copied_again(struct weft_carried *c, enum weft_copy_kind kind,
			    enum weft_outcome outcome)
{
	if (c->copy[kind].until_ns && (outcome == WEFT_DONE || outcome == WEFT_FAILED))
		start_anew(c, kind);
	if (outcome != WEFT_UNDER_WAY) {
		/* its owner rehomes: what was placed may be lost, but what was asked is kept, as an atomic may
		 * have been carried out */
		c->hand->later[kind].done = 0;
		return false;
	}
	return comes_soon(c, kind);
}

void weft_late_end(struct weft_carried *c)
{
	for (int kind = 0; kind < WEFT_COPY_KINDS; kind++)
		start_anew(c, kind);
}

/* ---- One-sided requests ---- */

/* Prepares a request of one part, at the responder that was entered. */
static void prepare(struct weft_carried *c, struct weft_incoming *in,
		    const struct weft_wqe *request, uint64_t bytes)
{
	/* it may be the message itself that begins anew */
	struct weft_responder *at = c->message.at;
	struct weft_xrc_queue *queue = c->message.queue;
	uint32_t number = c->message.request.remote_srqn;
	uint64_t next = c->message.next;

	weft_incoming_prepare(in, &c->hand->to, request, bytes);
	in->at = at;
	in->queue = queue;
	in->caller = c->hand->card->caller;
	in->next = next;
	in->request.remote_srqn = number;
}

/* XRC: the queue that was named is not there (any more), which beginning says. */
static int lacks_queue(struct weft_carried *c)
{
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome;

	outcome = weft_incoming_begin(&c->message, &cause);
	return answer_of(outcome, &cause);
}

static int allows_atomic(struct weft_carried *c, const struct weft_wqe *request)
{
	struct weft_card_hand *hand = c->hand;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	const struct weft_arrival a = {.nic = hand->card->nic,
				       .to = c->message.at,
				       .request = request,
				       .caller = hand->card->caller,
				       .len_bytes = 8,
				       .cause = &cause};
	struct weft_span at;
	enum weft_outcome outcome;

	return weft_arrive_find_remote(a, 8, WEFT_ACCESS_REMOTE_ATOMIC, &at, &outcome)
		       ? 0
		       : answer_of(outcome, &cause);
}

static int allows(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, uint64_t bytes,
		  uint8_t access)
{
	struct weft_carried *c = carried_of(qp);
	struct weft_wqe request = {
		.opcode = access == WEFT_ACCESS_REMOTE_READ ? WEFT_OP_READ : WEFT_OP_WRITE,
		.remote_addr = va,
		.rkey = rkey,
		.len_bytes = (uint32_t)bytes,
	};
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_incoming in;

	if (!c->message.at)
		return lacks_queue(c);
	if (access == WEFT_ACCESS_REMOTE_ATOMIC)
		return allows_atomic(c, &request);
	prepare(c, &in, &request, bytes);
	return answer_of(weft_incoming_begin(&in, &cause), &cause);
}

/* A request of one part: its bytes. */
static enum weft_outcome copy_all(struct weft_carried *c, struct weft_incoming *in,
				  enum weft_copy_kind kind, const struct weft_spans *part,
				  enum weft_cause *cause)
{
	enum weft_outcome outcome;

	begin_copy(c, &in->at->grant, kind, in->request.remote_addr, in->request.rkey,
		   part->len_bytes);
	do
		outcome = weft_incoming_place(in, 0, part, cause);
	while (is_copied_again(c, kind, outcome));
	if (outcome == WEFT_DONE)
		weft_incoming_end(in);
	return outcome;
}

static int copy_part(struct weft_carried *c, enum weft_opcode opcode, uint32_t rkey, uint64_t va,
		     const uint8_t *here, uint32_t bytes)
{
	const struct weft_wqe request = {
		.opcode = opcode, .remote_addr = va, .rkey = rkey, .len_bytes = bytes};
	struct weft_spans part;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_copy_kind kind = opcode == WEFT_OP_READ ? WEFT_COPY_ANSWERS : WEFT_COPY_ARRIVES;
	struct weft_incoming in;
	enum weft_outcome outcome;

	if (!c->message.at)
		return lacks_queue(c);
	prepare(c, &in, &request, bytes);
	weft_spans_private(&part, (void *)here, bytes);
	outcome = copy_all(c, &in, kind, &part, &cause);
	return answer_of(outcome, &cause);
}

static int place_bytes(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *from,
		       uint32_t bytes)
{
	return copy_part(carried_of(qp), WEFT_OP_WRITE, rkey, va, from, bytes);
}

static int atomic(struct weft_roce_qp *qp, const struct weft_roce_packet *packet, uint64_t *old)
{
	struct weft_carried *c = carried_of(qp);
	struct weft_card_hand *hand = c->hand;
	bool adds = packet->opcode == WEFT_ROCE_OP_FETCH_ADD ||
		    packet->opcode == WEFT_ROCE_OP_XRC_FETCH_ADD;
	const struct weft_wqe request = {
		.opcode = adds ? WEFT_OP_FETCH_ADD : WEFT_OP_CMP_SWAP,
		.remote_addr = packet->va,
		.rkey = packet->rkey,
		.len_bytes = 8,
	};
	enum weft_cause cause = WEFT_CAUSE_NONE;
	const struct weft_arrival a = {.nic = hand->card->nic,
				       .to = c->message.at,
				       .request = &request,
				       .caller = hand->card->caller,
				       .len_bytes = 8,
				       .cause = &cause};
	struct weft_span at = {.len_bytes = 8};
	enum weft_outcome outcome;
	int err;

	if (!a.to)
		return lacks_queue(c);
	outcome = weft_arrive_begin_atomic(a, WEFT_ACCESS_REMOTE_ATOMIC, &at);

	if (outcome != WEFT_DONE)
		return answer_of(outcome, &cause);
	begin_copy(c, &c->message.at->grant, WEFT_COPY_ARRIVES, packet->va, packet->rkey, 8);
	do {
		err = weft_arrive_atomic(a, &at, adds, adds ? packet->swap_add : packet->compare,
					 packet->swap_add, old);
		outcome = err ? weft_arrive_unreachable(&a, err) : WEFT_DONE;
	} while (is_copied_again(c, WEFT_COPY_ARRIVES, outcome));
	return answer_of(outcome, &cause);
}

/* ---- Messages ---- */

static int take_receive(struct weft_roce_qp *qp)
{
	static const struct weft_wqe request = {.opcode = WEFT_OP_SEND};
	struct weft_carried *c = carried_of(qp);
	enum weft_cause cause = WEFT_CAUSE_NONE;

	if (!c->message.at)
		return lacks_queue(c);
	c->lost = false;
	prepare(c, &c->message, &request, 0);
	return answer_of(weft_incoming_begin(&c->message, &cause), &cause);
}

/* The length of a message is known when all of it has come. */
static int fill_receive(struct weft_roce_qp *qp, uint64_t offset, const uint8_t *from,
			uint32_t bytes)
{
	struct weft_carried *c = carried_of(qp);
	struct weft_spans part;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome;

	if (!c->message.at)
		return lacks_queue(c);
	if (c->lost)
		return WEFT_CAUSE_RECEIVE_MEMORY;
	c->message.len_bytes = offset + bytes;
	weft_spans_private(&part, (void *)from, bytes);
	begin_copy(c, &c->message.at->grant, WEFT_COPY_ARRIVES, c->message.wr_id, offset, bytes);
	do
		outcome = weft_incoming_place(&c->message, offset, &part, &cause);
	while (is_copied_again(c, WEFT_COPY_ARRIVES, outcome));
	return answer_of(outcome, &cause);
}

static int end_key(struct weft_roce_qp *qp, uint32_t key)
{
	struct weft_carried *c = carried_of(qp);
	const struct weft_wqe request = {.opcode = WEFT_OP_SEND_INV, .imm = key};
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_incoming in;
	enum weft_outcome outcome;

	if (!c->message.at)
		return lacks_queue(c);
	prepare(c, &in, &request, 0);
	outcome = weft_incoming_begin(&in, &cause);
	if (outcome == WEFT_DONE)
		c->message.binding = in.binding;
	return answer_of(outcome, &cause);
}

/* A receive has ended. If something was wrong with it, the responder has told its owner when that was found. */
static void received(struct weft_roce_qp *qp, const struct weft_roce_received *what)
{
	struct weft_carried *c = carried_of(qp);
	struct weft_wqe *request = &c->message.request;

	if (what->cause)
		return;
	request->opcode = what->by_write   ? WEFT_OP_WRITE_IMM
			  : what->with_inv ? WEFT_OP_SEND_INV
			  : what->with_imm ? WEFT_OP_SEND_IMM
					   : WEFT_OP_SEND;
	request->imm = what->imm;
	request->flags = what->solicited ? WEFT_SEND_SOLICITED : 0;
	c->message.len_bytes = what->bytes;
	weft_incoming_end(&c->message);
	c->message.begun = false;
}

static void event(struct weft_roce_qp *qp, enum weft_event event)
{
	if (event != WEFT_EVENT_COMM_EST)
		weft_carried_blame(carried_of(qp), event);
}

/* ---- The requester's side ---- */

static int check_keys(struct weft_roce_qp *qp, uint64_t position)
{
	struct weft_carried *c = carried_of(qp);
	const struct weft_wqe *request;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome;

	if (!c->entered)
		return WEFT_ROCE_LATER;
	request = weft_carried_request(c, position);
	if (!request)
		return WEFT_CAUSE_LOCAL_KEY;
	outcome = weft_op_fetches(request->opcode)
			  ? weft_card_scatter(c->hand, request, 0, NULL, 0, &cause)
			  : weft_card_gather(c->hand, c->base + position, request, 0, NULL, 0,
					     &cause);
	if (outcome != WEFT_DONE && outcome != WEFT_FAILED)
		weft_carried_wait(c);
	return answer_of(outcome, &cause);
}

static int fetched(struct weft_roce_qp *qp, uint64_t position, uint64_t offset, const uint8_t *from,
		   uint32_t bytes)
{
	struct weft_carried *c = carried_of(qp);
	const struct weft_wqe *request = weft_carried_request(c, position);
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome;

	if (!request)
		return WEFT_CAUSE_LOCAL_KEY;
	begin_copy(c, &c->hand->grant, WEFT_COPY_FETCHES, position, offset, bytes);
	do
		outcome = weft_card_scatter(c->hand, request, offset, (void *)from, bytes, &cause);
	while (is_copied_again(c, WEFT_COPY_FETCHES, outcome));
	return answer_of(outcome, &cause);
}

static void ended(struct weft_roce_qp *qp, uint64_t position, enum weft_cause cause)
{
	weft_carried_tell(carried_of(qp), position, cause);
}

/* ---- Sending ---- */

/* XRC: the bytes are of the owner of the queue that was named, which the line names meanwhile. */
static int read_at_queue(struct weft_carried *c, const struct weft_roce_bytes *bytes, uint8_t *to,
			 uint32_t n)
{
	const struct weft_wqe request = {.opcode = WEFT_OP_READ,
					 .remote_addr = bytes->va,
					 .rkey = bytes->rkey,
					 .len_bytes = n,
					 .remote_srqn = bytes->srqn};
	struct weft_caller *caller = c->hand->card->caller;
	struct weft_spans part;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	struct weft_incoming in;
	enum weft_outcome outcome;

	weft_incoming_prepare_xrc(&in, &c->hand->to, &c->hand->answered, &request, n);
	weft_spans_private(&part, to, n);
	weft_incoming_leave(&c->message);
	outcome = weft_incoming_enter(&in, caller);
	if (outcome == WEFT_DONE) {
		outcome = in.at ? copy_all(c, &in, WEFT_COPY_ANSWERS, &part, &cause)
				: weft_incoming_begin(&in, &cause);
		weft_incoming_leave(&in);
	}
	c->message.next = weft_busy_begin(caller, c->hand->to.busy_at);
	return answer_of(outcome, &cause);
}

static int read_memory(struct weft_carried *c, const struct weft_roce_bytes *bytes, uint8_t *to,
		       uint32_t n)
{
	return c->hand->type == WEFT_QPT_XRC_RECV
		       ? read_at_queue(c, bytes, to, n)
		       : copy_part(c, WEFT_OP_READ, bytes->rkey, bytes->va, to, n);
}

static int gather_payload(struct weft_carried *c, const struct weft_roce_bytes *bytes, uint8_t *to,
			  uint32_t n)
{
	const struct weft_wqe *request;
	enum weft_cause cause = WEFT_CAUSE_NONE;
	enum weft_outcome outcome;

	switch (bytes->from) {
	case WEFT_ROCE_NO_BYTES:
		return 0;
	case WEFT_ROCE_OF_MEMORY:
		return c->entered ? read_memory(c, bytes, to, n) : WEFT_ROCE_LATER;
	case WEFT_ROCE_OF_REQUEST:
		break;
	}
	if (!c->entered)
		return WEFT_ROCE_LATER;
	if (!n)
		return 0;
	request = weft_carried_request(c, bytes->position);
	if (!request)
		return WEFT_CAUSE_LOCAL_KEY;
	begin_copy(c, &c->hand->grant, WEFT_COPY_GATHERS, bytes->position, bytes->offset, n);
	do
		outcome = weft_card_gather(c->hand, c->base + bytes->position, request,
					   bytes->offset, to, n, &cause);
	while (is_copied_again(c, WEFT_COPY_GATHERS, outcome));
	return answer_of(outcome, &cause);
}

void weft_wire_seal(struct weft_wire *wire, const struct weft_roce_route *route,
		    const struct weft_roce_packet *packet, uint8_t *at, uint16_t id)
{
	uint32_t head = weft_roce_head_bytes(packet->opcode), n = packet->payload_bytes,
		 pad = weft_roce_pad(n), all = weft_wire_bytes(packet), crc = 0;

	weft_roce_build(packet, at);
	memset(at + head + n, 0, pad);
	if (wire->sw.icrc)
		crc = weft_roce_icrc(wire->sw.icrc, route, id, at, head, at + head, all);
	for (int i = 0; i < 4; i++)
		at[head + n + pad + (uint32_t)i] = (uint8_t)(crc >> 8 * i);
	weft_out_commit(wire->out, all);
}

static int send_packet(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		       const struct weft_roce_bytes *bytes)
{
	struct weft_carried *c = carried_of(qp);
	struct weft_wire *wire = weft_wire_of(c->hand);
	const struct weft_out_way way = {qp->config.route.dst, c->traffic_class, 0};
	uint16_t id;
	uint8_t *at = weft_out_reserve(wire->out, way, weft_wire_bytes(packet), &id);
	int answer;

	if (!at) {
		wire->lacks_room = true;
		weft_carried_wait(c);
		return WEFT_ROCE_LATER;
	}
	answer = gather_payload(c, bytes, at + weft_roce_head_bytes(packet->opcode),
				packet->payload_bytes);
	if (answer == WEFT_ROCE_LATER)
		weft_carried_wait(c);
	if (answer)
		return answer;
	weft_wire_seal(wire, &qp->config.route, packet, at, id);
	return 0;
}

const struct weft_roce_world weft_wire_world = {
	.send = send_packet,
	.check = check_keys,
	.fetched = fetched,
	.ended = ended,
	.allows = allows,
	.place = place_bytes,
	.atomic = atomic,
	.take = take_receive,
	.fill = fill_receive,
	.end_key = end_key,
	.received = received,
	.event = event,
};
