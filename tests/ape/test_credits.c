/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Credits: no FIFO overflows, whatever the cable's delay; lost and damaged credits cost
 * no packet; and the window gives the throughput. */
#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"
#include "ends.h"

static struct pair pair;
static uint64_t meddle_seed;

static struct weft_ape_link_config usual(void)
{
	struct weft_ape_link_config config;

	weft_ape_link_defaults(&config);
	config.refresh_ns = 0;
	return config;
}

/* As deep as credits can tell in units of 1 << shift words. */
static struct weft_ape_link_config deep(uint8_t shift)
{
	struct weft_ape_link_config config = usual();

	config.shift = shift;
	config.threshold.data = WEFT_APE_DEPTH_TOLD << shift;
	config.threshold.headers = WEFT_APE_HEADER_DEPTH + config.margin;
	return config;
}

static void assert_depths(void)
{
	const struct weft_ape_counts *most = &pair.config.threshold;

	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(pair.end[i].rx.no_room, 0);
		for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
			const struct weft_ape_queue *q = &pair.end[i].queue[vc];

			/* Thresholds leave the margin free in the FIFO of headers, too. */
			assert_in_range(q->data.deepest, 0, most->data - 64);
			assert_in_range(q->headers.deepest, 0, most->headers - 64);
		}
	}
}

/* The number of packets that were taken in so many word times by a receiver that takes `rate` words a time. */
static unsigned int flow(unsigned int times, unsigned int words, unsigned int rate, uint64_t *seed)
{
	unsigned int packets = 0;

	for (unsigned int t = 0; t < times; t++) {
		if (pair_may_give(&pair, 0)) {
			struct packet packet;

			packet_make(&packet, splitmix64(seed) & 1, words, seed);
			pair_give(&pair, 0, &packet);
		}
		pair_feed(&pair, 0, 4);
		pair_step(&pair);
		packets += pair_take(&pair, 1, rate);
	}
	return packets;
}

/* The part of the cable that packets have which are given on one channel alone, so that its window is what limits. */
static double stream(unsigned int times, unsigned int words, uint64_t *seed)
{
	unsigned int packets = 0;

	for (unsigned int t = 0; t < times; t++) {
		if (pair_may_give(&pair, 0)) {
			struct packet packet;

			packet_make(&packet, 0, words, seed);
			pair_give(&pair, 0, &packet);
		}
		pair_feed(&pair, 0, 4);
		pair_step(&pair);
		packets += pair_take(&pair, 1, 2);
	}
	return packets * (words + 4.0) / times;
}

/* Windows of both channels: 16 packets of 16 words each by headers, 20 by data. A packet is 20
 * words of the cable; the round trip is both delays, and the packet that is waited for. */
static void test_window(void **state)
{
	static const unsigned int delays[] = {0, 10, 50, 100, 200, 300, 400, 1000, 3000, 10000};

	for (unsigned int i = 0; i < sizeof(delays) / sizeof(*delays); i++) {
		struct weft_ape_link_config config = usual();
		unsigned int round_trip = 2 * delays[i] + 20, times = 20000 + 40 * delays[i];
		double window = 16 * 20, expected, found;
		uint64_t seed = i;

		pair_begin(&pair, &config, delays[i]);
		flow(2 * round_trip + 100, 16, 2, &seed);
		found = stream(times, 16, &seed);
		expected = window / round_trip < 1 ? window / round_trip : 1;
		printf("# delay %5u: %.3f of the cable, window / round trip %.3f\n", delays[i],
		       found, expected);
		assert_true(found > 0.9 * expected && found < 1.1 * expected);
		assert_depths();
	}
}

/* Deep FIFOs have their window, too, although their credits tell only whole units: 59 packets of 256 words by data. */
static void test_deep_window(void **state)
{
	static const unsigned int delays[] = {100, 7000, 10000};

	for (unsigned int i = 0; i < sizeof(delays) / sizeof(*delays); i++) {
		struct weft_ape_link_config config = deep(2);
		unsigned int round_trip = 2 * delays[i] + 260, times = 20 * round_trip + 50000;
		double window = 59.0 * 260, expected, found;
		uint64_t seed = i;

		pair_begin(&pair, &config, delays[i]);
		stream(2 * round_trip + 100, 256, &seed);
		found = stream(times, 256, &seed);
		expected = window / round_trip < 1 ? window / round_trip : 1;
		printf("# delay %5u, deep: %.3f of the cable, window / round trip %.3f\n",
		       delays[i], found, expected);
		assert_true(found > 0.9 * expected && found < 1.1 * expected);
		assert_depths();
		/* and a receiver that stops is never sent more than it offered */
		flow(2 * round_trip + 40000, 256, 0, &seed);
		assert_true(pair.end[1].queue[0].data.count > config.threshold.data - 64 - 512 ||
			    pair.end[1].queue[1].data.count > config.threshold.data - 64 - 512);
		flow(2 * round_trip + 40000, 256, 1, &seed);
		assert_depths();
	}
}

/* Receivers that stop, and take slowly: FIFOs fill to what was granted and no further. */
static void test_depths(void **state)
{
	static const unsigned int delays[] = {0, 1, 7, 63, 500, 10000};
	uint64_t seed = 5;

	for (unsigned int i = 0; i < 6; i++) {
		for (unsigned int words = 1; words <= 256; words *= 4) {
			struct weft_ape_link_config config = usual();

			pair_begin(&pair, &config, delays[i]);
			flow(2 * delays[i] + 3000, words, 2, &seed);
			flow(2 * delays[i] + 3000, words, 0, &seed);
			/* A stopped receiver: the window is full, up to what a packet wants. */
			if (delays[i] < 10000 && words <= 4)
				assert_true(pair.end[1].queue[0].headers.count >= 30 ||
					    pair.end[1].queue[1].headers.count >= 30);
			flow(2 * delays[i] + 3000, words, splitmix64(&seed) % 2, &seed);
			assert_depths();
		}
	}
}

