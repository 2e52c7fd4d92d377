/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each state of a requester with each packet and timer: a row says what becomes of it. Then what rows do not
 * show: the very nanosecond of time-outs, the window, fences, and what stands in packets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "rig.h"

#define ACK_NS (4096ull << 10)

/* The state in which a requester begins, with requests of four PSNs posted. */
enum begun {
	NOTHING,  /* posted */
	SENT,	  /* four SENDs of one packet */
	PROBED,	  /* the same, round trips known, the first sent again */
	REFUSED,  /* the same, the first without a receive */
	READING,  /* a READ of three packets and a SEND */
	READ_ONE, /* the same, one response has come */
	ATOMICS,  /* a fetch-and-add, an ATOMIC WRITE, two SENDs */
	FAILED,	  /* four SENDs, the first refused */
};

enum input {
	ACK,
	SEQUENCE,
	INVALID,
	ACCESS,
	OPERATION,
	RESERVED,
	RNR,
	RESPONSE, /* as long as it must be */
	WRONG,	  /* a response a byte too short */
	REFUSING, /* a response with a NAK in it */
	ATOMIC_ACK,
	ACK_TIMER,
	PROBE_TIMER,
	RNR_TIMER,
};

struct row {
	enum begun begun;
	enum input input;
	int32_t psn; /* of the packet, behind the first */
	enum weft_roce_state state;
	int32_t una, next;
	uint32_t ended;
	enum weft_cause cause; /* of the last that ended */
};

#define IDLE	WEFT_ROCE_IDLE
#define BUSY	WEFT_ROCE_BUSY
#define PROBING WEFT_ROCE_PROBING
#define WAITING WEFT_ROCE_WAITING
#define STOPPED WEFT_ROCE_STOPPED

