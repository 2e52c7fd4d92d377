/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ICRCs that others have computed; identifications solved from them; and how many of a million packets
 * that were corrupted, behind a UDP checksum that was mended, are taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "math.h"
#include "wire/roce/packet.h"

#define MSECOND 1000000ull

static struct weft_roce_icrc icrc;
static uint64_t seed;

static struct weft_roce_route ipv4(uint32_t src, uint32_t dst, uint16_t src_port)
{
	struct weft_roce_route r = {.src_port = src_port, .dst_port = WEFT_ROCE_PORT};

	r.src[10] = r.src[11] = r.dst[10] = r.dst[11] = 0xff;
	for (int i = 0; i < 4; i++) {
		r.src[12 + i] = (uint8_t)(src >> (24 - 8 * i));
		r.dst[12 + i] = (uint8_t)(dst >> (24 - 8 * i));
	}
	return r;
}

static struct weft_roce_route ipv6(void)
{
	struct weft_roce_route r = {.src_port = 0xc123, .dst_port = WEFT_ROCE_PORT};

	memcpy(r.src, "\xfe\x80\0\0\0\0\0\0\2\1\2\3\4\5\6\7", 16);
	memcpy(r.dst, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02", 16);
	return r;
}

static void put_icrc(const struct weft_roce_route *route, uint16_t id, uint8_t *at, size_t bytes)
{
	uint32_t crc = weft_roce_icrc(&icrc, route, id, at, WEFT_ROCE_BTH_BYTES,
				      at + WEFT_ROCE_BTH_BYTES, bytes);

	for (int i = 0; i < 4; i++)
		at[bytes - 4 + i] = (uint8_t)(crc >> 8 * i);
}

static void fill(uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)splitmix64(&seed);
}

/* ---- Others' packets ---- */

struct capture {
	const char *of;
	struct weft_roce_route route;
	uint16_t id;
	size_t bytes;
	uint8_t udp_payload[64];
};

/* From the tests of scapy (test/contrib/roce.uts). */
static void captured(void **state)
{
	const struct capture captures[] = {
		{.of = "a SEND of an unreliable connection",
		 .route = ipv4(0xc0a80007, 0xc0a80007, 49152),
		 .id = 1144,
		 .bytes = 36,
		 .udp_payload = {0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00,
				 0xcf, 0x17, 0x10, 'F',	 '0',  0x81, 0x8b, 0xe2, 0x89,
				 '5',  0xd9, 0x0e, 0x9a, 0x95, 'P',  'T',  0x01, 0xbe,
				 0x88, '^',  'P',  0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3}},
		{.of = "a congestion notification of a ConnectX-4 Lx",
		 .route = ipv4(0x0a001101, 0x0a001201, 0),
		 .id = 0x718c,
		 .bytes = 32,
		 .udp_payload = {0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0, 0, 0,
				 0, [28] = 0x82, 0xfd, 0x00, 0x2a}},
	};

	for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
		const struct capture *c = &captures[i];
		struct weft_roce_source source = {0};
		uint16_t id;

		assert_int_not_equal(weft_roce_icrc_check(&icrc, &source, &c->route, c->udp_payload,
							  c->bytes, 0, 1, 1, &id),
				     WEFT_ROCE_ICRC_WRONG);
		assert_int_equal(id, c->id);
	}
	struct weft_roce_packet p;

	assert_int_equal(weft_roce_parse(captures[0].udp_payload, captures[0].bytes, &p), 0);
	assert_int_equal(p.opcode, WEFT_ROCE_OP_UC_SEND_ONLY);
	assert_int_equal(p.dest_qpn, 211);
	assert_int_equal(p.psn, 13571856);
	assert_true(p.migrated);
	assert_int_equal(p.payload_bytes, 18);
}

/* ---- Identifications ---- */

