/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/credit.h"

/* With this constant one random word of 2^22 passes for a credit, and neither MAGIC nor START does with a bit flipped.
 * The zeros at its end are reserved for the health of a node. */
#define CONSTANT     (0xa9e700u >> 3)
#define DEAF_BIT     96u
#define BETWEEN_BIT  97u
#define WANTS_BIT    98u
#define CONSTANT_BIT 99u
#define DATA_BITS    12u
#define HEADER_BITS  8u
#define COUNTS_BITS  (DATA_BITS + HEADER_BITS)
#define CHANNEL_BITS (2 * COUNTS_BITS)
#define MARK_BIT     80u
#define SEEN_BIT     88u
#define MARKS_ON_WAY 200u /* so that a number that is seen means one mark */

static void put_counts(struct weft_ape_word *w, unsigned int low, uint32_t units, uint32_t headers)
{
	weft_ape_put_bits(w, low, units & ((1u << DATA_BITS) - 1));
	weft_ape_put_bits(w, low + DATA_BITS, headers & ((1u << HEADER_BITS) - 1));
}

static struct weft_ape_counts get_counts(struct weft_ape_word w, unsigned int low, uint8_t shift)
{
	return (struct weft_ape_counts){
		.data = (uint32_t)weft_ape_bits(w, low + DATA_BITS - 1, low) << shift,
		.headers = weft_ape_bits(w, low + COUNTS_BITS - 1, low + DATA_BITS),
	};
}

/* Nothing is promised of a unit that is used in part, and none counts as taken in that is not whole. */
static void put_channel(struct weft_ape_word *w, unsigned int low, struct weft_ape_counts used,
			struct weft_ape_counts taken, uint8_t shift)
{
	uint32_t rest = (1u << shift) - 1;

	put_counts(w, low, (used.data + rest) >> shift, used.headers);
	put_counts(w, low + COUNTS_BITS, taken.data >> shift, taken.headers);
}

struct weft_ape_word weft_ape_credit_build(const struct weft_ape_credit *c)
{
	struct weft_ape_word w = {0};

	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
		put_channel(&w, vc * CHANNEL_BITS, c->used[vc], c->taken[vc], c->shift);
	weft_ape_put_bits(&w, MARK_BIT, c->mark);
	weft_ape_put_bits(&w, SEEN_BIT, c->seen);
	weft_ape_put_bits(&w, DEAF_BIT, c->deaf);
	weft_ape_put_bits(&w, BETWEEN_BIT, c->between);
	weft_ape_put_bits(&w, WANTS_BIT, c->wants);
	weft_ape_put_bits(&w, CONSTANT_BIT, CONSTANT);
	return weft_ape_secded_encode(w);
}

bool weft_ape_credit_parse(struct weft_ape_word word, uint8_t shift, struct weft_ape_credit *c)
{
	c->shift = shift;
	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
		c->used[vc] = get_counts(word, vc * CHANNEL_BITS, shift);
		c->taken[vc] = get_counts(word, vc * CHANNEL_BITS + COUNTS_BITS, shift);
	}
	c->mark = weft_ape_bits(word, MARK_BIT + 7, MARK_BIT);
	c->seen = weft_ape_bits(word, SEEN_BIT + 7, SEEN_BIT);
	c->deaf = weft_ape_bits(word, DEAF_BIT, DEAF_BIT);
	c->between = weft_ape_bits(word, BETWEEN_BIT, BETWEEN_BIT);
	c->wants = weft_ape_bits(word, WANTS_BIT, WANTS_BIT);
	return weft_ape_bits(word, WEFT_APE_DATA_BITS - 1, CONSTANT_BIT) == CONSTANT;
}

void weft_ape_ledger_reset(struct weft_ape_ledger *l)
{
	*l = (struct weft_ape_ledger){0};
}

bool weft_ape_ledger_unmarked(const struct weft_ape_ledger *l)
{
	const struct weft_ape_counts *at = l->at_mark[l->mark];

	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
		if (l->sent[vc].data != at[vc].data || l->sent[vc].headers != at[vc].headers)
			return true;
	return false;
}

uint8_t weft_ape_ledger_mark(struct weft_ape_ledger *l)
{
	if (weft_ape_ledger_unmarked(l) && (uint8_t)(l->mark - l->seen) < MARKS_ON_WAY) {
		l->mark++;
		for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
			l->at_mark[l->mark][vc] = l->sent[vc];
	}
	return l->mark;
}

/*
 * taken is modulo 1 << bits, and lacks up to `rest` words. What was sent before the mark is no longer under way: what of it the
 * count lacks, beyond those words, was lost, or, as the count is modulo, words came that were never sent.
 */
static void count_lost(uint32_t sent, uint32_t at_mark, uint32_t taken, unsigned int bits,
		       uint32_t rest, uint32_t *arrived, uint32_t *lost)
{
	uint32_t on_way = (sent - *lost - taken) & ((1u << bits) - 1);
	uint32_t at_most = sent - at_mark;

	if (on_way > at_most + rest)
		*lost += on_way - at_most - rest;
	*arrived = sent - weft_ape_least(on_way, at_most);
}

void weft_ape_ledger_credit(struct weft_ape_ledger *l, const struct weft_ape_credit *c)
{
	/* A mark that was never set, or long ago, is of a life before: it says nothing. */
	if ((uint8_t)(l->mark - c->seen) <= (uint8_t)(l->mark - l->seen))
		l->seen = c->seen;
	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
		const struct weft_ape_counts *at = &l->at_mark[l->seen][vc];

		count_lost(l->sent[vc].data, at->data, c->taken[vc].data, DATA_BITS + c->shift,
			   (1u << c->shift) - 1, &l->arrived[vc].data, &l->lost[vc].data);
		count_lost(l->sent[vc].headers, at->headers, c->taken[vc].headers, HEADER_BITS, 0,
			   &l->arrived[vc].headers, &l->lost[vc].headers);
		l->used[vc] = c->used[vc];
	}
	l->known = true;
}

static bool stays_below(uint32_t wanted, uint32_t threshold, uint32_t used, uint32_t on_way)
{
	return used + on_way + wanted <= threshold;
}

bool weft_ape_ledger_grants(const struct weft_ape_ledger *l, unsigned int vc, unsigned int words,
			    struct weft_ape_counts threshold)
{
	const struct weft_ape_counts *sent = &l->sent[vc], *arrived = &l->arrived[vc];

	return l->known &&
	       stays_below(words, threshold.data, l->used[vc].data, sent->data - arrived->data) &&
	       stays_below(WEFT_APE_HEADER_ROOM, threshold.headers, l->used[vc].headers,
			   sent->headers - arrived->headers);
}