static const struct row rows[] = {
	/* begun, input, psn; state, una, next, ended, cause */
	{NOTHING, ACK, -1, IDLE, 0, 0, 0, 0},
	{NOTHING, ACK, 0, IDLE, 0, 0, 0, 0},
	{NOTHING, SEQUENCE, 0, IDLE, 0, 0, 0, 0},
	{NOTHING, RNR, 0, IDLE, 0, 0, 0, 0},
	{NOTHING, ACCESS, 0, IDLE, 0, 0, 0, 0},
	{NOTHING, RESPONSE, 0, IDLE, 0, 0, 0, 0},
	{SENT, ACK, -1, BUSY, 0, 4, 0, 0},
	{SENT, ACK, 0, BUSY, 1, 4, 1, 0},
	{SENT, ACK, 2, BUSY, 3, 4, 3, 0},
	{SENT, ACK, 3, IDLE, 4, 4, 4, 0},
	{SENT, ACK, 4, BUSY, 0, 4, 0, 0},
	{SENT, ACK, 1 << 22, BUSY, 0, 4, 0, 0},
	{SENT, ACK, -(1 << 22), BUSY, 0, 4, 0, 0},
	{SENT, SEQUENCE, -1, BUSY, 0, 4, 0, 0},
	{SENT, SEQUENCE, 0, BUSY, 0, 0, 0, 0},
	{SENT, SEQUENCE, 2, BUSY, 2, 2, 2, 0},
	{SENT, SEQUENCE, 4, BUSY, 0, 4, 0, 0},
	{SENT, RNR, 0, WAITING, 0, 0, 0, 0},
	{SENT, RNR, 3, WAITING, 3, 3, 3, 0},
	{SENT, RNR, 4, BUSY, 0, 4, 0, 0},
	{SENT, INVALID, 0, STOPPED, 0, 4, 1, WEFT_CAUSE_REMOTE_RIGHT},
	{SENT, ACCESS, 1, STOPPED, 1, 4, 2, WEFT_CAUSE_REMOTE_KEY},
	{SENT, OPERATION, 3, STOPPED, 3, 4, 4, WEFT_CAUSE_REMOTE_MEMORY},
	{SENT, ACCESS, 4, BUSY, 0, 4, 0, 0},
	{SENT, ACCESS, -1, BUSY, 0, 4, 0, 0},
	{SENT, RESERVED, 0, BUSY, 0, 4, 0, 0},
	{SENT, RESPONSE, 0, BUSY, 0, 4, 0, 0},
	{SENT, ATOMIC_ACK, 0, BUSY, 0, 4, 0, 0},
	{SENT, ACK_TIMER, 0, BUSY, 0, 0, 0, 0},
	{SENT, RNR_TIMER, 0, BUSY, 0, 4, 0, 0},
	{PROBED, ACK, -1, PROBING, 0, 1, 0, 0},
	{PROBED, ACK, 0, BUSY, 1, 1, 1, 0},
	{PROBED, ACK, 3, IDLE, 4, 4, 4, 0},
	{PROBED, SEQUENCE, 0, BUSY, 0, 0, 0, 0},
	{PROBED, SEQUENCE, 1, BUSY, 1, 1, 1, 0},
	{PROBED, RNR, 0, WAITING, 0, 0, 0, 0},
	{PROBED, INVALID, 0, STOPPED, 0, 1, 1, WEFT_CAUSE_REMOTE_RIGHT},
	{PROBED, ACCESS, 0, STOPPED, 0, 1, 1, WEFT_CAUSE_REMOTE_KEY},
	{PROBED, PROBE_TIMER, 0, PROBING, 0, 0, 0, 0},
	{PROBED, ACK_TIMER, 0, BUSY, 0, 0, 0, 0},
	{REFUSED, ACK, -1, WAITING, 0, 0, 0, 0},
	{REFUSED, ACK, 0, BUSY, 1, 1, 1, 0},
	{REFUSED, ACK, 3, IDLE, 4, 4, 4, 0},
	{REFUSED, SEQUENCE, 0, WAITING, 0, 0, 0, 0},
	{REFUSED, RNR, 0, WAITING, 0, 0, 0, 0},
	{REFUSED, INVALID, 0, STOPPED, 0, 0, 1, WEFT_CAUSE_REMOTE_RIGHT},
	{REFUSED, RNR_TIMER, 0, BUSY, 0, 0, 0, 0},
	{REFUSED, ACK_TIMER, 0, BUSY, 0, 0, 0,
	 0}, /* no ACK timer runs in this state, and the RNR timer has passed by then */
	{READING, ACK, 0, BUSY, 0, 0, 0, 0},
	{READING, ACK, 3, BUSY, 0, 0, 0, 0},
	{READING, RESPONSE, -1, BUSY, 0, 4, 0, 0},
	{READING, RESPONSE, 0, BUSY, 1, 4, 0, 0},
	{READING, RESPONSE, 1, BUSY, 0, 0, 0, 0},
	{READING, RESPONSE, 3, BUSY, 0, 0, 0, 0},
	{READING, WRONG, 0, BUSY, 0, 4, 0, 0},
	{READING, REFUSING, 0, BUSY, 0, 4, 0, 0},
	{READING, ATOMIC_ACK, 0, BUSY, 0, 4, 0, 0},
	{READING, SEQUENCE, 0, BUSY, 0, 0, 0, 0},
	{READING, SEQUENCE, 3, BUSY, 0, 0, 0, 0},
	{READING, ACCESS, 0, STOPPED, 0, 4, 1, WEFT_CAUSE_REMOTE_KEY},
	{READING, ACCESS, 3, BUSY, 0, 0, 0, 0},
	{READING, ACK_TIMER, 0, BUSY, 0, 0, 0, 0},
	{READ_ONE, RESPONSE, 0, BUSY, 1, 4, 0, 0},
	{READ_ONE, RESPONSE, 1, BUSY, 2, 4, 0, 0},
	{READ_ONE, RESPONSE, 2, BUSY, 1, 1, 0, 0},
	{READ_ONE, ACK, 0, BUSY, 1, 4, 0, 0},
	{READ_ONE, ACK, 3, BUSY, 1, 1, 0, 0},
	{READ_ONE, ACCESS, 1, STOPPED, 1, 4, 1, WEFT_CAUSE_REMOTE_KEY},
	{READ_ONE, SEQUENCE, 1, BUSY, 1, 1, 0, 0},
	{READ_ONE, ACK_TIMER, 0, BUSY, 1, 1, 0, 0},
	{ATOMICS, ATOMIC_ACK, 0, BUSY, 1, 4, 1, 0},
	{ATOMICS, RESPONSE, 0, BUSY, 0, 4, 0, 0},
	{ATOMICS, ATOMIC_ACK, 1, BUSY, 0, 0, 0, 0},
	{ATOMICS, ACK, 3, BUSY, 0, 0, 0, 0},
	{FAILED, ACK, 3, STOPPED, 0, 4, 1, WEFT_CAUSE_REMOTE_RIGHT},
	{FAILED, SEQUENCE, 0, STOPPED, 0, 4, 1, WEFT_CAUSE_REMOTE_RIGHT},
	{FAILED, RNR, 0, STOPPED, 0, 4, 1, WEFT_CAUSE_REMOTE_RIGHT},
	{FAILED, RESPONSE, 0, STOPPED, 0, 4, 1, WEFT_CAUSE_REMOTE_RIGHT},
	{FAILED, ACK_TIMER, 0, STOPPED, 0, 4, 1, WEFT_CAUSE_REMOTE_RIGHT},
};

