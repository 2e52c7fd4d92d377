/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The engine, step by step: what it refuses, when it tells of a buffer, and how numbers wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../ape/crc.h"
#include "wire/ape/packet.h"
#include "wire/nanet/mgp.h"
#include "wire/nanet/nanet.h"

static struct weft_nanet_source_options source;
static struct weft_clop_options list;
static struct weft_nanet_options options = {1, 1, &source, &list};
static struct weft_nanet *engine;
static struct weft_nanet_out out;
static struct weft_nanet_account account;
static void *memory;

static void sound(void)
{
	source = (struct weft_nanet_source_options){.protocol = {.kind = WEFT_PROTOCOL_SEQUENCED,
								 .bits = 16,
								 .step = 1,
								 .big_endian = true},
						    .window = 8,
						    .history = 64,
						    .jump = 100};
	list = (struct weft_clop_options){.buffers = 2, .bytes = 100};
}

static void begin(void)
{
	free(memory);
	assert_null(weft_nanet_wrong(&options));
	memory = malloc(weft_nanet_bytes(&options));
	assert_non_null(memory);
	engine = weft_nanet_begin(&options, memory);
}

/* Datagrams of 20 bytes. */
static void receive(uint16_t number, uint64_t now_ns)
{
	uint8_t data[20] = {(uint8_t)(number >> 8), (uint8_t)number};

	weft_nanet_receive(engine, 0, data, sizeof(data), sizeof(data), now_ns, &out);
	weft_nanet_account(engine, 0, &account);
}

static const struct weft_clop_record *told(void)
{
	assert_true(out.steps && out.step[out.steps - 1].kind == WEFT_NANET_TELL);
	return &out.step[out.steps - 1].record;
}

static void refused(const char *said)
{
	assert_non_null(weft_nanet_wrong(&options));
	assert_non_null(strstr(weft_nanet_wrong(&options), said));
	sound();
	options.sources = options.lists = 1;
	assert_null(weft_nanet_wrong(&options));
}

static void what_makes_no_sense(void **state)
{
	static const struct weft_clop_options ordered = {
		.buffers = 2, .bytes = 160, .slots = 16, .slot_bytes = 10, .ordered = true};
	static const uint32_t histories[] = {0, 32, 96, 65536};

	sound();
	options.sources = 0;
	refused("no source");
	options.lists = 0;
	refused("no list");
	source.list = 1;
	refused("list that is not there");
	source.protocol.bits = 24;
	refused("width");
	source.protocol.step = 0;
	refused("step");
	source.protocol.kind = WEFT_PROTOCOLS;
	refused("kind");
	for (size_t i = 0; i < sizeof(histories) / sizeof(*histories); i++) {
		source.history = histories[i];
		refused("history");
	}
	source.window = 65;
	refused("window");
	source.jump = 40000;
	refused("field");
	list.buffers = 0;
	refused("no buffers");
	list.bytes = 0;
	refused("no bytes");
	list.slots = 11;
	list.slot_bytes = 10;
	refused("slots");
	list.ordered = true;
	refused("list");
	list = ordered;
	source.window = 16;
	refused("window of an ordered");
	list = ordered;
	source.protocol.kind = WEFT_PROTOCOL_RAW;
	refused("numbered");
	list = ordered;
	list.datagrams = 4;
	refused("ends by number");
}

static void time_is_up(void **state)
{
	sound();
	list.timeout_ns = 50;
	begin();
	assert_true(weft_nanet_deadline(engine) == UINT64_MAX);
	receive(1, 1000);
	receive(2, 1040);
	assert_int_equal(weft_nanet_deadline(engine), 1050);
	weft_nanet_timer(engine, 1049, &out);
	assert_int_equal(out.steps, 0);
	weft_nanet_timer(engine, 1050, &out);
	assert_int_equal(told()->why, WEFT_CLOP_TIME);
	assert_int_equal(told()->datagrams, 2);
	assert_int_equal(told()->first_ns, 1000);
	assert_int_equal(told()->last_ns, 1040);
	assert_int_equal(told()->bytes, 40);
	assert_true(weft_nanet_deadline(engine) == UINT64_MAX);
}

