/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The formats of events and primitives, by bytes that were written down from their description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/nanet/mgp.h"
#include "wire/nanet/mtp.h"

/* Two events, of nine hits and of none, in a datagram with its time. */
static const uint8_t datagram[] = {
	0x78,
	0x56,
	0x34,
	0x12,
	3,
	1,
	88,
	0,
	0x04,
	0x03,
	0x02,
	0x01,
	2,
	3,
	0,
	0,
	8,
	7,
	6,
	5,
	4,
	3,
	2,
	1,
	/* an event */
	0x80,
	0x04,
	0x03,
	0x02,
	0x01,
	9,
	0xff,
	0xff,
	4,
	3,
	2,
	0,
	0,
	0,
	1,
	2,
	1,
	0,
	0xa0,
	7,
	3,
	0,
	4,
	0,
	5,
	0,
	6,
	0,
	7,
	0,
	8,
	0,
	9,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	/* an empty one */
	0,
	0x05,
	0x03,
	0x02,
	0x01,
	0,
	0xff,
	0xff,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
};

static void datagrams_are_read(void **state)
{
	struct weft_m2egp event;
	struct weft_mgp mgp;

	assert_int_equal(weft_mgp_parse(datagram, sizeof(datagram), &mgp), 24);
	assert_int_equal(mgp.sequence, 0x12345678);
	assert_int_equal(mgp.source, 3);
	assert_int_equal(mgp.sub_source, 1);
	assert_int_equal(mgp.timestamp, 0x01020304);
	assert_int_equal(mgp.events, 2);
	assert_int_equal(mgp.flags, WEFT_MGP_LAST | WEFT_MGP_SENT);
	assert_int_equal(mgp.sent_ns, 0x0102030405060708);
	assert_int_equal(weft_m2egp_parse(datagram + 24, 64, &event), 48);
	assert_int_equal(event.timestamp, 0x01020304);
	assert_int_equal(event.fine, 0x80);
	assert_int_equal(event.hits, 9);
	assert_memory_equal(event.board, "\4\3\2\0", 4);
	assert_int_equal(event.rings, 1);
	assert_int_equal(event.label, 2);
	assert_int_equal(weft_m2egp_pmt(&event, 1), 1952);
	assert_int_equal(weft_m2egp_pmt(&event, 8), 9);
	assert_int_equal(weft_m2egp_parse(datagram + 72, 16, &event), 16);
	assert_int_equal(event.hits, 0);
}

static void datagrams_are_written(void **state)
{
	uint8_t made[sizeof(datagram)];
	struct weft_m2egp event;
	struct weft_mgp mgp;
	uint16_t pmt[9];

	memset(made, 0x55, sizeof(made));
	weft_mgp_parse(datagram, sizeof(datagram), &mgp);
	assert_int_equal(weft_mgp_write(&mgp, made), 24);
	weft_m2egp_parse(datagram + 24, 64, &event);
	for (uint32_t i = 0; i < 9; i++)
		pmt[i] = weft_m2egp_pmt(&event, i);
	assert_int_equal(weft_m2egp_write(&event, pmt, made + 24), 48);
	weft_m2egp_parse(datagram + 72, 16, &event);
	assert_int_equal(weft_m2egp_write(&event, NULL, made + 72), 16);
	assert_memory_equal(made, datagram, sizeof(datagram));
}

/* Whether the datagram is still one with that byte changed, or with another length. */
static bool holds(size_t at, uint8_t value, size_t bytes)
{
	uint8_t *changed = malloc(bytes ? bytes : 1); /* so that sanitizers see its end */
	struct weft_mgp mgp;

	assert_non_null(changed);
	memcpy(changed, datagram, bytes < sizeof(datagram) ? bytes : sizeof(datagram));
	if (at < bytes)
		changed[at] = value;
	bool ok = weft_mgp_parse(changed, bytes, &mgp) != 0;

	free(changed);
	return ok;
}

static void what_is_wrong_is_refused(void **state)
{
	static const struct {
		uint8_t at, value;
	} wrong[] = {
		{6, 87}, {6, 89}, {7, 1},   {12, 1}, {12, 3},  {12, 0}, {13, 1}, {13, 7},   {14, 1},
		{15, 1}, {29, 8}, {29, 10}, {29, 0}, {29, 17}, {30, 1}, {31, 0}, {36, 1},   {37, 1},
		{39, 4}, {40, 0}, {58, 1},  {71, 1}, {77, 1},  {78, 0}, {84, 1}, {87, 255},
	};
	/* places whose bytes may have any value */
	static const uint8_t free_to_change[] = {0,  3,	 4,  5,	 8,  11, 16, 23,
						 24, 25, 28, 32, 35, 38, 41, 42};

	assert_true(holds(0, datagram[0], sizeof(datagram)));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(holds(wrong[i].at, wrong[i].value, sizeof(datagram)));
	for (size_t i = 0; i < sizeof(free_to_change); i++)
		assert_true(holds(free_to_change[i], 0xaa, sizeof(datagram)));
	for (size_t bytes = 0; bytes < sizeof(datagram); bytes++) {
		assert_false(holds(bytes, 0, bytes));
		assert_false(
			holds(6, (uint8_t)bytes, bytes)); /* nor if the header says that length */
	}
}

static const uint8_t primitives[] = {
	0x1c, 0x01, 0x02, 0x03, 2,    2,    0, 20, 0x01, 0x02,
	0x03, 0x10, 0xab, 0xcd, 0x10, 0x80, 0, 1,  0xff, 0,
};

static void primitives_are_read_and_written(void **state)
{
	uint8_t made[WEFT_MTP_MAX_BYTES];
	struct weft_mtp mtp;

	assert_true(weft_mtp_parse(primitives, sizeof(primitives), &mtp));
	assert_int_equal(mtp.source, 0x1c);
	assert_int_equal(mtp.sub_source, 2);
	assert_int_equal(mtp.count, 2);
	assert_int_equal(mtp.timestamp, 0x01020310);
	assert_int_equal(mtp.primitive[0].id, 0xabcd);
	assert_int_equal(mtp.primitive[0].timestamp, 0x01020310);
	assert_int_equal(mtp.primitive[0].fine, 0x80);
	assert_int_equal(mtp.primitive[1].timestamp, 0x010203ff);
	assert_int_equal(weft_mtp_write(&mtp, made), sizeof(primitives));
	assert_memory_equal(made, primitives, sizeof(primitives));
	for (size_t bytes = 0; bytes < sizeof(primitives); bytes++)
		assert_false(weft_mtp_parse(primitives, bytes, &mtp));
	for (size_t at = 1; at < 11; at++) {
		if (at == 4)
			continue; /* the sub-source may be any */
		memcpy(made, primitives, sizeof(primitives));
		made[at] ^= 1;
		assert_false(weft_mtp_parse(made, sizeof(primitives), &mtp));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_are_read),
		cmocka_unit_test(datagrams_are_written),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(primitives_are_read_and_written),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