static void put_in(struct rig *r, enum input input, int32_t psn)
{
	static const uint8_t syndromes[] = {
		[ACK] = 0x1f,	    [SEQUENCE] = 0x60, [INVALID] = 0x61, [ACCESS] = 0x62,
		[OPERATION] = 0x63, [RESERVED] = 0x7f, [RNR] = 0x20 | 12};
	struct weft_roce_packet p = rig_packet(WEFT_ROCE_OP_ACKNOWLEDGE, psn, 0);
	uint64_t later_ns[] = {r->qp.requester.ack_ns, r->qp.requester.probe_ns,
			       r->qp.requester.rnr_ns};

	if (input >= ACK_TIMER) {
		uint64_t at_ns = later_ns[input - ACK_TIMER];

		/* a deadline that is earlier passes on the way */
		r->now_ns = at_ns ? at_ns : r->now_ns + 10 * ACK_NS;
		if (input == ACK_TIMER)
			r->qp.requester.probe_ns = 0;
		if (at_ns || input == ACK_TIMER)
			weft_roce_timer(&r->qp, r->now_ns);
		return;
	}
	if (input == RESPONSE || input == WRONG || input == REFUSING) {
		p = rig_packet(psn == 2 ? WEFT_ROCE_OP_RESPONSE_LAST : WEFT_ROCE_OP_RESPONSE_FIRST,
			       psn, psn == 2 ? 8 : RIG_MTU);
		p.payload_bytes -= input == WRONG;
		p.syndrome = input == REFUSING ? 0x62 : 0x1f;
	} else if (input == ATOMIC_ACK) {
		p = rig_packet(WEFT_ROCE_OP_ATOMIC_ACKNOWLEDGE, psn, 0);
	} else {
		p.syndrome = syndromes[input];
	}
	rig_receive(r, &p);
}

static void begin(struct rig *r, enum begun begun)
{
	uint32_t sends = begun == ATOMICS ? 2 : begun == READING || begun == READ_ONE ? 1 : 4;

	rig_open(r, WEFT_ROCE_RC, 0);
	if (begun == NOTHING)
		return;
	if (begun == READING || begun == READ_ONE)
		rig_post(r, WEFT_OP_READ, 2 * RIG_MTU + 8);
	if (begun == ATOMICS) {
		rig_post(r, WEFT_OP_FETCH_ADD, 8);
		rig_post(r, WEFT_OP_ATOMIC_WRITE, 8);
	}
	while (sends--)
		rig_post(r, WEFT_OP_SEND, 8);
	r->qp.requester.rate.round_trip_ns = begun == PROBED ? 50000 : 0;
	rig_run(r);
	r->now_ns += 1000;
	if (begun == PROBED) {
		r->now_ns = r->qp.deadline_ns;
		weft_roce_timer(&r->qp, r->now_ns);
		rig_run(r);
	} else if (begun == REFUSED) {
		put_in(r, RNR, 0);
	} else if (begun == READ_ONE) {
		put_in(r, RESPONSE, 0);
	} else if (begun == FAILED) {
		put_in(r, INVALID, 0);
	}
}

