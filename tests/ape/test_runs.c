/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Words of payload that go and come many at a time do what they do one by one: two cables with the same packets, the same
 * damage and the same credits, one beat by beat, the other in runs, carry the same beats, and have the same states, counts
 * and words at their ends, after each of many random steps.
 */
#include <string.h>

#include "cmocka_all.h"
#include "ends.h"

#define STEPS  40000u
#define BEATS  64u
#define DAMAGE 300u /* of so many beats one */

/* Where a packet waits for its sender, with less room than it may have words: they often lie at both ends. */
#define WAITING 100u

struct waiting {
	struct weft_ape_queue queue;
	struct weft_ape_word header[4], data[WAITING];
};

static struct pair by_beat, by_run;
static struct waiting for_beat, for_run;
static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	return splitmix64(&seed) % below;
}

/* Payload is MAGIC and START now and then, and much of it. */
static void make_packet(struct packet *packet)
{
	static const uint64_t quads[] = {WEFT_APE_MAGIC, WEFT_APE_START, 0};
	unsigned int words = draw(3) ? draw(WEFT_APE_PAYLOAD_WORDS + 1) : draw(4);

	packet_make(packet, draw(WEFT_APE_CHANNELS), words, &seed);
	for (unsigned int i = 1; i <= words && draw(2); i += 1 + draw(8)) {
		uint64_t q = quads[draw(3)];

		packet->word[i] = (struct weft_ape_word){q, draw(4) ? q : 1};
	}
}

/* Up to so many further words of the packet come to where its sender takes them: the header first, if there is room at the other end. */
static void feed(struct pair *p, struct waiting *w, unsigned int words)
{
	struct end *e = &p->end[0];
	unsigned int payload = e->giving.words - 2;

	if (!e->busy_giving)
		return;
	if (!e->given) {
		if (!weft_ape_tx_grants(&e->tx, weft_ape_bits(e->giving.word[0], 3, 0), payload))
			return;
		weft_ape_tx_give(&e->tx, e->giving.word[0], false);
		weft_ape_tx_lend(&e->tx, &w->queue, payload);
		e->given = 1;
	}
	for (; words-- && e->given < e->giving.words && w->queue.data.count < WAITING; e->given++)
		weft_ape_fifo_push(e->given <= payload ? &w->queue.data : &w->queue.headers,
				   e->giving.word[e->given]);
	e->busy_giving = e->given < e->giving.words;
}

static unsigned int send_by_beat(struct weft_ape_tx *tx, uint64_t now_ns, unsigned int most,
				 struct weft_ape_beat *beats)
{
	unsigned int n = 0;

	while (n < most && end_send(tx, now_ns, &beats[n]))
		n++;
	return n;
}

static unsigned int send_by_run(struct weft_ape_tx *tx, uint64_t now_ns, unsigned int most,
				struct weft_ape_beat *beats)
{
	unsigned int n = 0, words = tx->config->quads / 2, run;
	const struct weft_ape_word *from;

	while (n < most) {
		run = weft_ape_tx_run(tx, now_ns, most - n, &from);
		for (unsigned int i = 0; i < run; i += words, n++)
			beats[n] = (struct weft_ape_beat){{from[i].lo, from[i].hi,
							   words > 1 ? from[i + 1].lo : 0,
							   words > 1 ? from[i + 1].hi : 0}};
		if (!run && !end_send(tx, now_ns, &beats[n++]))
			return n - 1;
	}
	return n;
}

static unsigned int receive_by_run(struct weft_ape_rx *rx, const struct weft_ape_beat *beats,
				   unsigned int count)
{
	unsigned int quads = rx->config->quads, most = 0, run;
	uint64_t quad[BEATS * WEFT_APE_QUADS];

	for (unsigned int i = 0; i < count; i++)
		memcpy(quad + (size_t)i * quads, beats[i].quad, quads * sizeof(*quad));
	for (unsigned int i = 0; i < count; i += run) {
		run = weft_ape_rx_run(rx, quad + (size_t)i * quads, count - i);
		most = run > most ? run : most;
		if (!run) {
			weft_ape_rx_beat(rx, &beats[i]);
			run = 1;
		}
	}
	return most;
}

/* The same to both: flips of a bit, and beats that are lost. */
static unsigned int damage(struct weft_ape_beat *beats, unsigned int count, unsigned int quads)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < count; i++) {
		uint64_t what = draw(DAMAGE);

		if (what == 1)
			beats[i].quad[draw(quads)] ^= 1ull << draw(64);
		if (what)
			beats[left++] = beats[i];
	}
	return left;
}

