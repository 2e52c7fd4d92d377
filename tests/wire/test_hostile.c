/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Of a correct stream, a packet of each kind with one field made wrong. As it is, it does something; with anything wrong it places no
 * byte, completes no receive, carries out no atomic and ends no request with success. What is answered is not longer than what
 * came: but for an ACK of a duplicate, or a NAK, which are four bytes longer than the shortest packet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define OP(name) WEFT_ROCE_OP_##name
#define MTU	 RIG_MTU

/* What has been before: nothing; a message that is not at its end; requests of ours, sent and unanswered. */
enum begun { BETWEEN, IN_SEND, IN_WRITE, SENT, READING, READ_ONE, ADDED, WROTE_ATOMICALLY };

struct kind {
	uint8_t opcode;
	enum begun begun;
	uint32_t bytes;
};

static const struct kind kinds[] = {
	{OP(SEND_FIRST), BETWEEN, MTU},
	{OP(SEND_MIDDLE), IN_SEND, MTU},
	{OP(SEND_LAST), IN_SEND, 12},
	{OP(SEND_LAST_IMM), IN_SEND, 12},
	{OP(SEND_LAST_INV), IN_SEND, 12},
	{OP(SEND_ONLY), BETWEEN, 12},
	{OP(SEND_ONLY_IMM), BETWEEN, 12},
	{OP(SEND_ONLY_INV), BETWEEN, 12},
	{OP(WRITE_FIRST), BETWEEN, MTU},
	{OP(WRITE_MIDDLE), IN_WRITE, MTU},
	{OP(WRITE_LAST), IN_WRITE, 12},
	{OP(WRITE_LAST_IMM), IN_WRITE, 12},
	{OP(WRITE_ONLY), BETWEEN, 12},
	{OP(WRITE_ONLY_IMM), BETWEEN, 12},
	{OP(READ_REQUEST), BETWEEN, 12},
	{OP(CMP_SWAP), BETWEEN, 0},
	{OP(FETCH_ADD), BETWEEN, 0},
	{OP(ATOMIC_WRITE), BETWEEN, 8},
	{OP(ACKNOWLEDGE), SENT, 0},
	{OP(RESPONSE_FIRST), READING, MTU},
	{OP(RESPONSE_MIDDLE), READ_ONE, MTU},
	{OP(RESPONSE_LAST), READ_ONE, MTU},
	{OP(ATOMIC_ACKNOWLEDGE), ADDED, 0},
	{OP(RESPONSE_ONLY), WROTE_ATOMICALLY, 0},
	{OP(UC_SEND_FIRST), BETWEEN, MTU},
	{OP(UC_SEND_MIDDLE), IN_SEND, MTU},
	{OP(UC_SEND_LAST), IN_SEND, 12},
	{OP(UC_SEND_LAST_IMM), IN_SEND, 12},
	{OP(UC_SEND_ONLY), BETWEEN, 12},
	{OP(UC_SEND_ONLY_IMM), BETWEEN, 12},
	{OP(UC_WRITE_FIRST), BETWEEN, MTU},
	{OP(UC_WRITE_MIDDLE), IN_WRITE, MTU},
	{OP(UC_WRITE_LAST), IN_WRITE, 12},
	{OP(UC_WRITE_LAST_IMM), IN_WRITE, 12},
	{OP(UC_WRITE_ONLY), BETWEEN, 12},
	{OP(UC_WRITE_ONLY_IMM), BETWEEN, 12},
	{OP(UD_SEND_ONLY), BETWEEN, 12},
	{OP(UD_SEND_ONLY_IMM), BETWEEN, 12},
	{OP(XRC_SEND_FIRST), BETWEEN, MTU},
	{OP(XRC_SEND_MIDDLE), IN_SEND, MTU},
	{OP(XRC_SEND_LAST), IN_SEND, 12},
	{OP(XRC_SEND_LAST_IMM), IN_SEND, 12},
	{OP(XRC_SEND_LAST_INV), IN_SEND, 12},
	{OP(XRC_SEND_ONLY), BETWEEN, 12},
	{OP(XRC_SEND_ONLY_IMM), BETWEEN, 12},
	{OP(XRC_SEND_ONLY_INV), BETWEEN, 12},
	{OP(XRC_WRITE_FIRST), BETWEEN, MTU},
	{OP(XRC_WRITE_MIDDLE), IN_WRITE, MTU},
	{OP(XRC_WRITE_LAST), IN_WRITE, 12},
	{OP(XRC_WRITE_LAST_IMM), IN_WRITE, 12},
	{OP(XRC_WRITE_ONLY), BETWEEN, 12},
	{OP(XRC_WRITE_ONLY_IMM), BETWEEN, 12},
	{OP(XRC_READ_REQUEST), BETWEEN, 12},
	{OP(XRC_CMP_SWAP), BETWEEN, 0},
	{OP(XRC_FETCH_ADD), BETWEEN, 0},
	{OP(XRC_ATOMIC_WRITE), BETWEEN, 8},
	{OP(XRC_ACKNOWLEDGE), SENT, 0},
	{OP(XRC_RESPONSE_FIRST), READING, MTU},
	{OP(XRC_RESPONSE_MIDDLE), READ_ONE, MTU},
	{OP(XRC_RESPONSE_LAST), READ_ONE, MTU},
	{OP(XRC_ATOMIC_ACKNOWLEDGE), ADDED, 0},
	{OP(XRC_RESPONSE_ONLY), WROTE_ATOMICALLY, 0},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

enum wrong {
	NOTHING,
	NUMBER,
	PARTITION,
	FROM,
	TO,
	SERVICE,
	NEXT,
	BEFORE,
	FAR_AHEAD,
	FAR_BEHIND,
	KEY,
	NO_RIGHT,
	NO_MEMORY,
	ADDRESS_BELOW,
	ADDRESS_BEYOND,
	ADDRESS_ROUND,
	LENGTH_MORE,
	LENGTH_LESS,
	LENGTH_MOST,
	PAYLOAD_MORE,
	PAYLOAD_LESS,
	QUEUE, /* its key, or its number: another than that of the packets before */
	ENDED_KEY,
	SYNDROME,
	STOPPED,
	WRONGS
};

static bool is_reliable(uint8_t opcode)
{
	return weft_roce_is_reliable(weft_roce_service(opcode));
}

/* Whether that field is in such a packet, and can be wrong. */
static bool applies(const struct kind *kind, enum wrong wrong)
{
	const struct weft_roce_row *row = weft_roce_row(kind->opcode);
	const bool key = row->headers & (WEFT_ROCE_RETH | WEFT_ROCE_ATOMIC),
		   datagram = row->headers & WEFT_ROCE_DETH,
		   answer = row->verb >= WEFT_ROCE_RESPONSE,
		   follows = kind->begun == IN_SEND || kind->begun == IN_WRITE;

	switch (wrong) {
	case NOTHING:
	case NUMBER:
	case PARTITION:
	case SERVICE:
	case WRONGS:
		return true;
	case FROM:
	case TO:
		return !datagram;
	case NEXT:
	case FAR_AHEAD:
		/* an ACK is for all before it; over UC what lies between counts as lost */
		return !datagram && (is_reliable(kind->opcode) || follows) &&
		       row->verb != WEFT_ROCE_ACK;
	case FAR_BEHIND:
		return !datagram && (is_reliable(kind->opcode) || follows);
	case BEFORE:
		return !datagram;
	case KEY:
	case NO_RIGHT:
	case ADDRESS_BELOW:
	case ADDRESS_BEYOND:
	case ADDRESS_ROUND:
		return key;
	case NO_MEMORY:
		return key && row->verb != WEFT_ROCE_READ; /* its answer says so */
	case LENGTH_MORE:
	case LENGTH_LESS:
		/* a READ of less is right, as is the first packet of a WRITE that has an end */
		return row->verb == WEFT_ROCE_WRITE && row->headers & WEFT_ROCE_RETH &&
		       row->place == WEFT_ROCE_ONLY;
	case LENGTH_MOST:
		return row->headers & WEFT_ROCE_RETH && row->verb != WEFT_ROCE_ATOMIC_WRITE;
	case PAYLOAD_MORE:
		return row->length != WEFT_ROCE_NONE && row->verb != WEFT_ROCE_SEND;
	case PAYLOAD_LESS:
		return row->length == WEFT_ROCE_FULL ||
		       (kind->begun == IN_WRITE && row->place == WEFT_ROCE_LAST) ||
		       (row->headers & WEFT_ROCE_RETH && row->verb == WEFT_ROCE_WRITE);
	case QUEUE:
		return datagram || (row->headers & WEFT_ROCE_XRCETH && follows);
	case ENDED_KEY:
		return row->headers & WEFT_ROCE_IETH;
	case SYNDROME:
		return row->headers & WEFT_ROCE_AETH;
	case STOPPED:
		return is_reliable(kind->opcode) && !answer;
	}
	return false;
}

/* What is in order after what has been. */
static struct weft_roce_packet right(const struct rig *r, const struct kind *kind)
{
	const bool answer = weft_roce_row(kind->opcode)->verb >= WEFT_ROCE_RESPONSE;
	struct weft_roce_packet p = rig_packet(
		kind->opcode, rig_at(answer ? r->qp.requester.una : r->qp.responder.expected),
		kind->bytes);

	if (weft_roce_row(kind->opcode)->verb == WEFT_ROCE_READ)
		p.payload_bytes = 0;
	if (weft_roce_row(kind->opcode)->place == WEFT_ROCE_FIRST)
		p.length += 12;
	p.va += 64;
	return p;
}

static void go_wrong(struct rig *r, struct weft_roce_packet *p, struct weft_roce_arrival *a,
		     enum wrong wrong)
{
	switch (wrong) {
	case NUMBER:
		p->dest_qpn ^= 1;
		break;
	case PARTITION:
		p->pkey ^= 1;
		break;
	case FROM:
		a->route.src[15] ^= 1;
		break;
	case TO:
		a->route.dst[15] ^= 1;
		break;
	case SERVICE:
		p->opcode ^= WEFT_ROCE_UC << 5;
		break;
	case NEXT:
		p->psn = (p->psn + 1) & WEFT_ROCE_PSN_MASK;
		break;
	case BEFORE:
		p->psn = (p->psn - 1) & WEFT_ROCE_PSN_MASK;
		break;
	case FAR_AHEAD:
		p->psn = (p->psn + (1 << 22)) & WEFT_ROCE_PSN_MASK;
		break;
	case FAR_BEHIND:
		p->psn = (p->psn - (1 << 22)) & WEFT_ROCE_PSN_MASK;
		break;
	case KEY:
		p->rkey ^= 0x100;
		break;
	case NO_RIGHT:
		r->rights = 0;
		break;
	case NO_MEMORY:
		r->unmapped = true;
		break;
	case ADDRESS_BELOW:
		p->va = RIG_VA - 8;
		break;
	case ADDRESS_BEYOND:
		p->va = RIG_VA + RIG_MEMORY;
		break;
	case ADDRESS_ROUND:
		p->va = UINT64_MAX - 7;
		break;
	case LENGTH_MORE:
		p->length++;
		break;
	case LENGTH_LESS:
		p->length--;
		break;
	case LENGTH_MOST:
		p->length = UINT32_MAX;
		break;
	case PAYLOAD_MORE:
		p->payload_bytes += MTU;
		break;
	case PAYLOAD_LESS:
		p->payload_bytes--;
		break;
	case QUEUE:
		p->qkey ^= 1;
		p->srqn ^= 1;
		break;
	case ENDED_KEY:
		p->ended_key ^= 0x100;
		break;
	case SYNDROME:
		p->syndrome = 0x7f; /* reserved */
		break;
	case STOPPED:
		r->qp.responder.stopped = true;
		break;
	case NOTHING:
	case WRONGS:
		break;
	}
}

static void begin(struct rig *r, const struct kind *kind)
{
	const enum weft_roce_service service = weft_roce_service(kind->opcode);
	const uint8_t base = (uint8_t)(service << 5);
	struct weft_roce_packet first;

	rig_open(r, service, 4);
	memset(r->memory, 0xa5, sizeof(r->memory));
	r->qp.config.route.src[15] = 1;
	r->qp.config.route.dst[15] = 2;
	if (kind->begun == IN_SEND || kind->begun == IN_WRITE) {
		first = rig_packet(
			base | (kind->begun == IN_SEND ? OP(SEND_FIRST) : OP(WRITE_FIRST)), 0, MTU);
		first.length =
			MTU +
			(weft_roce_row(kind->opcode)->place == WEFT_ROCE_MIDDLE ? MTU + 12 : 12);
		weft_roce_receive(
			&r->qp, &(struct weft_roce_arrival){.route = {.src[15] = 2, .dst[15] = 1}},
			&first, r->now_ns);
	}
	if (kind->begun == SENT)
		rig_post(r, WEFT_OP_SEND, 8);
	if (kind->begun == READING || kind->begun == READ_ONE)
		rig_post(r, WEFT_OP_READ,
			 weft_roce_row(kind->opcode)->place == WEFT_ROCE_LAST ? 2 * MTU : 3 * MTU);
	if (kind->begun == ADDED)
		rig_post(r, WEFT_OP_FETCH_ADD, 8);
	if (kind->begun == WROTE_ATOMICALLY)
		rig_post(r, WEFT_OP_ATOMIC_WRITE, 8);
	rig_run(r);
	if (kind->begun == READ_ONE) {
		first = rig_packet(base | OP(RESPONSE_FIRST), 0, MTU);
		weft_roce_receive(
			&r->qp, &(struct weft_roce_arrival){.route = {.src[15] = 2, .dst[15] = 1}},
			&first, r->now_ns);
	}
	rig_run(r);
	rig_clear(r);
}

static uint32_t length_of(const struct weft_roce_packet *p)
{
	return weft_roce_head_bytes(p->opcode) + p->payload_bytes +
	       weft_roce_pad(p->payload_bytes) + WEFT_ROCE_ICRC_BYTES;
}

/* Whether anything was done for it. A key can be ended once the message has landed in its receive, which does not complete if it
 * cannot. */
static bool did(const struct rig *before, const struct rig *r, enum wrong wrong)
{
	return memcmp(before->memory, r->memory, sizeof(r->memory)) != 0 ||
	       (wrong != ENDED_KEY && memcmp(before->buffer, r->buffer, sizeof(r->buffer)) != 0) ||
	       (before->nreceived != r->nreceived && !r->received.cause) ||
	       before->atomics != r->atomics || before->placed != r->placed ||
	       before->fetched != r->fetched || (before->ended != r->ended && !r->cause) ||
	       (r->nsent && weft_roce_row(r->sent[0].opcode)->verb == WEFT_ROCE_RESPONSE);
}

/* Plays it. Whether anything was done, and *more: bytes that were answered beyond those that came. */
static bool play(const struct kind *kind, enum wrong wrong, int32_t *more)
{
	struct weft_roce_arrival a = {.route = {.src[15] = 2, .dst[15] = 1}};
	static struct rig before, r;
	struct weft_roce_packet p;

	begin(&r, kind);
	p = right(&r, kind);
	go_wrong(&r, &p, &a, wrong);
	before = r;
	*more = -(int32_t)length_of(&p);
	/* as it comes by the switch: what makes no packet is none (wire-packet) */
	if (weft_roce_row(p.opcode)->name)
		weft_roce_receive(&r.qp, &a, &p, r.now_ns);
	weft_roce_run(&r.qp, 64, r.now_ns);
	for (uint32_t i = 0; i < r.nsent; i++)
		*more += (int32_t)length_of(&r.sent[i]);
	/* our own requests that are sent again for what came are not its answers */
	if (weft_roce_row(kind->opcode)->verb >= WEFT_ROCE_RESPONSE)
		*more = 0;
	return did(&before, &r, wrong);
}

static void each_field(void **state)
{
	unsigned int tried = 0;
	int32_t more;

	for (size_t i = 0; i < KINDS; i++)
		for (enum wrong wrong = 0; wrong < WRONGS; wrong++) {
			bool done;

			if (!applies(&kinds[i], wrong))
				continue;
			done = play(&kinds[i], wrong, &more);
			if (done != (wrong == NOTHING))
				fail_msg("%s, wrong %d: %s", weft_roce_row(kinds[i].opcode)->name,
					 wrong, done ? "it does something" : "it does nothing");
			if (wrong != NOTHING && more > 4)
				fail_msg("%s, wrong %d: %d bytes more than came",
					 weft_roce_row(kinds[i].opcode)->name, wrong, more);
			tried += wrong != NOTHING;
		}
	assert_in_range(tried, 500, 1500);
}

/* Every opcode there is has its place above. */
static void each_kind(void **state)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		size_t i = 0;

		while (i < KINDS && kinds[i].opcode != opcode)
			i++;
		assert_true((i < KINDS) == (weft_roce_row((uint8_t)opcode)->name != NULL));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_kind),
					   cmocka_unit_test(each_field)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