static void each_row(void **state)
{
	struct rig r;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const struct weft_roce_requester *q = &r.qp.requester;

		begin(&r, row->begun);
		put_in(&r, row->input, row->psn);
		if (q->state != row->state || rig_at(q->una) != row->una ||
		    rig_at(q->next) != row->next || r.ended != row->ended || r.cause != row->cause)
			fail_msg("row %zu (%d, %d, %d): %s, una %d, next %d, ended %u, cause %d", i,
				 row->begun, row->input, row->psn, weft_roce_state_str(q->state),
				 rig_at(q->una), rig_at(q->next), r.ended, r.cause);
	}
}

/* ---- Time ---- */

static void live(struct rig *r, uint64_t until_ns)
{
	rig_run(r);
	while (r->qp.deadline_ns && r->qp.deadline_ns <= until_ns) {
		r->now_ns = r->qp.deadline_ns;
		weft_roce_timer(&r->qp, r->now_ns);
		rig_run(r);
	}
}

/* No answer comes: (retry_cnt + 1) time-outs, whatever was probed in between. */
static void retries_end(void **state)
{
	for (uint8_t retries = 0; retries <= 7; retries++)
		for (uint8_t timeout = 1; timeout <= 20; timeout++)
			for (int known = 0; known < 2; known++) {
				struct rig r;

				rig_open(&r, WEFT_ROCE_RC, 0);
				r.qp.config.retry_cnt = r.qp.requester.retry_left = retries;
				r.qp.config.timeout = timeout;
				r.qp.requester.rate.round_trip_ns = known ? 30000 : 0;
				rig_post(&r, WEFT_OP_SEND, 8);
				live(&r, UINT64_MAX);
				assert_int_equal(r.cause, WEFT_CAUSE_NO_ANSWER);
				assert_int_equal(r.now_ns,
						 1 + (retries + 1) * (4096ull << timeout));
				if (!known)
					assert_int_equal(r.nsent, retries + 1);
			}
}

static void timeout_of_none(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_RC, 0);
	r.qp.config.timeout = 0;
	rig_post(&r, WEFT_OP_SEND, 8);
	live(&r, UINT64_MAX);
	assert_int_equal(r.qp.deadline_ns, 0);
	assert_int_equal(r.ended, 0);
}

/* Always without a receive: rnr_retry waits of the peer's timer, but 7 is for ever. */
static void rnr_retries_end(void **state)
{
	for (uint8_t retries = 0; retries <= 7; retries++)
		for (uint8_t code = 0; code < 32; code++) {
			struct weft_roce_packet p = rig_packet(WEFT_ROCE_OP_ACKNOWLEDGE, 0, 0);
			struct rig r;

			rig_open(&r, WEFT_ROCE_RC, 0);
			r.qp.config.rnr_retry = r.qp.requester.rnr_left = retries;
			p.syndrome = WEFT_ROCE_SYNDROME_RNR | code;
			rig_post(&r, WEFT_OP_SEND, 8);
			for (int i = 0; i < 20 && !r.ended; i++) {
				rig_run(&r);
				rig_receive(&r, &p);
				rig_receive(&r, &p); /* twice on the wire */
				if (r.ended)
					break;
				r.now_ns = r.qp.deadline_ns;
				weft_roce_timer(&r.qp, r.now_ns);
			}
			assert_int_equal(r.ended, retries < 7);
			if (retries < 7)
				assert_int_equal(r.now_ns, 1 + retries * weft_roce_rnr_ns(code));
			if (retries < 7)
				assert_int_equal(r.cause, WEFT_CAUSE_NO_RECEIVE);
		}
}

/* Progress begins the count of retries anew. */
static void progress_resets(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_RC, 0);
	r.qp.config.retry_cnt = r.qp.requester.retry_left = 2;
	for (int i = 0; i < 6; i++)
		rig_post(&r, WEFT_OP_SEND, 8);
	for (int i = 0; i < 5; i++) {
		live(&r, r.now_ns + 2 * ACK_NS);
		assert_int_equal(r.qp.requester.retry_left, 0);
		r.qp.requester.rnr_left = 0;
		put_in(&r, ACK, i);
		assert_int_equal(r.qp.requester.retry_left, 2);
		assert_int_equal(r.qp.requester.rnr_left, 2);
	}
	assert_int_equal(r.ended, 5);
}

