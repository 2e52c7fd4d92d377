/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Unreliable connections and datagrams; and what is no queue pair's packet at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define OP(name) WEFT_ROCE_OP_##name
#define MTU	 RIG_MTU
#define PARTS	 10

static void come(struct rig *r, uint8_t opcode, int32_t at, uint32_t bytes, uint32_t length)
{
	struct weft_roce_packet p = rig_packet(opcode, at, bytes);

	p.length = length;
	rig_receive(r, &p);
	rig_run(r);
}

/* A message of ten packets, but for one, if any; from PSN `at` on. */
static void message(struct rig *r, bool write, int32_t at, int lost)
{
	for (int i = 0; i < PARTS; i++) {
		uint8_t opcode = write ? OP(UC_WRITE_MIDDLE) : OP(UC_SEND_MIDDLE);

		opcode += i == PARTS - 1 ? (write ? 2 : 1) : 0;
		opcode -= i == 0;
		if (i != lost)
			come(r, opcode, at + i, i == PARTS - 1 ? 8 : MTU, (PARTS - 1) * MTU + 8);
	}
}

static void each_packet_lost(void **state)
{
	for (int write = 0; write < 2; write++)
		for (int lost = -1; lost < PARTS; lost++) {
			struct rig r;

			rig_open(&r, WEFT_ROCE_UC, 3);
			message(&r, write, 0, -1);
			message(&r, write, PARTS, lost);
			message(&r, write, 2 * PARTS, -1);
			assert_int_equal(r.nevents, 0);
			assert_int_equal(r.nsent, 0);
			assert_false(r.qp.responder.stopped);
			if (write) {
				/* what came before the loss has been placed */
				assert_int_equal(r.placed % MTU, lost < 0 ? 24 : 16);
				continue;
			}
			assert_int_equal(r.nreceived, lost < 0 ? 3 : 2);
			assert_int_equal(r.receives, lost < 0 ? 0 : 1);
			assert_int_equal(r.received.bytes, (PARTS - 1) * MTU + 8);
		}
}

/* A packet that comes twice, or late: nothing is done for it. */
static void doubled(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_UC, 4);
	for (int i = 0; i < 3; i++) {
		come(&r, OP(UC_SEND_ONLY), i, 8, 8);
		come(&r, OP(UC_SEND_ONLY), i, 8, 8);
		come(&r, OP(UC_SEND_ONLY), 0, 8, 8);
	}
	assert_int_equal(r.nreceived, 3);
}

/* However many packets are lost, PSNs go on; a PSN that is far behind is taken for one that is far ahead. */
static void far_away(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_UC, 200);
	for (int i = 0; i < 100; i++) {
		uint64_t before = r.qp.responder.expected;

		come(&r, OP(UC_SEND_ONLY), rig_at(before) - 1025 - (i << 14), 8, 8);
		assert_true(r.qp.responder.expected > before);
		come(&r, OP(UC_SEND_ONLY), rig_at(r.qp.responder.expected), 8, 8);
	}
	assert_int_equal(r.nreceived, 200);
}

static void uc_drops(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_UC, 0);
	come(&r, OP(UC_SEND_ONLY), 0, 8, 8); /* no receive */
	r.receives = 1;
	r.receive_bytes = 4;
	come(&r, OP(UC_SEND_ONLY), 1, 8, 8);  /* too long for it */
	come(&r, OP(UC_WRITE_ONLY), 2, 8, 9); /* not as long as it says */
	come(&r, OP(UC_SEND_LAST), 3, 8, 8);  /* of no message */
	r.rights = 0;
	come(&r, OP(UC_WRITE_ONLY), 4, 8, 8);
	assert_int_equal(r.nreceived + r.placed + r.nevents + r.nsent, 0);
	r.receive_bytes = 8;
	come(&r, OP(UC_SEND_ONLY_IMM), 5, 8, 8); /* the receive serves this one */
	assert_int_equal(r.nreceived, 1);
	assert_true(r.received.with_imm);
	r.receives = 1;
	r.fill = WEFT_CAUSE_RECEIVE_KEY;
	come(&r, OP(UC_SEND_ONLY), 6, 8, 8); /* only a receive's own fault is an error */
	assert_int_equal(r.received.cause, WEFT_CAUSE_OWN_RECEIVE_KEY);
	assert_int_equal(r.event, WEFT_EVENT_QP_FATAL);
	assert_int_equal(r.nsent, 0);
}