static void solved_at_each_length(void **state)
{
	struct weft_roce_route route = ipv4(0xc0000201, 0xc0000202, 0xd000);
	uint8_t at[WEFT_ROCE_MAX_BYTES];

	for (size_t bytes = 16; bytes <= WEFT_ROCE_MAX_BYTES; bytes += 4) {
		struct weft_roce_source source = {0};
		uint16_t id = (uint16_t)splitmix64(&seed), got;

		fill(at, bytes);
		put_icrc(&route, id, at, bytes);
		assert_int_not_equal(
			weft_roce_icrc_check(&icrc, &source, &route, at, bytes, 0, 1, 1, &got),
			WEFT_ROCE_ICRC_WRONG);
		assert_int_equal(got, id);
	}
}

/* A flip of any bit that the ICRC covers is noticed; flips of bits that routers change are not. */
static void every_bit(void **state)
{
	const struct weft_roce_route routes[] = {ipv4(0xc0000201, 0xc0000202, 0xd000), ipv6()};
	uint8_t at[48];
	uint16_t id;

	for (size_t r = 0; r < 2; r++) {
		fill(at, sizeof(at));
		put_icrc(&routes[r], 0, at, sizeof(at));
		for (size_t bit = 0; bit < 8 * sizeof(at); bit++) {
			struct weft_roce_source source = {.trust = 2 * WEFT_ROCE_TRUST};
			bool variant = bit / 8 == 4;

			at[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_int_equal(weft_roce_icrc_check(&icrc, &source, &routes[r], at,
							      sizeof(at), 0, 1, 1, &id),
					 variant ? WEFT_ROCE_ICRC_RIGHT : WEFT_ROCE_ICRC_WRONG);
			at[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		for (size_t bit = 0; bit < 8 * sizeof(routes[r]); bit++) {
			struct weft_roce_source source = {.trust = 2 * WEFT_ROCE_TRUST};
			struct weft_roce_route other = routes[r];

			((uint8_t *)&other)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (weft_roce_is_ipv4(&other) != weft_roce_is_ipv4(&routes[r]) ||
			    (!r && bit < 8 * 12)) /* mapped: no such address */
				continue;
			assert_int_equal(weft_roce_icrc_check(&icrc, &source, &other, at,
							      sizeof(at), 0, 1, 1, &id),
					 WEFT_ROCE_ICRC_WRONG);
		}
	}
}

/*
 * Of a source that is taken on 16 bits, one wrong byte of the payload is noticed, wherever it is and
 * whatever it is, but for 15 of the 255 values that byte 93 can be changed by: together with 16 bits of
 * ID these make a multiple of the polynomial.
 */
static void single_bytes(void **state)
{
	struct weft_roce_route route = ipv4(0xc0000201, 0xc0000202, 0xd000);
	uint8_t at[1064] = {0};
	unsigned int taken = 0;

	put_icrc(&route, 0x1234, at, sizeof(at));
	for (size_t i = 0; i < sizeof(at); i++)
		for (unsigned int flip = 1; flip < 256; flip++) {
			struct weft_roce_source source = {0};
			uint16_t id;

			at[i] ^= (uint8_t)flip;
			if (i != 4 && weft_roce_icrc_check(&icrc, &source, &route, at, sizeof(at),
							   0, 1, 1, &id)) {
				assert_int_equal(i, 93);
				taken++;
			}
			at[i] ^= (uint8_t)flip;
		}
	assert_int_equal(taken, 15);
}

static enum weft_roce_icrc_verdict judge(struct weft_roce_source *source, uint16_t id,
					 uint16_t segment, uint64_t now_ns)
{
	return weft_roce_source_judge(source, id, segment, now_ns, now_ns);
}

/* Of two packets that are taken together the second may have come long behind the first. */
static void late_looks(void **state)
{
	const uint64_t since_ns = 1000 * MSECOND, now_ns = 2000 * MSECOND;
	struct weft_roce_source s = {0};
	uint16_t id = 100;

	for (unsigned int i = 0; i < WEFT_ROCE_TRUST + 8; i++)
		judge(&s, ++id, 0, since_ns);
	assert_int_equal(weft_roce_source_judge(&s, ++id, 0, since_ns, now_ns),
			 WEFT_ROCE_ICRC_RIGHT);
	assert_int_equal(weft_roce_source_judge(&s, id + 1200, 0, since_ns, now_ns),
			 WEFT_ROCE_ICRC_WRONG);
	assert_int_equal(weft_roce_source_judge(&s, id + 1000, 0, since_ns, now_ns),
			 WEFT_ROCE_ICRC_RIGHT);
	assert_int_equal(weft_roce_source_judge(&s, id + 2000, 0, now_ns, now_ns),
			 WEFT_ROCE_ICRC_RIGHT);
	assert_int_equal(weft_roce_source_judge(&s, id + 3000, 0, now_ns, now_ns),
			 WEFT_ROCE_ICRC_WRONG);
}

/* On how many bits each source's packets are judged, packet by packet. */
static void sources(void **state)
{
	struct weft_roce_source s = {0};
	uint16_t id = 60000;

	/* zeros and the places in batches are expected from the first packet on */
	assert_int_equal(judge(&s, 0, 0, 1), WEFT_ROCE_ICRC_RIGHT);
	assert_int_equal(judge(&s, 7, 7, 1), WEFT_ROCE_ICRC_RIGHT);
	/* and do not make what a counter could have come to in the meantime right, however long they last */
	for (uint64_t i = 1; i < 100; i++)
		assert_int_equal(judge(&s, i % 9, i % 9, i * 1000 * MSECOND), WEFT_ROCE_ICRC_RIGHT);
	assert_int_equal(judge(&s, 30000, 0, 99000 * MSECOND), WEFT_ROCE_ICRC_WRONG);
	/* a counter becomes known, over its wrap */
	s = (struct weft_roce_source){0};
	assert_int_equal(judge(&s, id, 0, MSECOND), WEFT_ROCE_ICRC_WEAK);
	for (unsigned int i = 0; i < 30000; i++)
		assert_int_equal(judge(&s, ++id, 0, MSECOND), WEFT_ROCE_ICRC_RIGHT);
	/* overtaken ones are taken, and the counter stays where it is */
	assert_int_equal(judge(&s, id - 64, 0, MSECOND), WEFT_ROCE_ICRC_RIGHT);
	assert_int_equal(judge(&s, id + 128, 0, MSECOND), WEFT_ROCE_ICRC_RIGHT);
	id += 128;
	/* a jump is not, unless time allows it */
	assert_int_equal(judge(&s, id + 1000, 0, 2 * MSECOND), WEFT_ROCE_ICRC_WRONG);
	assert_int_equal(judge(&s, id + 1000, 0, 1000 * MSECOND), WEFT_ROCE_ICRC_RIGHT);
	/* the packet after a jump is taken again, if it follows the jump */
	id = (uint16_t)(id + 30000);
	assert_int_equal(judge(&s, id, 0, 1000 * MSECOND), WEFT_ROCE_ICRC_WRONG);
	assert_int_equal(judge(&s, id + 1, 0, 1000 * MSECOND), WEFT_ROCE_ICRC_RIGHT);
	/* the counter of a source that was silent may have come so far: its first packet is taken at once */
	id = (uint16_t)(id + 1 + 20000);
	assert_int_equal(judge(&s, id, 0, 19000 * MSECOND), WEFT_ROCE_ICRC_WRONG);
	assert_int_equal(judge(&s, id, 0, 22000 * MSECOND), WEFT_ROCE_ICRC_RIGHT);
	assert_int_equal(judge(&s, id - 100, 0, 90000 * MSECOND), WEFT_ROCE_ICRC_RIGHT);
	/* a source that no longer follows its counter is judged on 16 bits after a while, not refused for ever */
	for (unsigned int i = 0; i < 20; i++)
		judge(&s, (uint16_t)(i * 9973), 0, 90000 * MSECOND);
	assert_int_equal(judge(&s, 33333, 0, 90000 * MSECOND), WEFT_ROCE_ICRC_WEAK);
}

/* ---- A million corrupted packets ---- */

struct game {
	struct weft_roce_source source;
	struct weft_roce_route route;
	uint64_t now_ns;
	uint16_t id;
	bool random, zero; /* identifications; of neither kind: a counter's */
};

/* As Linux counts for rxe: one more, up to one for each jiffy since, and some for packets to others. */
static uint16_t next_id(struct game *g)
{
	uint64_t passed =
		splitmix64(&seed) % 100 ? splitmix64(&seed) % 20000 : splitmix64(&seed) % 50;

	g->now_ns += passed * (passed < 50 ? MSECOND : 1);
	g->id += (uint16_t)(1 + splitmix64(&seed) % 3);
	if (passed < 50)
		g->id += (uint16_t)(splitmix64(&seed) % (passed + 1));
	return g->random ? (uint16_t)splitmix64(&seed) : g->zero ? 0 : g->id;
}

/* One to eight bytes differ, in a burst or anywhere. */
static void corrupt(uint8_t *at, size_t bytes)
{
	uint64_t r = splitmix64(&seed), n = 1 + (r >> 8) % 8;
	size_t from = (size_t)(splitmix64(&seed) % bytes);

	for (uint64_t i = 0; i < n; i++) {
		size_t to = r & 1 ? (from + i) % bytes : (size_t)(splitmix64(&seed) % bytes);

		at[to] ^= (uint8_t)(1 + splitmix64(&seed) % 255);
	}
}

static unsigned int taken_of_a_million(struct game *g)
{
	unsigned int taken = 0;
	uint8_t good[1064] = {0}, bad[1064];
	uint16_t id;

	for (unsigned int i = 0; i < 1000000; i++) {
		size_t bytes = 16 + 4 * (size_t)(splitmix64(&seed) % 262);

		memcpy(good, (uint64_t[]){splitmix64(&seed), splitmix64(&seed)}, 16);
		put_icrc(&g->route, next_id(g), good, bytes);
		assert_int_not_equal(weft_roce_icrc_check(&icrc, &g->source, &g->route, good, bytes,
							  0, g->now_ns, g->now_ns, &id),
				     WEFT_ROCE_ICRC_WRONG);
		memcpy(bad, good, bytes);
		corrupt(bad, bytes);
		good[4] = bad[4] = 0; /* is not covered */
		if (memcmp(good, bad, bytes))
			taken += !!weft_roce_icrc_check(&icrc, &g->source, &g->route, bad, bytes, 0,
							g->now_ns, g->now_ns, &id);
	}
	return taken;
}

static void a_million_corrupted(void **state)
{
	struct game counts = {
		.route = ipv4(0xc0000201, 0xc0000202, 0xd000), .now_ns = 1, .id = 65000};
	struct game random = {.route = counts.route, .now_ns = 1, .random = true};
	struct game zero = {.route = counts.route, .now_ns = 1, .zero = true};
	struct game six = {.route = ipv6(), .now_ns = 1};
	unsigned int of_counter, of_random, of_zero, of_six;

	seed = 13;
	of_counter = taken_of_a_million(&counts);
	of_random = taken_of_a_million(&random);
	of_zero = taken_of_a_million(&zero);
	of_six = taken_of_a_million(&six);
	printf("# taken of a million corrupted packets: %u of a counter, %u of random IDs, %u of "
	       "zeros, %u of IPv6\n",
	       of_counter, of_random, of_zero, of_six);
	assert_true(of_counter <= 1);
	assert_true(of_random <= 40);
	assert_int_equal(of_zero, 0);
	assert_int_equal(of_six, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured),
		cmocka_unit_test(solved_at_each_length),
		cmocka_unit_test(every_bit),
		cmocka_unit_test(single_bytes),
		cmocka_unit_test(sources),
		cmocka_unit_test(late_looks),
		cmocka_unit_test(a_million_corrupted),
	};

	weft_roce_icrc_init(&icrc, &plain_math);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
