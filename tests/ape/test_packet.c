/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Headers, footers and credits to the bit, against vectors that vectors.py has made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"
#include "crc.h"
#include "wire/ape/credit.h"
#include "wire/ape/packet.h"
#include "wire/ape/secded.h"

#define VALUES 16

/* Calls check for each line of vectors.tsv of a kind: after the kind it has numbers, then the word in hexadecimal. Returns how
 * many there were. */
static unsigned int each(const char *kind,
			 void (*check)(const uint64_t *value, struct weft_ape_word word))
{
	FILE *file = fopen(VECTORS, "r");
	char line[512];
	unsigned int count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		uint64_t value[VALUES] = {0};
		char *rest, *word = strtok_r(line, " \n", &rest);
		unsigned int n = 0;
		char half[17] = "";

		if (!word || strcmp(word, kind))
			continue;
		while ((word = strtok_r(NULL, " \n", &rest)) && strlen(word) < 32)
			value[n++] = strtoull(word, NULL, 10);
		if (!word)
			break; /* one too few, then */
		memcpy(half, word, 16);
		check(value, (struct weft_ape_word){strtoull(word + 16, NULL, 16),
						    strtoull(half, NULL, 16)});
		count++;
	}
	fclose(file);
	return count;
}

static void check_header(const uint64_t *v, struct weft_ape_word expected)
{
	struct weft_ape_header h = {
		.vc = v[0],
		.last = v[1],
		.channel = v[2],
		.to = {{v[3], v[4], v[5]}},
		.port = v[6],
		.out_of_lattice = v[7],
		.type = v[8],
		.bytes = v[9],
		.addr = v[10],
		.hops = v[11],
	};
	struct weft_ape_header back;
	struct weft_ape_word w;

	assert_true(weft_ape_header_build(&h, &w));
	assert_int_equal(w.lo, expected.lo);
	assert_int_equal(w.hi, expected.hi);
	assert_int_equal(weft_ape_secded_check(&w), WEFT_APE_INTACT);
	assert_true(weft_ape_header_parse(w, &back));
	assert_true(weft_ape_header_build(&back, &w));
	assert_true(weft_ape_word_equal(w, expected));
	assert_int_equal(back.channel, h.channel);
	assert_int_equal(back.addr, h.addr);
	assert_int_equal(back.hops, h.hops);
	assert_int_equal(back.to.at[2], h.to.at[2]);
}

static void check_footer(const uint64_t *v, struct weft_ape_word expected)
{
	struct weft_ape_footer f = {v[0], v[1], v[2], {{v[3], v[4], v[5]}}, v[6], v[7]};
	struct weft_ape_footer back;
	struct weft_ape_word w = weft_ape_footer_build(&f);

	assert_int_equal(w.lo, expected.lo);
	assert_int_equal(w.hi, expected.hi);
	assert_true(weft_ape_footer_parse(w, &back));
	assert_int_equal(back.crc, f.crc);
	assert_int_equal(back.ack, f.ack);
	assert_true(weft_ape_word_equal(weft_ape_footer_build(&back), w));
}

static void check_credit(const uint64_t *v, struct weft_ape_word expected)
{
	struct weft_ape_credit c = {
		.used = {{v[0], v[1]}, {v[4], v[5]}},
		.taken = {{v[2], v[3]}, {v[6], v[7]}},
		.mark = v[8],
		.seen = v[9],
		.deaf = v[10],
		.between = v[11],
		.wants = v[12],
	};
	struct weft_ape_credit back;
	struct weft_ape_word w = weft_ape_credit_build(&c);

	assert_int_equal(w.lo, expected.lo);
	assert_int_equal(w.hi, expected.hi);
	assert_true(weft_ape_credit_parse(w, 0, &back));
	assert_int_equal(back.used[1].headers, c.used[1].headers);
	assert_int_equal(back.taken[0].data, c.taken[0].data);
	assert_true(weft_ape_word_equal(weft_ape_credit_build(&back), w));
}