static void uc_sends(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_UC, 0);
	rig_post(&r, WEFT_OP_SEND, 3 * MTU);
	rig_post(&r, WEFT_OP_WRITE_IMM, 8);
	rig_run(&r);
	assert_int_equal(r.nsent, 4);
	assert_int_equal(r.sent[0].opcode, OP(UC_SEND_FIRST));
	assert_int_equal(r.sent[3].opcode, OP(UC_WRITE_ONLY_IMM));
	assert_false(r.sent[3].ack_requested);
	assert_int_equal(r.ended, 2);
	assert_int_equal(r.cause, 0);
	assert_int_equal(r.qp.deadline_ns, 0);
	rig_post(&r, WEFT_OP_READ, 8);
	rig_run(&r);
	assert_int_equal(r.ended, 3);
	assert_int_equal(r.cause, WEFT_CAUSE_OPERATION);
	/* what comes is still taken */
	come(&r, OP(UC_WRITE_ONLY), 0, 8, 8);
	assert_int_equal(r.placed, 8);
}

/* ---- Datagrams ---- */

static void datagrams(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_UD, 1);
	struct weft_roce_packet p = rig_packet(OP(UD_SEND_ONLY_IMM), 77, MTU);

	p.imm = 5;
	p.qkey++;
	rig_receive(&r, &p);
	assert_int_equal(r.nreceived, 0);
	p.qkey--;
	rig_receive(&r, &p);
	assert_int_equal(r.nreceived, 1);
	assert_int_equal(r.received.bytes, 40 + MTU);
	assert_int_equal(r.received.src_qpn, RIG_PEER);
	assert_int_equal(r.received.imm, 5);
	assert_memory_equal(r.buffer + 40, p.payload, MTU);
	rig_receive(&r, &p); /* no receive */
	assert_int_equal(r.nreceived, 1);
	r.receives = 2;
	r.receive_bytes = 41;
	rig_receive(&r, &p); /* too long: the receive stays */
	r.receive_bytes = 40 + MTU;
	rig_receive(&r, &p);
	assert_int_equal(r.nreceived, 2);
	assert_int_equal(r.receives, 1);
	r.fill = WEFT_CAUSE_RECEIVE_MEMORY;
	rig_receive(&r, &p);
	assert_int_equal(r.received.cause, WEFT_CAUSE_OWN_RECEIVE_MEMORY);
	assert_int_equal(r.event, WEFT_EVENT_QP_FATAL);
	r.receives = 1;
	rig_receive(&r, &p);
	assert_int_equal(r.nreceived, 3);
}

static void datagrams_sent(void **state)
{
	struct rig r;

	rig_open(&r, WEFT_ROCE_UD, 0);
	rig_post(&r, WEFT_OP_SEND_IMM, MTU);
	r.ring[0].qkey = 1u << 31; /* the queue pair's own */
	rig_post(&r, WEFT_OP_SEND, 0);
	rig_post(&r, WEFT_OP_SEND, MTU + 1);
	rig_post(&r, WEFT_OP_SEND, 8);
	rig_run(&r);
	assert_int_equal(r.nsent, 2);
	assert_int_equal(r.sent[0].opcode, OP(UD_SEND_ONLY_IMM));
	assert_int_equal(r.sent[0].qkey, 0x1234);
	assert_int_equal(r.sent[0].src_qpn, RIG_QPN);
	assert_int_equal(r.sent[1].psn, RIG_FIRST + 1);
	assert_int_equal(r.ended, 3);
	assert_int_equal(r.cause, WEFT_CAUSE_DATAGRAM_LENGTH);
	rig_open(&r, WEFT_ROCE_UD, 0);
	rig_post(&r, WEFT_OP_WRITE, 8);
	rig_run(&r);
	assert_int_equal(r.cause, WEFT_CAUSE_OPERATION);
	assert_int_equal(r.nsent, 0);
}