/* ---- What is sent ---- */

static void window(void **state)
{
	struct rig r;
	uint32_t most;

	rig_open(&r, WEFT_ROCE_RC, 0);
	rig_post(&r, WEFT_OP_WRITE, 1 << 20);
	rig_run(&r);
	assert_int_equal(r.nsent, WEFT_ROCE_FIRST_WINDOW);
	assert_true(r.sent[WEFT_ROCE_FIRST_WINDOW - 1].ack_requested);
	put_in(&r, ACK, WEFT_ROCE_FIRST_WINDOW - 1);
	rig_run(&r);
	assert_int_equal(r.nsent, 3 * WEFT_ROCE_FIRST_WINDOW);
	most = r.qp.requester.rate.window;
	put_in(&r, SEQUENCE, WEFT_ROCE_FIRST_WINDOW);
	assert_int_equal(r.qp.requester.rate.window, most / 2);
	put_in(&r, SEQUENCE, WEFT_ROCE_FIRST_WINDOW); /* twice: heard once */
	assert_int_equal(r.qp.requester.rate.window, most / 2);
	for (int i = 0; i < 10; i++)
		weft_roce_rate_lost(&r.qp.requester.rate);
	assert_int_equal(r.qp.requester.rate.window, WEFT_ROCE_LEAST_WINDOW);
	weft_roce_rate_acked(&r.qp.requester.rate, 1000000);
	assert_int_equal(r.qp.requester.rate.window, WEFT_ROCE_MOST_WINDOW);
}

static void fence(void **state)
{
	struct rig r;

	begin(&r, READING);
	rig_post(&r, WEFT_OP_SEND, 8);
	r.ring[2].fence = true;
	rig_clear(&r);
	rig_run(&r);
	assert_int_equal(r.nsent, 0);
	put_in(&r, RESPONSE, 0);
	put_in(&r, RESPONSE, 1);
	rig_run(&r);
	assert_int_equal(r.nsent, 0);
	put_in(&r, RESPONSE, 2);
	rig_run(&r);
	assert_int_equal(r.nsent, 1);
}

static void outstanding_reads(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_RC, 0);
	for (int i = 0; i < 6; i++)
		rig_post(&r, i & 1 ? WEFT_OP_FETCH_ADD : WEFT_OP_READ, 8);
	rig_run(&r);
	assert_int_equal(r.nsent, 4);
}

/* A READ is resumed at the packet that is missing, and asks for no more than it did. */
static void read_resumed(void **state)
{
	struct rig r;

	begin(&r, READ_ONE);
	rig_clear(&r);
	put_in(&r, SEQUENCE, 1);
	rig_run(&r);
	assert_int_equal(r.sent[0].opcode, WEFT_ROCE_OP_READ_REQUEST);
	assert_int_equal(r.sent[0].psn, (RIG_FIRST + 1) & WEFT_ROCE_PSN_MASK);
	assert_int_equal(r.sent[0].va, RIG_VA + RIG_MTU);
	assert_int_equal(r.sent[0].length, RIG_MTU + 8);
	assert_int_equal(r.sent[1].opcode, WEFT_ROCE_OP_SEND_ONLY);
}

struct part {
	enum weft_opcode opcode;
	uint64_t length;
	uint8_t sent[4];
	uint32_t count;
};

