/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Datagrams of connection management: each field is encoded at its place in the specification's tables, and
 * decoded from there. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cm/mad.h"

#define HEADER 24

static const struct weft_mad full_req = {
	.kind = WEFT_MAD_REQ,
	.tid = 0x0102030405060708,
	.attr_mod = 0x11223344,
	.local_id = 0xa1b2c3d4,
	.req = {.service_id = 0x0000000001061c06,
		.ca_guid = 0x1122334455667788,
		.vendor_id = 0xabcdef,
		.qkey = 0x80010000,
		.qpn = 0x123456,
		.psn = 0xfedcba,
		.responder_resources = 3,
		.initiator_depth = 5,
		.service = WEFT_SERVICE_UC,
		.ext = 1,
		.remote_timeout = 20,
		.local_timeout = 19,
		.flow_control = 1,
		.srq = 1,
		.retries = 6,
		.rnr_retries = 7,
		.cm_retries = 15,
		.pkey = 0xffff,
		.mtu = 5,
		.path = {.local_lid = 0xffff,
			 .remote_lid = 0xfffe,
			 .local_gid = {1, 2, 3, [15] = 4},
			 .remote_gid = {5, 6, 7, [15] = 8},
			 .flow_label = 0xabcde,
			 .rate = 0x2a,
			 .traffic_class = 0x60,
			 .hop_limit = 64,
			 .sl = 3,
			 .subnet_local = 1,
			 .ack_timeout = 17}},
	.private_data = {0xaa, [91] = 0xbb},
};

struct place {
	unsigned int byte, value;
};

static void expect(const uint8_t *wire, const struct place *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (wire[p[i].byte] != p[i].value)
			fail_msg("byte %u: 0x%02x, not 0x%02x", p[i].byte, wire[p[i].byte],
				 p[i].value);
}

#define EXPECT(wire, ...)                                                                          \
	do {                                                                                       \
		static const struct place places[] = {__VA_ARGS__};                                \
		expect(wire, places, sizeof(places) / sizeof(*places));                            \
	} while (0)

static void header(void **state)
{
	uint8_t wire[WEFT_MAD_BYTES];

	weft_mad_encode(&full_req, wire);
	EXPECT(wire, {0, 1}, {1, 7}, {2, 2}, {3, 3}, {4, 0}, {5, 0}, {8, 1}, {15, 8}, {16, 0},
	       {17, 0x10}, {20, 0x11}, {23, 0x44});
}

/* Table 106 */
static void req_places(void **state)
{
	uint8_t wire[WEFT_MAD_BYTES];

	weft_mad_encode(&full_req, wire);
	EXPECT(wire + HEADER, {0, 0xa1}, {3, 0xd4}, {4, 0}, {5, 0xab}, {7, 0xef}, {13, 0x06},
	       {14, 0x1c}, {15, 0x06}, {16, 0x11}, {23, 0x88}, {28, 0x80}, {32, 0x12}, {34, 0x56},
	       {35, 3}, {39, 5}, {43, 20 << 3 | 1 << 1 | 1}, {44, 0xfe}, {46, 0xba},
	       {47, 19 << 3 | 6}, {48, 0xff}, {50, 5 << 4 | 7}, {51, 15 << 4 | 1 << 3 | 1},
	       {53, 0xff}, {55, 0xfe}, {56, 1}, {71, 4}, {72, 5}, {87, 8}, {88, 0xab}, {89, 0xcd},
	       {90, 0xe0}, {91, 0x2a}, {92, 0x60}, {93, 64}, {94, 3 << 4 | 1 << 3}, {95, 17 << 3},
	       {96, 0}, {140, 0xaa}, {231, 0xbb});
}

static void rep_places(void **state)
{
	struct weft_mad mad = {.kind = WEFT_MAD_REP,
			       .local_id = 1,
			       .remote_id = 2,
			       .rep = {.ca_guid = 0x1122334455667788,
				       .vendor_id = 0xabcdef,
				       .qkey = 7,
				       .qpn = 0x123456,
				       .psn = 0xfedcba,
				       .responder_resources = 3,
				       .initiator_depth = 5,
				       .ack_delay = 15,
				       .failover = 2,
				       .flow_control = 1,
				       .rnr_retries = 6,
				       .srq = 1},
			       .private_data = {0xaa, [195] = 0xbb}};
	uint8_t wire[WEFT_MAD_BYTES];

	weft_mad_encode(&mad, wire);
	EXPECT(wire + HEADER, {3, 1}, {7, 2}, {11, 7}, {12, 0x12}, {14, 0x56}, {15, 0xef},
	       {19, 0xcd}, {20, 0xfe}, {22, 0xba}, {23, 0xab}, {24, 3}, {25, 5},
	       {26, 15 << 3 | 2 << 1 | 1}, {27, 6 << 5 | 1 << 4}, {28, 0x11}, {35, 0x88},
	       {36, 0xaa}, {231, 0xbb});
}