static void headers(void **state)
{
	struct weft_roce_arrival a = {
		.traffic_class = 0x89, .hop_limit = 63, .id = 0x1234, .udp_bytes = 36};
	uint8_t grh[WEFT_ROCE_GRH_BYTES];
	uint32_t sum = 0;

	memcpy(a.route.src, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
	memcpy(a.route.dst, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
	weft_roce_grh(&a, grh);
	for (int i = 0; i < 20; i++)
		assert_int_equal(grh[i], 0);
	assert_memory_equal(grh + 20, "\x45\x89\0\x40\x12\x34\x40\0\x3f\x11", 10);
	assert_memory_equal(grh + 32, "\xc0\0\2\1\xc0\0\2\2", 8);
	for (int i = 20; i < 40; i += 2)
		sum += (uint32_t)grh[i] << 8 | grh[i + 1];
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	memcpy(a.route.src, "\xfe\x80\0\0\0\0\0\0\2\0\0\0\0\0\0\1", 16);
	memcpy(a.route.dst, "\xfe\x80\0\0\0\0\0\0\2\0\0\0\0\0\0\2", 16);
	weft_roce_grh(&a, grh);
	assert_memory_equal(grh, "\x68\x90\0\0\0\x2c\x11\x3f", 8);
	assert_memory_equal(grh + 8, a.route.src, 16);
	assert_memory_equal(grh + 24, a.route.dst, 16);
}

/* ---- Packets of no queue pair ---- */

enum wrong { QPN, PKEY, SOURCE, DESTINATION, UC, UD, WRONGS };

/* Neither a byte of the queue pair nor of memory changes, and nothing is sent. */
static void not_ours(void **state)
{
	static const uint8_t opcodes[] = {OP(SEND_ONLY),	 OP(WRITE_ONLY),  OP(READ_REQUEST),
					  OP(FETCH_ADD),	 OP(ACKNOWLEDGE), OP(RESPONSE_ONLY),
					  OP(ATOMIC_ACKNOWLEDGE)};

	for (enum wrong wrong = 0; wrong < WRONGS; wrong++)
		for (size_t i = 0; i < sizeof(opcodes); i++) {
			uint8_t opcode = wrong == UC   ? OP(UC_WRITE_ONLY)
					 : wrong == UD ? OP(UD_SEND_ONLY)
						       : opcodes[i];
			struct weft_roce_packet p = rig_packet(opcode, 0, 0);
			struct weft_roce_arrival a = {0};
			struct rig before, r;

			rig_open(&r, WEFT_ROCE_RC, 4);
			rig_post(&r, WEFT_OP_SEND, 8);
			rig_run(&r);
			p.dest_qpn ^= wrong == QPN;
			p.pkey ^= wrong == PKEY;
			a.route.src[15] ^= wrong == SOURCE;
			a.route.dst[0] ^= wrong == DESTINATION;
			before = r;
			weft_roce_receive(&r.qp, &a, &p, 5);
			rig_run(&r);
			assert_int_equal(r.qp.counters.dropped, 1);
			r.qp.counters.dropped = 0;
			assert_memory_equal(&before, &r, sizeof(r));
		}
}

/* A limited member may talk to a full one. */
static void partitions(void **state)
{
	struct weft_roce_packet p = rig_packet(OP(SEND_ONLY), 0, 0);
	struct rig r;

	rig_open(&r, WEFT_ROCE_RC, 4);
	p.pkey = 0x7fff;
	rig_receive(&r, &p);
	assert_int_equal(r.nreceived, 1);
	r.qp.config.pkey = 0x7fff;
	p.psn++;
	rig_receive(&r, &p);
	assert_int_equal(r.nreceived, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_packet_lost), cmocka_unit_test(doubled),
		cmocka_unit_test(far_away),	    cmocka_unit_test(uc_drops),
		cmocka_unit_test(uc_sends),	    cmocka_unit_test(datagrams),
		cmocka_unit_test(datagrams_sent),   cmocka_unit_test(headers),
		cmocka_unit_test(not_ours),	    cmocka_unit_test(partitions),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