static void opcodes(void **state)
{
	static const struct part parts[] = {
		{WEFT_OP_SEND, 0, {0x04}, 1},
		{WEFT_OP_SEND_IMM, RIG_MTU, {0x05}, 1},
		{WEFT_OP_SEND_INV, 9, {0x17}, 1},
		{WEFT_OP_SEND, RIG_MTU + 1, {0x00, 0x02}, 2},
		{WEFT_OP_SEND_IMM, 3 * RIG_MTU, {0x00, 0x01, 0x03}, 3},
		{WEFT_OP_SEND_INV, 2 * RIG_MTU, {0x00, 0x16}, 2},
		{WEFT_OP_WRITE, 0, {0x0a}, 1},
		{WEFT_OP_WRITE_IMM, 1, {0x0b}, 1},
		{WEFT_OP_WRITE, 2 * RIG_MTU + 1, {0x06, 0x07, 0x08}, 3},
		{WEFT_OP_WRITE_IMM, 2 * RIG_MTU, {0x06, 0x09}, 2},
		{WEFT_OP_READ, 3 * RIG_MTU, {0x0c}, 1},
		{WEFT_OP_CMP_SWAP, 8, {0x13}, 1},
		{WEFT_OP_FETCH_ADD, 8, {0x14}, 1},
		{WEFT_OP_ATOMIC_WRITE, 8, {0x1d}, 1},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		uint64_t sum = 0;
		struct rig r;

		rig_open(&r, WEFT_ROCE_RC, 0);
		rig_post(&r, parts[i].opcode, parts[i].length);
		rig_run(&r);
		assert_int_equal(r.nsent, parts[i].count);
		for (uint32_t k = 0; k < r.nsent; k++) {
			assert_int_equal(r.sent[k].opcode, parts[i].sent[k]);
			assert_int_equal(r.sent[k].psn, (RIG_FIRST + k) & WEFT_ROCE_PSN_MASK);
			assert_true(weft_roce_length_holds(&r.sent[k], RIG_MTU));
			assert_int_equal(r.sent[k].dest_qpn, RIG_PEER);
			assert_true(r.sent[k].migrated);
			sum += r.sent[k].payload_bytes;
		}
		assert_true(r.sent[r.nsent - 1].ack_requested);
		if (!weft_op_fetches(parts[i].opcode))
			assert_int_equal(sum, parts[i].length);
	}
}

/* What is wrong on this side ends the request in its turn, and nothing of it is sent. */
static void local_faults(void **state)
{
	static const struct {
		enum weft_opcode opcode;
		uint64_t length;
		uint8_t reads;
		int check;
		enum weft_cause cause;
	} faults[] = {
		{WEFT_OP_SEND, (1ull << 31) + 1, 4, WEFT_CAUSE_LOCAL_KEY,
		 WEFT_CAUSE_MESSAGE_LENGTH},
		{WEFT_OP_READ, (1ull << 31) + 1, 0, 0, WEFT_CAUSE_MESSAGE_LENGTH},
		{WEFT_OP_CMP_SWAP, 4, 0, WEFT_CAUSE_LOCAL_KEY, WEFT_CAUSE_ATOMIC_LENGTH},
		{WEFT_OP_FETCH_ADD, 16, 4, 0, WEFT_CAUSE_ATOMIC_LENGTH},
		{WEFT_OP_READ, 8, 0, WEFT_CAUSE_LOCAL_KEY, WEFT_CAUSE_NO_READS},
		{WEFT_OP_FETCH_ADD, 8, 0, 0, WEFT_CAUSE_NO_READS},
		{WEFT_OP_WRITE, 8, 0, WEFT_CAUSE_LOCAL_KEY, WEFT_CAUSE_LOCAL_KEY},
		{WEFT_OP_READ, 8, 4, WEFT_CAUSE_LOCAL_MEMORY, WEFT_CAUSE_LOCAL_MEMORY},
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct rig r;

		rig_open(&r, WEFT_ROCE_RC, 0);
		r.qp.config.max_rd_atomic = faults[i].reads;
		rig_post(&r, WEFT_OP_SEND, 8);
		rig_run(&r);
		r.check = faults[i].check;
		rig_post(&r, faults[i].opcode, faults[i].length);
		rig_post(&r, WEFT_OP_SEND, 8);
		rig_run(&r);
		assert_int_equal(r.nsent, 1);
		assert_int_equal(r.ended, 0);
		put_in(&r, ACK, 0);
		assert_int_equal(r.ended, 2);
		assert_int_equal(r.cause, faults[i].cause);
		assert_int_equal(r.qp.requester.state, STOPPED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row),	   cmocka_unit_test(retries_end),
		cmocka_unit_test(timeout_of_none), cmocka_unit_test(rnr_retries_end),
		cmocka_unit_test(progress_resets), cmocka_unit_test(window),
		cmocka_unit_test(fence),	   cmocka_unit_test(outstanding_reads),
		cmocka_unit_test(read_resumed),	   cmocka_unit_test(opcodes),
		cmocka_unit_test(local_faults),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