static void expect_same_end(const struct end *a, const struct end *b)
{
	assert_int_equal(a->rx.state, b->rx.state);
	assert_int_equal(a->rx.words_left, b->rx.words_left);
	assert_memory_equal(a->rx.beats, b->rx.beats, sizeof(a->rx.beats));
	assert_memory_equal(a->rx.taken, b->rx.taken, sizeof(a->rx.taken));
	assert_memory_equal(a->tx.beats, b->tx.beats, sizeof(a->tx.beats));
	assert_memory_equal(&a->tx.ledger.sent, &b->tx.ledger.sent, sizeof(a->tx.ledger.sent));
	assert_int_equal(a->tx.since, b->tx.since);
	assert_int_equal(a->rx.no_room, b->rx.no_room);
	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
		assert_int_equal(a->queue[vc].data.count, b->queue[vc].data.count);
		assert_int_equal(a->queue[vc].data.deepest, b->queue[vc].data.deepest);
		assert_true(a->queue[vc].data.deepest <= a->queue[vc].data.depth);
	}
}

/* Credits come back, beat by beat on both. */
static void give_credits(struct pair *p)
{
	struct weft_ape_beat beat;

	for (unsigned int i = 0; i < 4; i++)
		if (end_send(&p->end[1].tx, p->now_ns, &beat))
			weft_ape_rx_beat(&p->end[0].rx, &beat);
}

static unsigned int step(unsigned int quads)
{
	struct weft_ape_beat beats[BEATS], others[BEATS];
	unsigned int words = draw(80), most = draw(BEATS + 1), count, taken = draw(300), run;
	struct packet packet;
	bool whole;

	if (pair_may_give(&by_beat, 0)) {
		make_packet(&packet);
		pair_give(&by_beat, 0, &packet);
		pair_give(&by_run, 0, &packet);
	}
	feed(&by_beat, &for_beat, words);
	feed(&by_run, &for_run, words);
	assert_int_equal(by_beat.end[0].given, by_run.end[0].given);
	count = send_by_beat(&by_beat.end[0].tx, by_beat.now_ns, most, beats);
	assert_int_equal(send_by_run(&by_run.end[0].tx, by_run.now_ns, most, others), count);
	for (unsigned int i = 0; i < count; i++)
		assert_memory_equal(beats[i].quad, others[i].quad, quads * sizeof(*beats[i].quad));
	count = damage(beats, count, quads);
	for (unsigned int i = 0; i < count; i++)
		weft_ape_rx_beat(&by_beat.end[1].rx, &beats[i]);
	run = receive_by_run(&by_run.end[1].rx, beats, count);
	expect_same_end(&by_beat.end[0], &by_run.end[0]);
	expect_same_end(&by_beat.end[1], &by_run.end[1]);
	give_credits(&by_beat);
	give_credits(&by_run);
	whole = pair_take(&by_beat, 1, taken);
	assert_int_equal(pair_take(&by_run, 1, taken), whole);
	if (whole)
		assert_memory_equal(by_beat.end[1].taking.word, by_run.end[1].taking.word,
				    by_beat.end[1].taking.words * sizeof(struct weft_ape_word));
	by_beat.now_ns++;
	by_run.now_ns++;
	return run;
}

static void waiting_begin(struct waiting *w)
{
	w->queue = (struct weft_ape_queue){
		.headers = {.word = w->header, .depth = 4},
		.data = {.word = w->data, .depth = WAITING},
	};
}

static void test_runs(void **state)
{
	struct weft_ape_link_config config;
	unsigned int longest;

	weft_ape_link_defaults(&config);
	config.burst = BEATS;
	for (config.quads = 1; config.quads <= 4; config.quads *= 2)
		for (unsigned int thrifty = 0; thrifty < 2; thrifty++) {
			config.thrifty = thrifty;
			config.refresh_ns = 1000;
			seed = config.quads + 8 * thrifty;
			pair_begin(&by_beat, &config, 0);
			pair_begin(&by_run, &config, 0);
			waiting_begin(&for_beat);
			waiting_begin(&for_run);
			longest = 0;
			for (unsigned int i = 0; i < STEPS; i++) {
				unsigned int run = step(config.quads);

				longest = run > longest ? run : longest;
			}
			assert_true(by_run.end[1].rx.packets > STEPS / 20);
			/* beats of 64 bits are halves of words: one by one */
			assert_int_equal(longest > 8, config.quads > 1);
		}
}

/* In each place of runs of each length, among words that have but a part of it. */
static void test_before_magic(void **state)
{
	static const struct weft_ape_word magic = {WEFT_APE_MAGIC, WEFT_APE_MAGIC};
	static const struct weft_ape_word others[] = {
		{0, 0},
		{WEFT_APE_MAGIC, 0},
		{0, WEFT_APE_MAGIC},
		{WEFT_APE_MAGIC & 0xffffffff, WEFT_APE_MAGIC},
		{WEFT_APE_START, WEFT_APE_START},
	};
	struct weft_ape_word words[41];

	for (unsigned int other = 0; other < sizeof(others) / sizeof(*others); other++)
		for (unsigned int count = 0; count <= 40; count++)
			for (unsigned int first = 0; first <= count; first++) {
				for (unsigned int i = 0; i <= count; i++)
					words[i] = i % 3 == 2 ? others[other] : others[0];
				for (unsigned int i = first; i <= count; i += 3)
					words[i] = magic;
				assert_int_equal(weft_ape_before_magic(words, count), first);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_before_magic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