/* One credit in eight is lost, one is damaged, so that SECDED corrects it or drops it. */
static bool spoil_credits(struct pair *p, unsigned int i, struct weft_ape_beat *beat)
{
	struct weft_ape_word w = {beat->quad[0], beat->quad[1]};
	struct weft_ape_credit credit;
	uint64_t dice = splitmix64(&meddle_seed);

	if (i == 0 || !weft_ape_credit_parse(w, p->config.shift, &credit))
		return true;
	if (dice % 8 == 0)
		return false;
	for (unsigned int n = 0; n < (dice >> 3) % 3; n++)
		beat->quad[dice >> (8 + n) & 1] ^= 1ull << (dice >> (20 + 8 * n) & 63);
	return true;
}

static void test_lost_credits(void **state)
{
	static const unsigned int delays[] = {0, 40, 400};

	for (unsigned int i = 0; i < 3; i++) {
		struct weft_ape_link_config config = usual();
		uint64_t seed = 6;
		unsigned int packets;

		config.refresh_ns = 2000;
		meddle_seed = i;
		pair_begin(&pair, &config, delays[i]);
		pair.meddle = spoil_credits;
		packets = flow(100000, 16, 1, &seed);
		/* All that was sent arrives, and nearly as fast as ever. */
		for (unsigned int t = 0; t < 30000; t++) {
			pair_feed(&pair, 0, 4);
			pair_step(&pair);
			packets += pair_take(&pair, 1, 2);
		}
		assert_int_equal(packets, pair.end[0].tx.packets);
		assert_in_range(packets, delays[i] == 400 ? 2500 : 4000, 5100);
		assert_true(pair.end[0].rx.credits_corrected > 100);
		assert_true(pair.end[0].rx.credits_dropped > 100);
		assert_depths();
	}
}

/* Without marks, data that is lost would count as under way for ever. */
static bool lose_data(struct pair *p, unsigned int i, struct weft_ape_beat *beat)
{
	return i || splitmix64(&meddle_seed) % 200;
}

static void lose_words(struct weft_ape_link_config config)
{
	uint32_t rest = (1u << config.shift) - 1; /* of a unit */
	uint64_t seed = 7;
	unsigned int packets, early;

	config.refresh_ns = 2000;
	meddle_seed = 1;
	pair_begin(&pair, &config, 20);
	pair.meddle = lose_data;
	early = flow(50000, 16, 2, &seed);
	flow(400000, 16, 2, &seed);
	packets = flow(50000, 16, 2, &seed);
	printf("# one word in 200 lost: %u packets at first, %u at last; %ju cut, %ju without "
	       "room\n",
	       early, packets, (uintmax_t)pair.end[1].rx.cut, (uintmax_t)pair.end[1].rx.no_room);
	assert_true(packets * 10 > early * 9);
	for (unsigned int t = 0; t < 5000; t++) {
		pair_step(&pair);
		pair_take(&pair, 1, 2);
	}
	/* What stays is at most a packet that was cut last. */
	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
		const struct weft_ape_ledger *l = &pair.end[0].tx.ledger;

		assert_in_range(l->sent[vc].data - l->arrived[vc].data, 0, rest);
		assert_int_equal(l->sent[vc].headers, l->arrived[vc].headers);
	}
}

static void test_lost_words(void **state)
{
	lose_words(usual());
	lose_words(deep(2));
	lose_words(deep(WEFT_APE_SHIFT_MAX));
	assert_depths();
}

/* The other end begins anew, its counts at 0; the sender follows it. */
static void test_new_receiver(void **state)
{
	struct weft_ape_link_config config = usual();
	uint64_t seed = 8;

	config.refresh_ns = 500;
	pair_begin(&pair, &config, 5);
	flow(10000, 16, 2, &seed);
	for (unsigned int n = 0; n < 40; n++) {
		struct end *e = &pair.end[1];

		e->busy_taking = false;
		for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
			e->queue[vc].headers.count = e->queue[vc].data.count = 0;
		end_begin(&pair, e);
		weft_ape_tx_reset(&e->tx);
		assert_true(flow(5000 + n, 16, 2, &seed) > 150);
	}
}

/* Half of all random words pass SECDED; none is taken for a credit. */
static void test_random_words_are_no_credits(void **state)
{
	struct weft_ape_link_config config = usual();
	struct weft_ape_beat beat = {{0}};
	uint64_t seed = 9;

	pair_begin(&pair, &config, 1);
	for (unsigned int n = 0; n < 1000000; n++) {
		beat.quad[0] = splitmix64(&seed);
		beat.quad[1] = splitmix64(&seed);
		weft_ape_rx_beat(&pair.end[0].rx, &beat);
	}
	assert_false(pair.end[0].tx.ledger.known);
	assert_int_equal(pair.end[0].rx.skipped, 1000000);
	assert_in_range(pair.end[0].rx.credits_dropped, 480000, 520000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_deep_window),
		cmocka_unit_test(test_depths),
		cmocka_unit_test(test_lost_credits),
		cmocka_unit_test(test_lost_words),
		cmocka_unit_test(test_new_receiver),
		cmocka_unit_test(test_random_words_are_no_credits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
