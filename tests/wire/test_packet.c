/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Each opcode both ways, each length around each right one, and the reserved bits, at which no receiver may look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "wire/roce/packet.h"

struct known {
	uint8_t opcode, headers;
	enum weft_roce_length length;
};

static const struct known known[] = {
#define KNOWN(opcode, name, verb, place, headers, length) {opcode, headers, WEFT_ROCE_##length},
	WEFT_ROCE_OPCODES(KNOWN)
#undef KNOWN
};
#define KNOWN_COUNT (sizeof(known) / sizeof(known[0]))

static uint64_t seed = 8;

static struct weft_roce_packet some_packet(uint8_t opcode, uint32_t payload_bytes)
{
	const uint8_t headers = weft_roce_row(opcode)->headers;
	struct weft_roce_packet p = {
		.opcode = opcode,
		.solicited = splitmix64(&seed) & 1,
		.ack_requested = splitmix64(&seed) & 1,
		.migrated = splitmix64(&seed) & 1,
		.fecn = splitmix64(&seed) & 1,
		.becn = splitmix64(&seed) & 1,
		.pad = (uint8_t)weft_roce_pad(payload_bytes),
		.pkey = (uint16_t)splitmix64(&seed),
		.dest_qpn = splitmix64(&seed) & 0xffffff,
		.psn = splitmix64(&seed) & 0xffffff,
		.payload_bytes = payload_bytes,
	};

	if (headers & WEFT_ROCE_DETH) {
		p.qkey = (uint32_t)splitmix64(&seed);
		p.src_qpn = splitmix64(&seed) & 0xffffff;
	}
	if (headers & (WEFT_ROCE_RETH | WEFT_ROCE_ATOMIC)) {
		p.va = splitmix64(&seed);
		p.rkey = (uint32_t)splitmix64(&seed);
	}
	if (headers & WEFT_ROCE_RETH)
		p.length = (uint32_t)splitmix64(&seed);
	if (headers & WEFT_ROCE_ATOMIC) {
		p.swap_add = splitmix64(&seed);
		p.compare = splitmix64(&seed);
	}
	if (headers & WEFT_ROCE_AETH) {
		p.syndrome = (uint8_t)splitmix64(&seed);
		p.msn = splitmix64(&seed) & 0xffffff;
	}
	if (headers & WEFT_ROCE_XRCETH)
		p.srqn = splitmix64(&seed) & 0xffffff;
	if (headers & WEFT_ROCE_ATOMIC_ACK)
		p.old = splitmix64(&seed);
	if (headers & WEFT_ROCE_IMM)
		p.imm = (uint32_t)splitmix64(&seed);
	if (headers & WEFT_ROCE_IETH)
		p.ended_key = (uint32_t)splitmix64(&seed);
	return p;
}

/* The whole UDP payload, in memory that ends where it ends. */
static uint8_t *wire_of(const struct weft_roce_packet *p, size_t *bytes)
{
	uint8_t head[WEFT_ROCE_HEAD_BYTES], *at;
	uint32_t n = weft_roce_build(p, head);

	assert_int_equal(n, weft_roce_head_bytes(p->opcode));
	*bytes = n + p->payload_bytes + p->pad + WEFT_ROCE_ICRC_BYTES;
	at = calloc(1, *bytes);
	assert_non_null(at);
	memcpy(at, head, n);
	for (uint32_t i = 0; i < p->payload_bytes; i++)
		at[n + i] = (uint8_t)(i * 7 + 1);
	return at;
}

static void assert_same(const struct weft_roce_packet *a, const struct weft_roce_packet *b)
{
#define SAME(field) assert_true(a->field == b->field)
	SAME(opcode);
	SAME(solicited);
	SAME(ack_requested);
	SAME(migrated);
	SAME(fecn);
	SAME(becn);
	SAME(pad);
	SAME(pkey);
	SAME(dest_qpn);
	SAME(psn);
	SAME(qkey);
	SAME(src_qpn);
	SAME(srqn);
	SAME(va);
	SAME(rkey);
	SAME(length);
	SAME(swap_add);
	SAME(compare);
	SAME(old);
	SAME(syndrome);
	SAME(msn);
	SAME(imm);
	SAME(ended_key);
	SAME(payload_bytes);
#undef SAME
}

static void both_ways(uint8_t opcode, uint32_t payload_bytes)
{
	struct weft_roce_packet p = some_packet(opcode, payload_bytes), parsed;
	size_t bytes;
	uint8_t *wire = wire_of(&p, &bytes);

	memset(&parsed, 0xa5, sizeof(parsed));
	assert_int_equal(weft_roce_parse(wire, bytes, &parsed), 0);
	assert_same(&p, &parsed);
	assert_ptr_equal(parsed.payload, wire + weft_roce_head_bytes(opcode));
	free(wire);
}

static bool may_carry(enum weft_roce_length rule, uint32_t bytes)
{
	switch (rule) {
	case WEFT_ROCE_NONE:
		return !bytes;
	case WEFT_ROCE_FULL:
		return bytes == WEFT_ROCE_TORUS_MTU || bytes == 256 || bytes == 512 ||
		       bytes == 1024 || bytes == 2048 || bytes == 4096;
	case WEFT_ROCE_REST:
		return bytes && bytes <= 4096;
	case WEFT_ROCE_ANY:
		return bytes <= 4096;
	case WEFT_ROCE_EIGHT:
		return bytes == 8;
	}
	return false;
}

