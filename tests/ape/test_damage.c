/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Damage heals: words that are cut off, lost, doubled, invented and flipped in a recorded stream of
 * a cable. Whatever arrives with a footer that holds is what was sent, and at most the packets that
 * were touched and the one behind them are lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"
#include "crc.h"
#include "ends.h"

#define PACKETS	  6u
#define BEATS_MAX 4096u

struct stream {
	struct packet packet[PACKETS];
	struct weft_ape_beat beat[BEATS_MAX];
	unsigned int of
		[BEATS_MAX]; /* of which packet a beat is, from 1; a beat between two counts for the first */
	unsigned int beats;
};

static struct pair pair;
static struct stream sent, damaged;

static bool record(struct pair *p, unsigned int i, struct weft_ape_beat *beat)
{
	unsigned int n = sent.beats, quads = p->config.quads;

	if (i)
		return true;
	sent.beat[n] = *beat;
	sent.of[n] = n ? sent.of[n - 1] : 0;
	/* Within packets START is content. */
	if (weft_ape_beat_is(beat, WEFT_APE_START, quads) && n &&
	    p->end[0].tx.beats[WEFT_APE_K_START] > sent.of[n]) {
		sent.of[n]++;
		sent.of[n - 1] = sent.of[n];
	}
	sent.beats++;
	return true;
}

static void seal(struct packet *packet)
{
	uint8_t payload[WEFT_APE_PAYLOAD_BYTES];
	struct weft_ape_word *footer = &packet->word[packet->words - 1];

	for (unsigned int i = 1; i + 1 < packet->words; i++)
		weft_ape_word_store(packet->word[i], payload + 16 * (i - 1));
	footer->lo &= ~0xffffffffull;
	footer->lo |=
		weft_ape_packet_crc(crc32c, packet->word[0], payload, packet->words - 2, *footer);
}

static bool holds(const struct packet *packet)
{
	struct packet again = *packet;
	struct weft_ape_footer f;

	seal(&again);
	return weft_ape_footer_parse(packet->word[packet->words - 1], &f) &&
	       weft_ape_word_equal(again.word[again.words - 1], packet->word[packet->words - 1]);
}

static bool same_but_for_routers(const struct packet *a, const struct packet *b)
{
	uint64_t high = (1ull << 46) - 1;

	return a->words == b->words && !((a->word[0].lo ^ b->word[0].lo) & ~0x1full) &&
	       !((a->word[0].hi ^ b->word[0].hi) & high) &&
	       !memcmp(a->word + 1, b->word + 1, (a->words - 1) * sizeof(a->word[0]));
}

static struct weft_ape_link_config make_stream(uint64_t *seed)
{
	struct weft_ape_link_config config;
	unsigned int given = 0, taken = 0;

	weft_ape_link_defaults(&config);
	config.quads = 1u << splitmix64(seed) % 3;
	config.cycle = 10 + splitmix64(seed) % 30;
	pair_begin(&pair, &config, 1);
	pair.meddle = record;
	sent.beats = 0;
	while (taken < PACKETS) {
		if (given < PACKETS && pair_may_give(&pair, 0)) {
			struct packet *packet = &sent.packet[given++];

			packet_make(packet, splitmix64(seed) & 1, splitmix64(seed) % 9, seed);
			for (unsigned int i = 1; i + 1 < packet->words; i++) {
				uint64_t dice = splitmix64(seed) % 8;
				uint64_t q = dice & 1 ? WEFT_APE_MAGIC : WEFT_APE_START;

				if (dice < 4)
					packet->word[i] = (struct weft_ape_word){q, q};
			}
			seal(packet);
			pair_give(&pair, 0, packet);
		}
		pair_feed(&pair, 0, splitmix64(seed) % 4);
		pair_step(&pair);
		taken += pair_take(&pair, 1, 4);
	}
	return config;
}

static struct weft_ape_beat beat_of(uint64_t pattern, unsigned int quads)
{
	struct weft_ape_beat beat = {{0}};