static void full_and_dropped(void **state)
{
	sound();
	begin();
	for (uint16_t i = 0; i < 11; i++)
		receive(i, i);
	assert_int_equal(account.counters.placed, 10);
	assert_int_equal(account.counters.no_buffer, 1);
	assert_false(weft_nanet_give_back(engine, 0, 1, 2));
	assert_false(weft_nanet_give_back(engine, 0, 2, 1));
	assert_true(weft_nanet_give_back(engine, 0, 1, 1));
	assert_false(weft_nanet_give_back(engine, 0, 1, 1));
	receive(11, 11);
	assert_int_equal(out.step[0].place.buffer, 1);
	assert_int_equal(out.step[0].place.generation, 2);
	weft_nanet_flush(engine, 0, &out);
	assert_int_equal(told()->why, WEFT_CLOP_FLUSHED);
	assert_int_equal(told()->first_sequence, 11);
	assert_int_equal(weft_nanet_word(told()), 2ull << 32 | 20);
	assert_int_equal(account.sent, 12);
	weft_nanet_flush(engine, 0, &out);
	assert_int_equal(out.steps, 0);
}

/* The numbers go on behind 65,535, as if the field were wider; a jump far away is a restart. */
static void wrap_and_restart(void **state)
{
	sound();
	list.bytes = 4000;
	begin();
	receive(65534, 1);
	receive(1, 2);
	assert_int_equal(out.step[0].place.number, 65537);
	receive(65535, 3);
	assert_int_equal(account.counters.reordered, 1);
	assert_int_equal(account.wraps, 1);
	assert_int_equal(account.missing, 1);
	receive(30000, 4);
	assert_int_equal(account.restarts, 1);
	assert_int_equal(out.steps, 2);
	assert_int_equal(out.step[0].record.why, WEFT_CLOP_RESTARTED);
	assert_int_equal(out.step[0].record.missing, 1);
	receive(0, 5); /* a straggler */
	assert_int_equal(account.restarts, 1);
	assert_int_equal(account.missing, 0);
	assert_int_equal(account.sent, 5);
	receive(0, 6);
	assert_int_equal(account.counters.duplicate, 1);
}

/* A datagram that is farther behind than the window is late, though none of its number has come. */
static void late(void **state)
{
	sound();
	list.bytes = 4000;
	begin();
	receive(10, 1);
	receive(20, 1);
	receive(12, 1);
	assert_int_equal(account.counters.late, 0);
	receive(11, 1);
	assert_int_equal(account.counters.late, 1);
	assert_int_equal(account.missing, 7);
	receive(11, 1);
	assert_int_equal(account.counters.duplicate, 1);
}

/* Ordered slots: each number has its own place; the place of one that is missing stays empty. */
static void ordered(void **state)
{
	sound();
	list = (struct weft_clop_options){
		.buffers = 2, .bytes = 160, .slots = 8, .slot_bytes = 20, .ordered = true};
	source.window = 7;
	begin();
	receive(9, 1);
	assert_int_equal(out.step[0].place.offset, 20);
	receive(11, 1);
	receive(8, 1);
	assert_int_equal(out.step[0].place.offset, 0);
	receive(17, 1);
	assert_int_equal(out.step[0].place.buffer, 1);
	receive(24, 2); /* needs a third buffer: the first is told of, and none is free */
	assert_int_equal(out.steps, 1);
	assert_int_equal(told()->bytes, 80);
	assert_int_equal(told()->first_sequence, 8);
	assert_int_equal(told()->last_sequence, 11);
	assert_int_equal(told()->missing, 1);
	assert_int_equal(account.counters.no_buffer, 1);
}

/* Fields that grow by two, and begin anew between those of before, give numbers that came before: what is late of the old
 * ones has no slot among the new. libFuzzer found it (tests/fuzz/nanet/straggler). */
static void straggler_of_the_same_number(void **state)
{
	sound();
	source.protocol.step = 2;
	source.window = 4;
	list = (struct weft_clop_options){
		.buffers = 2, .bytes = 160, .slots = 8, .slot_bytes = 20, .ordered = true};
	begin();
	receive(10, 1);
	receive(11, 2);
	assert_int_equal(account.restarts, 1);
	receive(8, 3);
	assert_int_equal(out.steps, 0);
	assert_int_equal(account.counters.late, 1);
	receive(9, 4);
	assert_int_equal(out.steps, 1);
	assert_int_equal(out.step[0].place.slot, 4);
	assert_int_equal(account.counters.placed, 3);
}