static void every_row(void **state)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++)
		for (uint32_t bytes = 0; bytes <= 4096; bytes++)
			if (may_carry(known[i].length, bytes))
				both_ways(known[i].opcode, bytes);
}

static void other_opcodes(void **state)
{
	unsigned int others = 0;

	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		struct weft_roce_packet p;
		uint8_t wire[300] = {(uint8_t)opcode};

		if (weft_roce_row((uint8_t)opcode)->name)
			continue;
		others++;
		for (size_t bytes = 0; bytes < sizeof(wire); bytes++)
			assert_int_not_equal(weft_roce_parse(wire, bytes, &p), 0);
	}
	assert_int_equal(others, 256 - KNOWN_COUNT);
}

/* Cut to each length, and up to three bytes too long: only what obeys the row's rule is parsed. */
static void every_length(void **state)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++) {
		const uint32_t head = weft_roce_head_bytes(known[i].opcode);
		struct weft_roce_packet p = some_packet(known[i].opcode, 0), parsed;
		uint8_t first[WEFT_ROCE_HEAD_BYTES];

		weft_roce_build(&p, first);
		for (uint32_t pad = 0; pad < 4; pad++) {
			for (uint32_t bytes = 0; bytes <= head + 4096 + pad + 4 + 3; bytes++) {
				uint8_t *wire = calloc(1, bytes ? bytes : 1);
				int64_t payload = (int64_t)bytes - head - pad - 4;
				bool good = payload >= 0 && !(bytes & 3) &&
					    may_carry(known[i].length, (uint32_t)payload);

				assert_non_null(wire);
				memcpy(wire, first, bytes < head ? bytes : head);
				if (bytes > 1)
					wire[1] = (uint8_t)((wire[1] & ~0x30) | pad << 4);
				assert_int_equal(!weft_roce_parse(wire, bytes, &parsed), good);
				if (good)
					assert_int_equal(parsed.payload_bytes, payload);
				free(wire);
			}
		}
	}
}

/* With one path MTU the rule says more. */
static void lengths_of_an_mtu(void **state)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++)
		for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2)
			for (uint32_t bytes = 0; bytes <= 4096; bytes++) {
				struct weft_roce_packet p = {.opcode = known[i].opcode,
							     .payload_bytes = bytes};
				bool good = may_carry(known[i].length, bytes) && bytes <= mtu &&
					    (known[i].length != WEFT_ROCE_FULL || bytes == mtu);

				assert_int_equal(weft_roce_length_holds(&p, mtu), good);
			}
}

/* Offset and mask of what is reserved. Congestion bits and MigReq are told, and change nothing else. */
static const struct {
	uint8_t at, mask;
} ignored[] = {{1, 0x40}, {4, 0xff}, {8, 0x7f}, {16, 0xff}};

static void ignored_bits(void **state)
{
	unsigned int flipped = 0;

	for (size_t i = 0; i < KNOWN_COUNT; i++) {
		uint32_t payload = known[i].length == WEFT_ROCE_NONE   ? 0
				   : known[i].length == WEFT_ROCE_FULL ? 256
								       : 8;
		struct weft_roce_packet p = some_packet(known[i].opcode, payload), parsed;
		size_t bytes;
		uint8_t *wire = wire_of(&p, &bytes);

		for (size_t k = 0; k < sizeof(ignored) / sizeof(ignored[0]); k++)
			for (unsigned int bit = 0; bit < 8; bit++) {
				bool deth = known[i].headers & WEFT_ROCE_DETH;

				if (!(ignored[k].mask >> bit & 1) || (ignored[k].at == 16 && !deth))
					continue;
				wire[ignored[k].at] ^= (uint8_t)(1 << bit);
				assert_int_equal(weft_roce_parse(wire, bytes, &parsed), 0);
				parsed.migrated = p.migrated;
				parsed.fecn = p.fecn;
				parsed.becn = p.becn;
				assert_same(&p, &parsed);
				wire[ignored[k].at] ^= (uint8_t)(1 << bit);
				flipped++;
			}
		free(wire);
	}
	assert_int_equal(flipped, KNOWN_COUNT * 16 + 2 * 8);
}

/* A packet with another version of the transport header (TVer) is not parsed. */
static void versions(void **state)
{
	for (unsigned int version = 1; version < 16; version++) {
		struct weft_roce_packet p = some_packet(WEFT_ROCE_OP_SEND_ONLY, 0), parsed;
		size_t bytes;
		uint8_t *wire = wire_of(&p, &bytes);

		wire[1] |= (uint8_t)version;
		assert_int_not_equal(weft_roce_parse(wire, bytes, &parsed), 0);
		free(wire);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row),	cmocka_unit_test(other_opcodes),
		cmocka_unit_test(every_length), cmocka_unit_test(lengths_of_an_mtu),
		cmocka_unit_test(ignored_bits), cmocka_unit_test(versions),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