	for (unsigned int i = 0; i < quads; i++)
		beat.quad[i] = pattern;
	return beat;
}

static struct weft_ape_beat invented(uint64_t *seed, unsigned int quads)
{
	struct weft_ape_beat beat = {{0}};
	uint64_t dice = splitmix64(seed) % 4;

	if (dice == 0)
		return beat_of(WEFT_APE_MAGIC, quads);
	if (dice == 1)
		return beat_of(WEFT_APE_START, quads);
	if (dice == 2)
		return sent.beat[splitmix64(seed) % sent.beats];
	for (unsigned int i = 0; i < quads; i++)
		beat.quad[i] = splitmix64(seed);
	return beat;
}

static void keep(const struct weft_ape_beat *beat)
{
	damaged.beat[damaged.beats++] = *beat;
}

/* Damages the beats from `from` on, as many as it says, in one of these ways. */
static void damage(unsigned int way, unsigned int from, unsigned int count, unsigned int quads,
		   uint64_t *seed)
{
	damaged.beats = 0;
	for (unsigned int i = 0; i < sent.beats; i++) {
		bool hit = i >= from && i < from + count;
		struct weft_ape_beat beat = sent.beat[i];

		if (!hit) {
			keep(&beat);
		} else if (way == 1) {
			keep(&beat);
			keep(&beat);
		} else if (way == 2) {
			beat = invented(seed, quads);
			keep(&beat);
			keep(&sent.beat[i]);
		} else if (way >= 3) {
			for (unsigned int n = 0; n < way - 2; n++)
				beat.quad[splitmix64(seed) % quads] ^= 1ull
								       << splitmix64(seed) % 64;
			keep(&beat);
		}
	}
}

/* Feeds the damaged stream to a new receiver; a bit for each packet that came. */
static unsigned int receive(const struct weft_ape_link_config *config, bool cut)
{
	unsigned int came = 0;

	pair_begin(&pair, config, 1);
	for (unsigned int i = 0; i < damaged.beats; i++) {
		weft_ape_rx_beat(&pair.end[1].rx, &damaged.beat[i]);
		if (cut && i + 1 == damaged.beats)
			weft_ape_rx_down(&pair.end[1].rx);
		while (pair_take(&pair, 1, 1 + WEFT_APE_PAYLOAD_WORDS)) {
			const struct packet *taken = &pair.end[1].taking;
			unsigned int which = 0;

			if (taken->words < 2 || !holds(taken))
				continue;
			while (which < PACKETS && !same_but_for_routers(taken, &sent.packet[which]))
				which++;
			assert_int_not_equal(which, PACKETS);
			came |= 1u << which;
		}
	}
	return came;
}

static void test_heals(void **state)
{
	const char *wanted = getenv("DAMAGES");
	unsigned long rounds = wanted ? strtoul(wanted, NULL, 10) : 100000;
	unsigned long lost = 0, unharmed = 0;

	for (unsigned long round = 0; round < rounds; round++) {
		uint64_t seed = round / 10 + 1, dice = round;
		struct weft_ape_link_config config = make_stream(&seed);
		unsigned int way = splitmix64(&dice) % 6, count = 1 + splitmix64(&dice) % 3;
		unsigned int from = splitmix64(&dice) % (sent.beats - count), allowed = 0, came;

		damage(way, from, count, config.quads, &dice);
		came = receive(&config, false);
		/* The packet that was touched, and the one behind it, may be lost. */
		for (unsigned int i = from; i < from + count; i++)
			allowed |= 3u << sent.of[i] >> 1;
		allowed |= 1u << sent.of[from + count - 1];
		if ((came | allowed) % (1u << PACKETS) != (1u << PACKETS) - 1)
			fail_msg("round %lu: way %u, %u beats from %u: came %x, may be lost %x",
				 round, way, count, from, came, allowed);
		lost += PACKETS - __builtin_popcount(came);
		unharmed += came == (1u << PACKETS) - 1;
	}
	printf("# %lu damages: %lu packets lost, %lu times none\n", rounds, lost, unharmed);
	assert_true(lost > rounds / 4 && unharmed > rounds / 50);
}