static void bursts_and_events(void **state)
{
	uint8_t data[WEFT_MGP_HEADER];
	struct weft_mgp mgp = {.bytes = sizeof(data), .source = 2, .sub_source = 3};

	sound();
	source.protocol = (struct weft_protocol){.kind = WEFT_PROTOCOL_MGP, .id = 2 << 8 | 3};
	list.bursts = true;
	begin();
	for (mgp.sequence = 0; mgp.sequence < 3; mgp.sequence++) {
		mgp.flags = mgp.sequence == 1 ? WEFT_MGP_LAST : 0;
		weft_mgp_write(&mgp, data);
		weft_nanet_receive(engine, 0, data, sizeof(data), sizeof(data), 1, &out);
		assert_int_equal(out.steps, mgp.sequence == 1 ? 2 : 1);
		if (mgp.sequence == 1)
			assert_int_equal(told()->why, WEFT_CLOP_BURST);
	}
	mgp.sub_source = 4;
	weft_mgp_write(&mgp, data);
	weft_nanet_receive(engine, 0, data, sizeof(data), sizeof(data), 1, &out);
	weft_nanet_sum(engine, &account);
	assert_int_equal(account.counters.bad, 1);
	assert_int_equal(account.counters.arrived, 4);
}

static void make_packet(uint8_t *data, uint8_t type, struct weft_ape_coord from, uint32_t seq)
{
	struct weft_ape_header h = {.type = type};
	struct weft_ape_footer f = {.seq = seq, .from = from};
	struct weft_ape_word header;

	if (!weft_ape_is_header_only(type))
		h.bytes = WEFT_APE_WORD_BYTES + 1;
	assert_true(weft_ape_header_build(&h, &header));
	memset(data, 0, (size_t)4 * WEFT_APE_WORD_BYTES);
	memset(data + WEFT_APE_WORD_BYTES, 0x5a, WEFT_APE_WORD_BYTES + 1);
	f.crc = weft_ape_packet_crc(crc32c, header, data + WEFT_APE_WORD_BYTES, 2,
				    weft_ape_footer_build(&f));
	weft_ape_word_store(header, data);
	weft_ape_word_store(weft_ape_footer_build(&f), data + (size_t)3 * WEFT_APE_WORD_BYTES);
}

/* Packets of the torus: whose number wraps at 24 bits; what is not intact, no packet with a footer, or another node's, is bad. */
static void packets_of_the_torus(void **state)
{
	uint8_t data[4 * WEFT_APE_WORD_BYTES];
	const struct weft_ape_coord from = {{1, 2, 3}};
	uint32_t bad = 0;

	sound();
	source.protocol = (struct weft_protocol){.kind = WEFT_PROTOCOL_APE,
						 .id = (int32_t)weft_ape_coord_pack(from),
						 .crc32c = crc32c};
	list.bursts = true;
	list.bytes = 200;
	begin();
	for (uint32_t i = 0; i < 3; i++) {
		make_packet(data, i == 1 ? WEFT_APE_PUT_LAST : WEFT_APE_PUT, from,
			    WEFT_APE_SEQ_MASK - 1 + i);
		weft_nanet_receive(engine, 0, data, sizeof(data), sizeof(data), 1, &out);
		assert_int_equal(out.steps, i == 1 ? 2 : 1);
		if (i == 1)
			assert_int_equal(told()->why, WEFT_CLOP_BURST);
	}
	for (size_t bit = 0; bit < 8 * sizeof(data); bit++, bad++) {
		data[bit / 8] ^= 1u << bit % 8;
		weft_nanet_receive(engine, 0, data, sizeof(data), sizeof(data), 1, &out);
		data[bit / 8] ^= 1u << bit % 8;
	}
	for (uint32_t bytes = 1; bytes < sizeof(data); bytes++, bad++)
		weft_nanet_receive(engine, 0, data, bytes, bytes, 1, &out);
	make_packet(data, WEFT_APE_PUT, (struct weft_ape_coord){{1, 2, 2}}, 2);
	weft_nanet_receive(engine, 0, data, sizeof(data), sizeof(data), 1, &out);
	make_packet(data, WEFT_APE_HEADER_ONLY, from, 2);
	weft_nanet_receive(engine, 0, data, sizeof(data), sizeof(data), 1, &out);
	bad += 2;
	weft_nanet_account(engine, 0, &account);
	assert_int_equal(account.counters.bad, bad);
	assert_int_equal(account.counters.placed, 3);
	assert_int_equal(account.wraps, 1);
	assert_int_equal(account.missing, 0);
	source.protocol.crc32c = NULL;
	assert_non_null(weft_nanet_wrong(&options));
}

static int end(void **state)
{
	free(memory);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_makes_no_sense),
		cmocka_unit_test(time_is_up),
		cmocka_unit_test(full_and_dropped),
		cmocka_unit_test(wrap_and_restart),
		cmocka_unit_test(late),
		cmocka_unit_test(ordered),
		cmocka_unit_test(straggler_of_the_same_number),
		cmocka_unit_test(bursts_and_events),
		cmocka_unit_test(packets_of_the_torus),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, end);
}