static void small_places(void **state)
{
	struct weft_mad mad = {.kind = WEFT_MAD_MRA, .remote_id = 2, .mra = {1, 24}};
	uint8_t wire[WEFT_MAD_BYTES];

	mad.private_data[0] = 0xaa;
	weft_mad_encode(&mad, wire);
	EXPECT(wire + HEADER, {7, 2}, {8, 1 << 6}, {9, 24 << 3}, {10, 0xaa});
	mad.kind = WEFT_MAD_REJ;
	mad.rej = (struct weft_mad_rej){2, 28, 72, {0xcc, [71] = 0xdd}};
	weft_mad_encode(&mad, wire);
	EXPECT(wire + HEADER, {8, 2 << 6}, {9, 72 << 1}, {10, 0}, {11, 28}, {12, 0xcc}, {83, 0xdd},
	       {84, 0xaa});
	mad.kind = WEFT_MAD_DREQ;
	mad.dreq_qpn = 0x123456;
	weft_mad_encode(&mad, wire);
	EXPECT(wire + HEADER, {8, 0x12}, {10, 0x56}, {11, 0}, {12, 0xaa});
	mad.kind = WEFT_MAD_DREP;
	weft_mad_encode(&mad, wire);
	EXPECT(wire + HEADER, {7, 2}, {8, 0xaa});
}

static void sidr_places(void **state)
{
	struct weft_mad mad = {.kind = WEFT_MAD_SIDR_REQ,
			       .local_id = 9,
			       .sidr_req = {.service_id = 0x0000000001111c06, .pkey = 0xffff},
			       .private_data = {0xaa}};
	uint8_t wire[WEFT_MAD_BYTES];

	weft_mad_encode(&mad, wire);
	EXPECT(wire + HEADER, {3, 9}, {4, 0xff}, {5, 0xff}, {13, 0x11}, {15, 0x06}, {16, 0xaa});
	mad.kind = WEFT_MAD_SIDR_REP;
	mad.sidr_rep = (struct weft_mad_sidr_rep){0x0000000001111c06, 2, 0x123456, 0x01234567};
	weft_mad_encode(&mad, wire);
	EXPECT(wire + HEADER, {3, 9}, {4, 2}, {8, 0x12}, {10, 0x56}, {17, 0x11}, {19, 0x06},
	       {20, 0x01}, {23, 0x67}, {96, 0xaa});
}

/* Whatever bytes a datagram has: decoded and encoded again, they say the same. */
static void there_and_back(void **state)
{
	uint8_t wire[WEFT_MAD_BYTES], again[WEFT_MAD_BYTES];
	struct weft_mad mad, second;

	srand(1);
	for (int round = 0; round < 20000; round++) {
		for (size_t i = 0; i < sizeof(wire); i++)
			wire[i] = (uint8_t)rand();
		memcpy(wire, (uint8_t[]){1, 7, 2, 3}, 4);
		wire[16] = 0;
		wire[17] = (uint8_t)(WEFT_MAD_REQ + round % 11);
		if (weft_mad_decode(wire, sizeof(wire), &mad)) {
			assert_int_equal(wire[17], WEFT_MAD_REJ);
			assert_true(wire[HEADER + 9] >> 1 > WEFT_MAD_INFO_MAX);
			continue;
		}
		weft_mad_encode(&mad, again);
		assert_int_equal(weft_mad_decode(again, sizeof(again), &second), 0);
		assert_memory_equal(&mad, &second, sizeof(mad));
	}
}

static void refused(void **state)
{
	static const struct place changes[] = {{0, 2},	{1, 4},	   {2, 1},    {3, 1},
					       {16, 1}, {17, 0xf}, {17, 0x1b}};
	uint8_t wire[WEFT_MAD_BYTES];
	struct weft_mad mad;

	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		weft_mad_encode(&full_req, wire);
		wire[changes[i].byte] = (uint8_t)changes[i].value;
		assert_int_equal(weft_mad_decode(wire, sizeof(wire), &mad), -EPROTO);
	}
	weft_mad_encode(&full_req, wire);
	assert_int_equal(weft_mad_decode(wire, sizeof(wire) - 1, &mad), -EPROTO);
	assert_int_equal(weft_mad_decode(wire, 0, &mad), -EPROTO);
	assert_int_equal(weft_mad_decode(wire, sizeof(wire), &mad), 0);
}

/* The private data as Linux's rdma_cm lays them out: version 0, the IP version in the high nibble, an IPv4
 * address in the last bytes. */
static void ip_header(void **state)
{
	struct weft_mad_ip v4 = {
		0x1c06, {[10] = 0xff, 0xff, 192, 0, 2, 1}, {[10] = 0xff, 0xff, 192, 0, 2, 2}};
	struct weft_mad_ip v6 = {7174, {0xfd, [15] = 1}, {0xfd, [15] = 2}}, back;
	uint8_t wire[WEFT_MAD_IP_BYTES];

	weft_mad_put_ip(wire, &v4);
	EXPECT(wire, {0, 0}, {1, 0x40}, {2, 0x1c}, {3, 0x06}, {4, 0}, {14, 0}, {15, 0}, {16, 192},
	       {19, 1}, {20, 0}, {32, 192}, {35, 2});
	assert_int_equal(weft_mad_get_ip(wire, &back), 0);
	assert_memory_equal(&v4, &back, sizeof(v4));
	weft_mad_put_ip(wire, &v6);
	EXPECT(wire, {1, 0x60}, {4, 0xfd}, {19, 1}, {20, 0xfd}, {35, 2});
	assert_int_equal(weft_mad_get_ip(wire, &back), 0);
	assert_memory_equal(&v6, &back, sizeof(v6));
	wire[1] = 0x50;
	assert_int_equal(weft_mad_get_ip(wire, &back), -EPROTO);
	wire[1] = 0x60;
	wire[0] = 1;
	assert_int_equal(weft_mad_get_ip(wire, &back), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header),      cmocka_unit_test(req_places),
		cmocka_unit_test(rep_places),  cmocka_unit_test(small_places),
		cmocka_unit_test(sidr_places), cmocka_unit_test(there_and_back),
		cmocka_unit_test(refused),     cmocka_unit_test(ip_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