/* A cable that is cut for good: each packet in the FIFOs gets an end, so that no receiver waits for one. */
static void test_cut(void **state)
{
	for (unsigned int round = 0; round < 3000; round++) {
		uint64_t seed = round / 10 + 1, dice = round;
		struct weft_ape_link_config config = make_stream(&seed);

		damaged = sent;
		damaged.beats = 1 + splitmix64(&dice) % sent.beats;
		receive(&config, true);
		assert_false(pair.end[1].busy_taking);
		for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
			assert_int_equal(pair.end[1].queue[vc].headers.count, 0);
			assert_int_equal(pair.end[1].queue[vc].data.count, 0);
		}
		assert_int_equal(pair.end[1].rx.state, WEFT_APE_RX_OFF);
		/* While the cable is off nothing is taken; when it is up again, the next packet is. */
		weft_ape_rx_beat(&pair.end[1].rx, &sent.beat[0]);
		weft_ape_rx_up(&pair.end[1].rx);
		for (unsigned int i = 0; i < sent.beats; i++)
			weft_ape_rx_beat(&pair.end[1].rx, &sent.beat[i]);
		assert_true(pair_take(&pair, 1, 1 + WEFT_APE_PAYLOAD_WORDS));
		assert_true(holds(&pair.end[1].taking));
	}
}

/* A header with one flip is corrected, with two it is dropped, with three it passes as sound: then the footer does not hold. */
static void test_flipped_headers(void **state)
{
	unsigned int count[4] = {0}, delivered[4] = {0}, routers = 0;

	for (unsigned int round = 0; round < 12000; round++) {
		uint64_t seed = 1 + round / 100, dice = round;
		struct weft_ape_link_config config = make_stream(&seed);
		unsigned int flips = 1 + round % 3, at = 0, came;
		struct weft_ape_word w;

		flips = round < 10000 ? 3 : flips;
		damaged = sent;
		while (!weft_ape_beat_is(&sent.beat[at], WEFT_APE_START, config.quads))
			at++;
		at++;
		w = sent.packet[0].word[0];
		for (unsigned int n = 0, bit[3]; n < flips; n++) {
			do
				bit[n] = splitmix64(&dice) % 128;
			while ((n > 0 && bit[n] == bit[0]) || (n > 1 && bit[n] == bit[1]));
			weft_ape_flip_bit(&w, bit[n]);
		}
		if (config.quads == 1 && (w.lo == WEFT_APE_MAGIC || w.hi == WEFT_APE_MAGIC))
			continue;
		damaged.beat[at].quad[0] = w.lo;
		damaged.beat[config.quads == 1 ? at + 1 : at].quad[config.quads == 1 ? 0 : 1] =
			w.hi;
		came = receive(&config, false);
		count[flips]++;
		delivered[flips] += came & 1;
		assert_int_equal(came | 3, (1u << PACKETS) - 1);
		if (flips == 3 && came & 1) {
			/* Then what is wrong is what routers make new at each hop, which no footer
			 * covers: the network interface looks at that. */
			enum weft_ape_checked checked = weft_ape_secded_check(&w);

			assert_int_equal(checked, WEFT_APE_CORRECTED);
			assert_int_equal((w.lo ^ sent.packet[0].word[0].lo) & ~0x1full, 0);
			routers++;
		}
	}
	printf("# delivered of headers with 1, 2, 3 flips: %u of %u, %u of %u, %u of %u\n",
	       delivered[1], count[1], delivered[2], count[2], delivered[3], count[3]);
	assert_int_equal(delivered[1], count[1]);
	assert_int_equal(delivered[2], 0);
	assert_int_equal(delivered[3], routers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heals),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_flipped_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
