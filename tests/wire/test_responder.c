/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each state of a responder with each packet: a row says what is answered, done, and told. Then READs and
 * atomics that are asked for again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define OP(name) WEFT_ROCE_OP_##name
#define MTU	 RIG_MTU

enum begun {
	BETWEEN,  /* nothing has come */
	IN_SEND,  /* the first packet of a SEND has */
	IN_WRITE, /* of a WRITE of 2 MTU and 8 */
	GAP,	  /* a packet too early, and its NAK was sent */
	EMPTY,	  /* there is no receive; a SEND was refused */
	STOPPED,  /* a WRITE with a wrong key has come */
	NO_RIGHT, /* the queue pair allows nothing */
	NO_READS, /* max_dest_rd_atomic 0 */
};

/* How a packet differs from a right one. */
enum twist { RIGHT, BAD_KEY, BEYOND, SHORT, LONG, UNALIGNED, BAD_END };

struct row {
	enum begun begun;
	uint8_t opcode;
	int32_t psn; /* behind the one that is expected */
	uint32_t bytes;
	enum twist twist;
	/* after a run: what was sent, if anything; how far it is; receives over; the event */
	int sent, syndrome;
	int32_t moved;
	uint32_t received;
	int event;
};

#define ACKED	 OP(ACKNOWLEDGE), 0x1f
#define INVALID	 OP(ACKNOWLEDGE), 0x61, 0, 0, WEFT_EVENT_QP_REQ_ERR
#define ACCESS	 OP(ACKNOWLEDGE), 0x62, 0, 0, WEFT_EVENT_QP_ACCESS_ERR
#define SEQUENCE OP(ACKNOWLEDGE), 0x60, 0, 0, 0
#define NOT_NOW	 OP(ACKNOWLEDGE), 0x2c, 0, 0, 0
#define NOTHING	 -1, 0, 0, 0, 0

