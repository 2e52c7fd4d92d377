/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Frames: any content of a packet arrives as it was, whatever the frames insert, and a packet takes as many words of
 * the cable as the formula says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"
#include "ends.h"

static struct pair pair;

static void assert_same(const struct packet *a, const struct packet *b)
{
	assert_int_equal(a->words, b->words);
	assert_memory_equal(a->word, b->word, a->words * sizeof(a->word[0]));
}

static struct weft_ape_link_config config_of(unsigned int quads, bool no_lead)
{
	struct weft_ape_link_config config;

	weft_ape_link_defaults(&config);
	config.quads = quads;
	config.no_lead = no_lead;
	config.check_headers = false; /* a header of MAGIC must pass */
	return config;
}

/* Sends one packet in bursts, with silence between them, until it is there. */
static void pass(const struct packet *packet, uint64_t *seed, unsigned int starve)
{
	unsigned int waited = 0;

	pair_give(&pair, 0, packet);
	while (!pair_take(&pair, 1, 4)) {
		if (splitmix64(seed) % 8 >= starve)
			pair_feed(&pair, 0, 1 + splitmix64(seed) % 4);
		pair_step(&pair);
		assert_in_range(++waited, 1, 20000);
	}
	assert_same(&pair.end[1].taking, packet);
}

/* The words of the cable itself, as content. (No header is MAGIC: it would name a third channel.) */
static struct weft_ape_word trap(unsigned int which)
{
	struct weft_ape_credit credit = {.used = {{64, 64}, {64, 64}}, .mark = 77};
	struct weft_ape_word words[] = {
		{WEFT_APE_MAGIC, WEFT_APE_MAGIC},
		{WEFT_APE_START, WEFT_APE_START},
		weft_ape_credit_build(&credit),
		{WEFT_APE_MAGIC, 1},
		{1, WEFT_APE_MAGIC},
		{WEFT_APE_START, WEFT_APE_MAGIC},
		{WEFT_APE_MAGIC, WEFT_APE_START},
		{0, 0},
	};

	return words[which % (sizeof(words) / sizeof(*words))];
}

/* At each position but the header's, each trap, and each two behind each other, at each width. */
static void test_traps_everywhere(void **state)
{
	static const unsigned int quads[] = {1, 2, 4};
	uint64_t seed = 1;

	for (unsigned int w = 0; w < 6; w++) {
		struct weft_ape_link_config config = config_of(quads[w % 3], w >= 3);

		pair_begin(&pair, &config, 3);
		for (unsigned int words = 0; words < 7; words++)
			for (unsigned int at = 1; at < words + 2; at++)
				for (unsigned int a = 0; a < 64; a++) {
					struct packet packet;

					packet_make(&packet, a & 1, words, &seed);
					packet.word[at] = trap(a);
					if (at + 1 < packet.words)
						packet.word[at + 1] = trap(a / 8);
					pass(&packet, &seed, a % 3);
				}
		assert_int_equal(pair.end[1].rx.skipped, 0);
		assert_int_equal(pair.end[1].rx.cut, 0);
	}
}

/* A packet that is all traps, its header as far as the fields allow: only half of MAGIC fits, which is a whole beat on a cable of
 * 64 bits. */
static void test_headers_of_magic(void **state)
{
	static const unsigned int quads[] = {1, 2, 4};
	uint64_t seed = 2;

	for (unsigned int w = 0; w < 3; w++) {
		struct weft_ape_link_config config = config_of(quads[w], false);

		pair_begin(&pair, &config, 1);
		for (unsigned int a = 0; a < 8; a++) {
			struct packet packet;

			packet_make(&packet, 0, 256, &seed);
			packet.word[0].hi = trap(a).hi;
			for (unsigned int i = 1; i < packet.words; i++)
				packet.word[i] = trap(a);
			pass(&packet, &seed, 1);
			for (unsigned int i = 1; i < packet.words; i++)
				packet.word[i] = trap(splitmix64(&seed));
			pass(&packet, &seed, 3);
		}
	}
}

static void test_header_only(void **state)
{
	static const unsigned int quads[] = {1, 2, 4};
	uint64_t seed = 3;

	for (unsigned int w = 0; w < 3; w++) {
		struct weft_ape_link_config config = config_of(quads[w], false);
		struct weft_ape_header h = {.type = WEFT_APE_HEADER_ONLY, .channel = 7};
		struct packet packet = {.words = 1}, other;

		pair_begin(&pair, &config, 2);
		assert_true(weft_ape_header_build(&h, &packet.word[0]));
		for (unsigned int i = 0; i < 50; i++) {
			pass(&packet, &seed, 0);
			packet_make(&other, 1, i % 5, &seed);
			pass(&other, &seed, 0);
		}
	}
}