static void test_vectors(void **state)
{
	assert_int_equal(each("header", check_header), 200);
	assert_int_equal(each("footer", check_footer), 100);
	assert_int_equal(each("credit", check_credit), 100);
}

/* One field after the other is one more than its bound. */
static void test_bounds(void **state)
{
	static const struct weft_ape_header bad[] = {
		{.vc = 2},
		{.port = 16},
		{.type = 32},
		{.to = {{64, 0, 0}}},
		{.to = {{0, 32, 0}}},
		{.to = {{0, 0, 32}}},
		{.hops = 1024},
		{.addr = 1ull << 48},
		{.bytes = 4097},
		{.type = WEFT_APE_HEADER_ONLY, .bytes = 1},
	};
	struct weft_ape_header h = {.bytes = 4096, .addr = (1ull << 48) - 1, .to = {{63, 31, 31}}};
	struct weft_ape_word w;

	assert_true(weft_ape_header_build(&h, &w));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(weft_ape_header_build(&bad[i], &w));
	/* What a word can say but no struct: a third channel, the reserved bit, too many bytes. */
	assert_false(weft_ape_header_parse((struct weft_ape_word){2, 0}, &h));
	assert_false(weft_ape_header_parse((struct weft_ape_word){1ull << 41, 0}, &h));
	assert_false(weft_ape_header_parse((struct weft_ape_word){4097ull << 48, 0}, &h));
	assert_false(weft_ape_header_parse((struct weft_ape_word){1ull << 47 | 1ull << 48, 0}, &h));
	assert_true(weft_ape_header_parse((struct weft_ape_word){4096ull << 48, 0}, &h));
	assert_int_equal(weft_ape_payload_words(0), 0);
	assert_int_equal(weft_ape_payload_words(1), 1);
	assert_int_equal(weft_ape_payload_words(4096), 256);
}

/* The CRC covers each bit that no router changes, and none that routers change. */
static void test_crc_covers(void **state)
{
	uint8_t payload[32] = {1, 2, 3};
	struct weft_ape_word header = {0x1234567890abcdefull, 0xfedcba0987654321ull};
	struct weft_ape_word footer = {0x1111111122222222ull, 0x3333333344444444ull};
	uint32_t crc = weft_ape_packet_crc(crc32c, header, payload, 2, footer);

	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
	for (unsigned int bit = 0; bit < 128; bit++) {
		struct weft_ape_word h = header, f = footer;
		bool routers = bit < 5 || bit >= 110;

		weft_ape_flip_bit(&h, bit);
		weft_ape_flip_bit(&f, bit);
		assert_int_equal(weft_ape_packet_crc(crc32c, h, payload, 2, footer) == crc,
				 routers);
		assert_int_equal(weft_ape_packet_crc(crc32c, header, payload, 2, f) == crc,
				 bit < 32);
	}
	payload[31] ^= 0x80;
	assert_int_not_equal(weft_ape_packet_crc(crc32c, header, payload, 2, footer), crc);
	assert_false(weft_ape_footer_parse(weft_ape_footer_filler(), &(struct weft_ape_footer){0}));
}

/* MAGIC and START are no credits, nor are they with a bit flipped. */
static void test_no_credit(void **state)
{
	struct weft_ape_credit c;

	for (int bit = -1; bit < 128; bit++) {
		struct weft_ape_word words[] = {{WEFT_APE_MAGIC, WEFT_APE_MAGIC},
						{WEFT_APE_START, WEFT_APE_START},
						{0, 0},
						{~0ull, ~0ull}};

		for (unsigned int i = 0; i < 4; i++) {
			if (bit >= 0)
				weft_ape_flip_bit(&words[i], bit);
			weft_ape_secded_check(&words[i]);
			assert_false(weft_ape_credit_parse(words[i], 0, &c));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_crc_covers),
		cmocka_unit_test(test_no_credit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