static const struct row rows[] = {
	{BETWEEN, OP(SEND_ONLY), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{BETWEEN, OP(SEND_ONLY), 0, 0, RIGHT, ACKED, 1, 1, 0},
	{BETWEEN, OP(SEND_ONLY_IMM), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{BETWEEN, OP(SEND_ONLY_INV), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{BETWEEN, OP(SEND_ONLY_INV), 0, 8, BAD_END, ACCESS},
	{BETWEEN, OP(SEND_FIRST), 0, MTU, RIGHT, ACKED, 1, 0, 0},
	{BETWEEN, OP(SEND_FIRST), 0, 2 * MTU, RIGHT, INVALID},
	{BETWEEN, OP(SEND_MIDDLE), 0, MTU, RIGHT, INVALID},
	{BETWEEN, OP(SEND_LAST), 0, 8, RIGHT, INVALID},
	{BETWEEN, OP(SEND_LAST_IMM), 0, 8, RIGHT, INVALID},
	{BETWEEN, OP(SEND_LAST_INV), 0, 8, RIGHT, INVALID},
	{BETWEEN, OP(WRITE_MIDDLE), 0, MTU, RIGHT, INVALID},
	{BETWEEN, OP(WRITE_LAST), 0, 8, RIGHT, INVALID},
	{BETWEEN, OP(WRITE_LAST_IMM), 0, 8, RIGHT, INVALID},
	{BETWEEN, OP(WRITE_ONLY), 0, 8, RIGHT, ACKED, 1, 0, 0},
	{BETWEEN, OP(WRITE_ONLY), 0, 0, BAD_KEY, ACKED, 1, 0, 0},
	{BETWEEN, OP(WRITE_ONLY), 0, 8, BAD_KEY, ACCESS},
	{BETWEEN, OP(WRITE_ONLY), 0, 8, BEYOND, ACCESS},
	{BETWEEN, OP(WRITE_ONLY), 0, 8, SHORT, INVALID},
	{BETWEEN, OP(WRITE_ONLY), 0, 8, LONG, INVALID},
	{BETWEEN, OP(WRITE_ONLY_IMM), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{BETWEEN, OP(WRITE_FIRST), 0, MTU, LONG, ACKED, 1, 0, 0},
	{BETWEEN, OP(WRITE_FIRST), 0, MTU, RIGHT,
	 INVALID}, /* the WRITE is of MTU bytes, so that there would be no last packet */
	{BETWEEN, OP(READ_REQUEST), 0, 8, RIGHT, OP(RESPONSE_ONLY), 0x1f, 1, 0, 0},
	{BETWEEN, OP(READ_REQUEST), 0, 0, BAD_KEY, OP(RESPONSE_ONLY), 0x1f, 1, 0, 0},
	{BETWEEN, OP(READ_REQUEST), 0, 2 * MTU, RIGHT, OP(RESPONSE_FIRST), 0x1f, 2, 0, 0},
	{BETWEEN, OP(READ_REQUEST), 0, 8, BAD_KEY, ACCESS},
	{BETWEEN, OP(READ_REQUEST), 0, 8, BEYOND, ACCESS},
	{BETWEEN, OP(CMP_SWAP), 0, 0, RIGHT, OP(ATOMIC_ACKNOWLEDGE), 0x1f, 1, 0, 0},
	{BETWEEN, OP(FETCH_ADD), 0, 0, RIGHT, OP(ATOMIC_ACKNOWLEDGE), 0x1f, 1, 0, 0},
	{BETWEEN, OP(FETCH_ADD), 0, 0, BAD_KEY, ACCESS},
	{BETWEEN, OP(FETCH_ADD), 0, 0, UNALIGNED, INVALID},
	{BETWEEN, OP(ATOMIC_WRITE), 0, 8, RIGHT, OP(RESPONSE_ONLY), 0x1f, 1, 0, 0},
	{BETWEEN, OP(ATOMIC_WRITE), 0, 8, UNALIGNED, INVALID},
	{BETWEEN, OP(SEND_ONLY), 1, 8, RIGHT, SEQUENCE},
	{BETWEEN, OP(READ_REQUEST), 1, 8, RIGHT, SEQUENCE},
	{BETWEEN, OP(SEND_ONLY), -1, 8, RIGHT, ACKED, 0, 0, 0},
	{BETWEEN, OP(WRITE_ONLY), -1, 8, BAD_KEY, ACKED, 0, 0, 0},
	{BETWEEN, OP(READ_REQUEST), -1, 8, RIGHT, NOTHING}, /* forgotten */
	{BETWEEN, OP(CMP_SWAP), -1, 0, RIGHT, NOTHING},
	{IN_SEND, OP(SEND_MIDDLE), 0, MTU, RIGHT, ACKED, 1, 0, 0},
	{IN_SEND, OP(SEND_LAST), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{IN_SEND, OP(SEND_LAST_IMM), 0, MTU, RIGHT, ACKED, 1, 1, 0},
	{IN_SEND, OP(SEND_LAST_INV), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{IN_SEND, OP(SEND_LAST), 0, 0, RIGHT, INVALID},
	{IN_SEND, OP(SEND_MIDDLE), 0, 8, RIGHT, INVALID},
	{IN_SEND, OP(SEND_FIRST), 0, MTU, RIGHT, INVALID},
	{IN_SEND, OP(SEND_ONLY), 0, 8, RIGHT, INVALID},
	{IN_SEND, OP(WRITE_LAST), 0, 8, RIGHT, INVALID},
	{IN_SEND, OP(WRITE_ONLY), 0, 8, RIGHT, INVALID},
	{IN_SEND, OP(READ_REQUEST), 0, 8, RIGHT, INVALID},
	{IN_SEND, OP(FETCH_ADD), 0, 0, RIGHT, INVALID},
	{IN_SEND, OP(SEND_LAST), 1, 8, RIGHT, SEQUENCE},
	{IN_SEND, OP(SEND_FIRST), -1, MTU, RIGHT, ACKED, 0, 0, 0},
	{IN_WRITE, OP(WRITE_MIDDLE), 0, MTU, RIGHT, ACKED, 1, 0, 0},
	{IN_WRITE, OP(WRITE_LAST), 0, MTU, RIGHT, INVALID}, /* more is to come */
	{IN_WRITE, OP(WRITE_LAST_IMM), 0, 8, RIGHT, INVALID},
	{IN_WRITE, OP(SEND_MIDDLE), 0, MTU, RIGHT, INVALID},
	{IN_WRITE, OP(SEND_LAST), 0, 8, RIGHT, INVALID},
	{IN_WRITE, OP(WRITE_FIRST), 0, MTU, LONG, INVALID},
	{IN_WRITE, OP(CMP_SWAP), 0, 0, RIGHT, INVALID},
	{GAP, OP(SEND_ONLY), 1, 8, RIGHT, NOTHING}, /* one NAK a gap */
	{GAP, OP(SEND_ONLY), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{GAP, OP(SEND_ONLY), -1, 8, RIGHT, ACKED, 0, 0, 0},
	{EMPTY, OP(SEND_ONLY), 0, 8, RIGHT, NOT_NOW},
	{EMPTY, OP(SEND_ONLY), 1, 8, RIGHT, NOTHING},
	{EMPTY, OP(SEND_FIRST), 0, MTU, RIGHT, NOT_NOW},
	{EMPTY, OP(WRITE_ONLY_IMM), 0, 8, RIGHT, NOT_NOW},
	{EMPTY, OP(WRITE_ONLY_IMM), 0, 8, BAD_KEY, ACCESS}, /* the key comes first */
	{EMPTY, OP(WRITE_ONLY), 0, 8, RIGHT, ACKED, 1, 0, 0},
	{STOPPED, OP(SEND_ONLY), 0, 8, RIGHT, NOTHING},
	{STOPPED, OP(SEND_ONLY), -1, 8, RIGHT, NOTHING},
	{STOPPED, OP(READ_REQUEST), 1, 8, RIGHT, NOTHING},
	{NO_RIGHT, OP(SEND_ONLY), 0, 8, RIGHT, ACKED, 1, 1, 0},
	{NO_RIGHT, OP(WRITE_ONLY), 0, 8, BAD_KEY, INVALID}, /* the right comes first */
	{NO_RIGHT, OP(READ_REQUEST), 0, 8, RIGHT, INVALID},
	{NO_RIGHT, OP(FETCH_ADD), 0, 0, RIGHT, INVALID},
	{NO_RIGHT, OP(ATOMIC_WRITE), 0, 8, RIGHT, INVALID},
	{NO_READS, OP(READ_REQUEST), 0, 8, BAD_KEY, INVALID},
	{NO_READS, OP(CMP_SWAP), 0, 0, RIGHT, INVALID},
	{NO_READS, OP(WRITE_ONLY), 0, 8, RIGHT, ACKED, 1, 0, 0},
};

static int32_t expected(const struct rig *r)
{
	return rig_at(r->qp.responder.expected);
}

static struct weft_roce_packet packet_of(const struct rig *r, uint8_t opcode, int32_t at,
					 uint32_t bytes)
{
	struct weft_roce_packet p = rig_packet(opcode, expected(r) + at, bytes);

	if (opcode == OP(READ_REQUEST))
		p.payload_bytes = 0;
	return p;
}

static void come(struct rig *r, uint8_t opcode, int32_t at, uint32_t bytes, enum twist twist)
{
	struct weft_roce_packet p = packet_of(r, opcode, at, bytes);

	switch (twist) {
	case RIGHT:
		break;
	case BAD_KEY:
		p.rkey++;
		break;
	case BEYOND:
		p.va += RIG_MEMORY - bytes + 1;
		break;
	case SHORT:
		p.length--;
		break;
	case LONG:
		p.length += MTU + 8;
		break;
	case UNALIGNED:
		p.va += 4;
		break;
	case BAD_END:
		p.ended_key++;
		break;
	}
	rig_receive(r, &p);
}

static void begin(struct rig *r, enum begun begun)
{
	rig_open(r, WEFT_ROCE_RC, begun == EMPTY ? 0 : 4);
	switch (begun) {
	case BETWEEN:
		break;
	case IN_SEND:
		come(r, OP(SEND_FIRST), 0, MTU, RIGHT);
		break;
	case IN_WRITE:
		come(r, OP(WRITE_FIRST), 0, MTU, LONG);
		break;
	case GAP:
		come(r, OP(SEND_ONLY), 1, 8, RIGHT);
		break;
	case EMPTY:
		come(r, OP(SEND_ONLY), 0, 8, RIGHT);
		break;
	case STOPPED:
		come(r, OP(WRITE_ONLY), 0, 8, BAD_KEY);
		break;
	case NO_RIGHT:
		r->rights = 0;
		break;
	case NO_READS:
		r->qp.config.max_dest_rd_atomic = 0;
		break;
	}
	rig_run(r);
	rig_clear(r);
	r->nevents = 0;
}

static void each_row(void **state)
{
	struct rig r;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		int32_t before;
		uint32_t placed;

		begin(&r, row->begun);
		before = expected(&r);
		placed = r.placed + r.atomics;
		come(&r, row->opcode, row->psn, row->bytes, row->twist);
		rig_run(&r);
		if ((row->sent < 0 ? r.nsent != 0 : r.sent[0].opcode != row->sent) ||
		    (row->sent >= 0 && r.sent[0].syndrome != row->syndrome) ||
		    expected(&r) - before != row->moved || r.nreceived != row->received ||
		    r.nevents != (row->event != 0) || (row->event && (int)r.event != row->event))
			fail_msg("row %zu: %u sent, the first %s, syndrome %#x; moved %d, %u "
				 "received, %u events",
				 i, r.nsent, weft_roce_row(r.sent[0].opcode)->name,
				 r.sent[0].syndrome, expected(&r) - before, r.nreceived, r.nevents);
		if (row->event || row->psn)
			assert_int_equal(r.placed + r.atomics, placed);
	}
}

/* The PSN of an ACK is of the last packet done, that of a NAK of the first that is not; MSNs count. */
static void numbers(void **state)
{
	struct rig r;

	begin(&r, BETWEEN);
	come(&r, OP(SEND_FIRST), 0, MTU, RIGHT);
	come(&r, OP(SEND_LAST), 0, 8, RIGHT);
	come(&r, OP(WRITE_ONLY), 0, 8, RIGHT);
	rig_run(&r);
	assert_int_equal(r.nsent, 1); /* one ACK for all that came at once */
	assert_int_equal(r.sent[0].psn, (RIG_FIRST + 2) & 0xffffff);
	assert_int_equal(r.sent[0].msn, 2);
	come(&r, OP(SEND_ONLY), 5, 8, RIGHT);
	rig_run(&r);
	assert_int_equal(r.sent[1].psn, (RIG_FIRST + 3) & 0xffffff);
	/* a packet that asks for no acknowledgement gets none */
	struct weft_roce_packet p = packet_of(&r, OP(WRITE_ONLY), 0, 8);

	p.ack_requested = false;
	rig_receive(&r, &p);
	rig_run(&r);
	assert_int_equal(r.nsent, 2);
}

/* A NAK that has not gone is not sent if what was missing has come meanwhile. */
static void overtaken(void **state)
{
	struct rig r;

	begin(&r, BETWEEN);
	come(&r, OP(SEND_ONLY), 1, 8, RIGHT);
	come(&r, OP(SEND_ONLY), 0, 8, RIGHT);
	rig_run(&r);
	assert_int_equal(r.nsent, 1);
	assert_int_equal(r.sent[0].syndrome, 0x1f);
}

/* A queue pair that is destroyed acknowledges what it has done, once, and says what it has refused; behind a READ that is not
 * answered it says nothing. */
static void last_words(void **state)
{
	struct rig r;

	begin(&r, BETWEEN);
	come(&r, OP(SEND_ONLY), 0, 8, RIGHT);
	weft_roce_close(&r.qp);
	assert_int_equal(r.nsent, 1);
	assert_int_equal(r.sent[0].syndrome, 0x1f);
	weft_roce_close(&r.qp);
	come(&r, OP(READ_REQUEST), 0, 8, RIGHT);
	come(&r, OP(WRITE_ONLY), 0, 8, RIGHT);
	weft_roce_close(&r.qp);
	assert_int_equal(r.nsent, 1);
	begin(&r, BETWEEN);
	come(&r, OP(SEND_ONLY), 1, 8, RIGHT);
	weft_roce_close(&r.qp);
	assert_int_equal(r.nsent, 0);
	begin(&r, BETWEEN);
	come(&r, OP(WRITE_ONLY), 0, 8, BAD_KEY);
	weft_roce_close(&r.qp);
	assert_int_equal(r.nsent, 1);
	assert_int_equal(r.sent[0].syndrome, 0x62);
}

/* An ACK behind a READ waits until that is answered, in pieces. */
static void order_of_answers(void **state)
{
	struct rig r;

	begin(&r, BETWEEN);
	come(&r, OP(READ_REQUEST), 0, 4 * MTU, RIGHT);
	come(&r, OP(WRITE_ONLY), 0, 8, RIGHT);
	assert_true(weft_roce_run(&r.qp, 3, 1));
	assert_int_equal(r.nsent, 3);
	rig_run(&r);
	assert_int_equal(r.nsent, 5);
	assert_int_equal(r.sent[3].opcode, OP(RESPONSE_LAST));
	assert_int_equal(r.sent[4].opcode, OP(ACKNOWLEDGE));
	assert_int_equal(r.sent[4].msn, 2);
	assert_int_equal(r.sent[0].msn, 1);
}

/* ---- READs and atomics that are asked for again ---- */

struct again {
	int32_t psn; /* behind the READ's first */
	uint64_t va; /* behind its start */
	uint32_t length, rkey;
	uint32_t sent;
};

static void reads_again(void **state)
{
	/* the READ was of 3 MTU and 8 */
	static const struct again agains[] = {
		{0, 0, 3 * MTU + 8, RIG_KEY, 4},     {1, MTU, 2 * MTU + 8, RIG_KEY, 3},
		{3, 3 * MTU, 8, RIG_KEY, 1},	     {1, MTU, MTU, RIG_KEY, 1},
		{0, 0, 3 * MTU + 9, RIG_KEY, 0},     {1, 0, 2 * MTU, RIG_KEY, 0},
		{0, 0, 3 * MTU + 8, RIG_KEY + 1, 0}, {1, MTU, 3 * MTU + 8, RIG_KEY, 0},
		{1, MTU + 8, 2 * MTU, RIG_KEY, 0},   {1, MTU, 8, RIG_KEY, 0},
	};

	for (size_t i = 0; i < sizeof(agains) / sizeof(agains[0]); i++) {
		struct weft_roce_packet p;
		struct rig r;

		begin(&r, BETWEEN);
		come(&r, OP(READ_REQUEST), 0, 3 * MTU + 8, RIGHT);
		rig_run(&r);
		assert_int_equal(r.nsent, 4);
		rig_clear(&r);
		p = rig_packet(OP(READ_REQUEST), agains[i].psn, 0);
		p.va += agains[i].va;
		p.length = agains[i].length;
		p.rkey = agains[i].rkey;
		rig_receive(&r, &p);
		rig_run(&r);
		assert_int_equal(r.nsent, agains[i].sent);
		if (r.nsent)
			assert_int_equal(r.sent[0].psn,
					 (RIG_FIRST + (uint32_t)agains[i].psn) & 0xffffff);
		assert_int_equal(r.qp.responder.msn, 1);
	}
}

/* A READ that is asked for again while it is being answered: the answer begins anew, with a first packet. */
static void reads_again_too_early(void **state)
{
	for (int32_t again = 0; again < 4; again++) {
		struct weft_roce_packet p = rig_packet(OP(READ_REQUEST), again, 0);
		struct rig r;

		begin(&r, BETWEEN);
		come(&r, OP(READ_REQUEST), 0, 5 * MTU, RIGHT);
		weft_roce_run(&r.qp, 2, 1);
		rig_clear(&r);
		p.va += (uint64_t)again * MTU;
		p.length = (5 - (uint32_t)again) * MTU;
		rig_receive(&r, &p);
		rig_run(&r);
		assert_int_equal(r.nsent, 5 - again);
		assert_int_equal(r.sent[0].opcode, OP(RESPONSE_FIRST));
		assert_int_equal(r.sent[0].psn, (RIG_FIRST + (uint32_t)again) & 0xffffff);
		assert_int_equal(r.sent[4 - again].opcode, OP(RESPONSE_LAST));
	}
}

/* The key of a READ has ended when the READ is asked for again: it is refused from there on. */
static void key_checked_anew(void **state)
{
	struct rig r;

	begin(&r, BETWEEN);
	come(&r, OP(READ_REQUEST), 0, 3 * MTU, RIGHT);
	assert_true(weft_roce_run(&r.qp, 1, 1));
	r.send = 0;
	r.qp.responder.answer[0].rkey++; /* as if it did not hold any more */
	rig_run(&r);
	assert_int_equal(r.sent[1].syndrome, 0x62);
	assert_int_equal(r.sent[1].psn, (RIG_FIRST + 1) & 0xffffff);
	assert_int_equal(r.event, WEFT_EVENT_QP_ACCESS_ERR);
	assert_int_equal(r.nsent, 2);
}

static void atomics_again(void **state)
{
	struct weft_roce_packet p[6];
	struct rig r;

	begin(&r, BETWEEN);
	for (int i = 0; i < 6; i++) {
		p[i] = packet_of(&r, i == 3 ? OP(ATOMIC_WRITE) : OP(FETCH_ADD), 0, i == 3 ? 8 : 0);
		rig_receive(&r, &p[i]);
		rig_run(&r);
	}
	assert_int_equal(r.atomics, 5);
	assert_int_equal(r.placed, 8);
	rig_clear(&r);
	for (int i = 0; i < 6; i++) {
		rig_receive(&r, &p[i]);
		rig_run(&r);
	}
	assert_int_equal(r.atomics, 5); /* none was carried out twice */
	assert_int_equal(r.placed, 8);
	assert_int_equal(r.nsent, 4); /* two are forgotten */
	assert_int_equal(r.sent[0].old, 0x1002);
	assert_int_equal(r.sent[1].opcode, OP(RESPONSE_ONLY));
	assert_int_equal(r.sent[1].payload_bytes, 0);
	assert_int_equal(r.sent[3].old, 0x1004);
}

/* More READs and atomics at a time than max_dest_rd_atomic. */
static void too_many_reads(void **state)
{
	struct rig r;

	begin(&r, BETWEEN);
	for (int i = 0; i < 5; i++)
		come(&r, OP(READ_REQUEST), 0, 8, RIGHT);
	rig_run(&r);
	assert_int_equal(r.nsent, 5);
	assert_int_equal(r.sent[4].syndrome, 0x61);
}

/* ---- Receives that fail ---- */

static void bad_receives(void **state)
{
	static const struct {
		int fill;
		uint32_t room;
		uint8_t syndrome;
		enum weft_cause cause;
		enum weft_event event;
	} bad[] = {
		{0, 4, 0x61, WEFT_CAUSE_OWN_RECEIVE_LENGTH, WEFT_EVENT_QP_REQ_ERR},
		{WEFT_CAUSE_RECEIVE_KEY, 99, 0x63, WEFT_CAUSE_OWN_RECEIVE_KEY, WEFT_EVENT_QP_FATAL},
		{WEFT_CAUSE_RECEIVE_MEMORY, 99, 0x63, WEFT_CAUSE_OWN_RECEIVE_MEMORY,
		 WEFT_EVENT_QP_FATAL},
	};

	for (size_t i = 0; i < 3; i++) {
		struct rig r;

		begin(&r, BETWEEN);
		r.fill = bad[i].fill;
		r.receive_bytes = bad[i].room;
		come(&r, OP(SEND_ONLY), 0, 8, RIGHT);
		assert_int_equal(r.nevents, 0); /* not before the NAK has gone */
		rig_run(&r);
		assert_int_equal(r.sent[0].syndrome, bad[i].syndrome);
		assert_int_equal(r.received.cause, bad[i].cause);
		assert_int_equal(r.event, bad[i].event);
		assert_int_equal(r.nreceived, 1);
	}
	struct rig r;

	begin(&r, BETWEEN);
	r.place = WEFT_CAUSE_REMOTE_MEMORY;
	come(&r, OP(WRITE_ONLY), 0, 8, RIGHT);
	rig_run(&r);
	assert_int_equal(r.sent[0].syndrome, 0x63);
	assert_int_equal(r.event, WEFT_EVENT_QP_ACCESS_ERR);
}

/* A packet for which the world can do nothing at the moment is as if it had not come. */
static void not_now(void **state)
{
	struct rig r;

	begin(&r, BETWEEN);
	r.place = WEFT_ROCE_LATER;
	come(&r, OP(WRITE_ONLY), 0, 8, RIGHT);
	rig_run(&r);
	assert_int_equal(r.nsent, 0);
	assert_int_equal(expected(&r), 0);
	r.place = 0;
	r.send = WEFT_ROCE_LATER;
	come(&r, OP(WRITE_ONLY), 0, 8, RIGHT);
	rig_run(&r);
	r.send = 0;
	rig_run(&r);
	assert_int_equal(r.nsent, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row),	    cmocka_unit_test(numbers),
		cmocka_unit_test(overtaken),	    cmocka_unit_test(order_of_answers),
		cmocka_unit_test(last_words),	    cmocka_unit_test(reads_again),
		cmocka_unit_test(key_checked_anew), cmocka_unit_test(atomics_again),
		cmocka_unit_test(too_many_reads),   cmocka_unit_test(bad_receives),
		cmocka_unit_test(not_now),	    cmocka_unit_test(reads_again_too_early),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