/* Schedules of starving sources, due credits and contents, both directions at once. */
static void test_schedules(void **state)
{
	const char *wanted = getenv("SCHEDULES");
	unsigned long rounds = wanted ? strtoul(wanted, NULL, 10) : 1000000;
	uint64_t seed = 4;
	unsigned long done = 0;

	while (done < rounds) {
		struct weft_ape_link_config config =
			config_of(1u << splitmix64(&seed) % 3, splitmix64(&seed) % 2);

		config.cycle = WEFT_APE_CYCLE_MIN + splitmix64(&seed) % 40;
		config.fill = splitmix64(&seed) % 2;
		pair_begin(&pair, &config, splitmix64(&seed) % 30);
		for (unsigned int i = 0; i < 2000; i++) {
			struct packet packet;
			uint64_t dice = splitmix64(&seed);
			unsigned int words = dice % 5;

			packet_make(&packet, dice >> 8 & 1, words, &seed);
			for (unsigned int at = 1; at < packet.words; at++)
				if (splitmix64(&seed) % 2)
					packet.word[at] = trap(splitmix64(&seed));
			pass(&packet, &seed, dice >> 16 & 7 ? dice >> 20 & 3 : 6);
			done++;
		}
		assert_int_equal(pair.end[1].rx.skipped, 0);
		assert_int_equal(pair.end[1].rx.no_room, 0);
	}
}

/* A sender that never starves: counts all words at the other end, and compares them with the formula. */
static void measure(unsigned int quads, unsigned int words)
{
	struct weft_ape_link_config config = config_of(quads, false);
	unsigned int packets = 0, wanted = 4000 / (words + 4) + 20;
	const uint64_t *beats = pair.end[1].rx.beats;
	uint64_t seed = words, credit_beats, all, content;
	struct packet packet;

	pair_begin(&pair, &config, 2);
	while (packets < wanted) {
		if (pair_may_give(&pair, 0)) {
			packet_make(&packet, 0, words, &seed);
			pair_give(&pair, 0, &packet);
		}
		pair_feed(&pair, 0, 4);
		pair_step(&pair);
		packets += pair_take(&pair, 1, 2);
	}
	while (pair.end[0].busy_giving || pair.end[0].tx.begun) {
		pair_feed(&pair, 0, 4);
		pair_step(&pair);
	}
	for (unsigned int i = 0; i < 4; i++)
		pair_step(&pair);
	packets = pair.end[1].rx.packets;
	all = sum_of(beats);
	credit_beats = beats[WEFT_APE_K_CREDIT] + beats[WEFT_APE_K_MAGIC] - packets;
	content = (uint64_t)packets * (words + 2) * 2 / quads;
	assert_int_equal(pair.end[1].rx.skipped, 0);
	assert_int_equal(beats[WEFT_APE_K_START], packets);
	assert_int_equal(beats[WEFT_APE_K_ESCAPE], 0);
	/* Bits: 128 (N + 2) + 2 W + c W for each packet. */
	assert_int_equal(all, content + 2 * packets + credit_beats);
	assert_int_equal(beats[WEFT_APE_K_HEADER] + beats[WEFT_APE_K_DATA] +
				 beats[WEFT_APE_K_FOOTER],
			 content);
	if (quads == 2)
		assert_int_equal(beats[WEFT_APE_K_DATA], (uint64_t)packets * words);
	for (unsigned int k = 0; k < WEFT_APE_KINDS; k++)
		assert_int_equal(beats[k], pair.end[0].tx.beats[k]);
	/* At the beginning and the end the sender starves. */
	assert_in_range(credit_beats, all / 255, 2 * all / 255 + 6);
	printf("# W %3u N %3u: %5u packets, %6ju beats, %3ju for credits, eta %.4f, without "
	       "credits %.4f\n",
	       64 * quads, words, packets, (uintmax_t)all, (uintmax_t)credit_beats,
	       2.0 * packets * words / (double)(all * quads),
	       2.0 * packets * words / (double)((all - credit_beats) * quads));
}

static void test_efficiency(void **state)
{
	static const unsigned int words[] = {1, 4, 16, 64, 256};

	for (unsigned int i = 0; i < 5; i++)
		measure(2, words[i]);
	for (unsigned int i = 1; i < 5; i++)
		measure(4, words[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_traps_everywhere), cmocka_unit_test(test_headers_of_magic),
		cmocka_unit_test(test_header_only),	 cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_efficiency),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
