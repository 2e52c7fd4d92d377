/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/frames.h"

#define IDLE_MAGIC 16u

void weft_ape_tx_init(struct weft_ape_tx *tx, const struct weft_ape_link_config *config,
		      const struct weft_ape_rx *rx)
{
	*tx = (struct weft_ape_tx){.config = config, .rx = rx};
}

void weft_ape_tx_reset(struct weft_ape_tx *tx)
{
	tx->first = tx->count = 0;
	tx->rest = NULL;
	tx->giving = tx->begun = tx->within = false;
	tx->beat_count = 0;
	tx->said_any = false;
	tx->since = 0;
	weft_ape_ledger_reset(&tx->ledger);
}

/* ---- What the router gives ---- */

bool weft_ape_tx_grants(struct weft_ape_tx *tx, unsigned int vc, unsigned int words)
{
	if (tx->giving || tx->begun || tx->count)
		return false;
	tx->wants = !weft_ape_ledger_grants(&tx->ledger, vc, words, tx->config->threshold);
	tx->wants_told &= tx->wants;
	return !tx->wants;
}

/* ---- Beats ---- */

/* A beat more, whose quads are to be filled: as many as the cable has. The others stay 0. */
static uint64_t *new_beat(struct weft_ape_tx *tx, enum weft_ape_kind kind)
{
	unsigned int place = (tx->beat_first + tx->beat_count++) % WEFT_APE_TX_BEATS;

	tx->beat_kind[place] = kind;
	return tx->beat[place].quad;
}

static void put_pattern(struct weft_ape_tx *tx, uint64_t pattern, enum weft_ape_kind kind)
{
	uint64_t *quad = new_beat(tx, kind);

	for (unsigned int i = 0; i < tx->config->quads; i++)
		quad[i] = pattern;
}

/* One word; of a cable of 256 bits two; of 64 bits in two beats. */
static void put_two_words(struct weft_ape_tx *tx, struct weft_ape_word w,
			  struct weft_ape_word second, enum weft_ape_kind kind)
{
	uint64_t *quad = new_beat(tx, kind);

	quad[0] = w.lo;
	if (tx->config->quads == 1) {
		*new_beat(tx, kind) = w.hi;
		return;
	}
	quad[1] = w.hi;
	if (tx->config->quads == 4) {
		quad[2] = second.lo;
		quad[3] = second.hi;
	}
}

static void put_quad(struct weft_ape_tx *tx, uint64_t quad, enum weft_ape_kind kind)
{
	if (quad == WEFT_APE_MAGIC)
		put_pattern(tx, WEFT_APE_MAGIC, WEFT_APE_K_ESCAPE);
	*new_beat(tx, kind) = quad;
}

static void put_content(struct weft_ape_tx *tx, struct weft_ape_word w, struct weft_ape_word second,
			enum weft_ape_kind kind)
{
	if (tx->config->quads == 1) {
		put_quad(tx, w.lo, kind);
		put_quad(tx, w.hi, kind);
		return;
	}
	if (weft_ape_is_magic(w) && (tx->config->quads == 2 || weft_ape_is_magic(second)))
		put_pattern(tx, WEFT_APE_MAGIC, WEFT_APE_K_ESCAPE);
	put_two_words(tx, w, second, kind);
}

/* Flips bits of the word, if register 71 asks for that. */
static struct weft_ape_word spoil(struct weft_ape_error_generator *errors, bool wanted,
				  struct weft_ape_word word)
{
	if (!wanted || !errors->flips || ++errors->count < errors->every)
		return word;
	errors->count = 0;
	for (unsigned int i = 0; i < errors->flips && i < 3; i++)
		weft_ape_flip_bit(&word, errors->bit[i] % 128);
	return word;
}

/* Whether no word waits in this end's FIFOs, as the credit says that is made. */
static bool says_empty(const struct weft_ape_tx *tx)
{
	uint32_t waiting = 0;

	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
		waiting += tx->rx->queue[vc]->data.count + tx->rx->queue[vc]->headers.count;
	return !waiting;
}

static void put_credit(struct weft_ape_tx *tx, uint64_t now_ns)
{
	struct weft_ape_word w;

	weft_ape_rx_report(tx->rx, &tx->said);
	tx->said.mark = weft_ape_ledger_mark(&tx->ledger);
	tx->said.between = !tx->begun;
	tx->said.wants = tx->wants_told = tx->wants && tx->config->thrifty;
	if (says_empty(tx))
		tx->asks_told = tx->rx->asks;
	tx->said_any = true;
	tx->said_ns = now_ns;
	tx->since = 0;
	w = spoil(&tx->errors, tx->errors.credits, weft_ape_credit_build(&tx->said));
	put_two_words(tx, w, w, WEFT_APE_K_CREDIT);
}

/* What of a threshold a packet of any length leaves: as much may have gone out of the FIFO untold. */
static uint32_t half_spare(uint32_t threshold, uint32_t margin, uint32_t packet)
{
	return threshold > margin + packet ? (threshold - margin - packet) / 2 : 0;
}

/* Whether so many words have left the FIFOs since a credit said so that a packet may lack room at the other end. */
static bool lacks_news(const struct weft_ape_tx *tx, const struct weft_ape_credit *now)
{
	const struct weft_ape_link_config *c = tx->config;
	uint32_t data = half_spare(c->threshold.data, c->margin, WEFT_APE_PAYLOAD_WORDS);
	uint32_t headers = half_spare(c->threshold.headers, c->margin, WEFT_APE_HEADER_ROOM);

	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
		const struct weft_ape_counts *used = &now->used[vc], *said = &tx->said.used[vc];
		const struct weft_ape_counts *taken = &now->taken[vc], *told = &tx->said.taken[vc];

		if (taken->data - used->data - (told->data - said->data) > data ||
		    taken->headers - used->headers - (told->headers - said->headers) > headers)
			return true;
	}
	return now->deaf != tx->said.deaf || (tx->wants && !tx->wants_told) ||
	       (tx->rx->asks != tx->asks_told && says_empty(tx));
}

/* Whether a credit would tell the other end something new. */
static bool has_news(const struct weft_ape_tx *tx)
{
	struct weft_ape_credit now;

	if (!tx->said_any || (!tx->config->thrifty && weft_ape_ledger_unmarked(&tx->ledger)))
		return true;
	weft_ape_rx_report(tx->rx, &now);
	if (tx->config->thrifty)
		return lacks_news(tx, &now);
	for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
		if (now.used[vc].data != tx->said.used[vc].data ||
		    now.used[vc].headers != tx->said.used[vc].headers ||
		    now.taken[vc].data != tx->said.taken[vc].data ||
		    now.taken[vc].headers != tx->said.taken[vc].headers)
			return true;
	return now.seen != tx->said.seen || now.deaf != tx->said.deaf;
}

static bool refresh_due(const struct weft_ape_tx *tx, uint64_t now_ns)
{
	return tx->config->refresh_ns && now_ns - tx->said_ns >= tx->config->refresh_ns;
}

static bool credit_due(const struct weft_ape_tx *tx, uint64_t now_ns, bool nothing_else)
{
	if (tx->since >= tx->config->cycle || refresh_due(tx, now_ns))
		return true;
	return nothing_else && (tx->config->fill || has_news(tx));
}

/* ---- Content ---- */

/* The words that are here: given, or where the rest of the packet waits. */
static unsigned int words_here(const struct weft_ape_tx *tx)
{
	const struct weft_ape_queue *rest = tx->rest;

	if (!rest)
		return tx->count;
	if (rest->data.count < tx->rest_words)
		return tx->count + rest->data.count;
	return tx->count + tx->rest_words + (rest->headers.count != 0);
}

/* Whether the oldest of them is its packet's last. */
static bool is_at_end(const struct weft_ape_tx *tx)
{
	return tx->count ? tx->count == 1 && !tx->giving : tx->rest && !tx->rest_words;
}

static struct weft_ape_word next_word(struct weft_ape_tx *tx)
{
	struct weft_ape_queue *rest = tx->rest;
	struct weft_ape_word w;

	if (tx->count) {
		w = tx->word[tx->first];
		tx->first = (tx->first + 1) % WEFT_APE_TX_ROOM;
		tx->count--;
		return w;
	}
	if (tx->rest_words) {
		tx->rest_words--;
		return weft_ape_fifo_pop(&rest->data);
	}
	tx->rest = NULL;
	tx->giving = false;
	return weft_ape_fifo_pop(&rest->headers);
}

/* Takes the next word of those given: counts it, and returns its kind. */
static enum weft_ape_kind count_word(struct weft_ape_tx *tx, struct weft_ape_word *w, bool *end)
{
	struct weft_ape_counts *sent;
	enum weft_ape_kind kind = WEFT_APE_K_FOOTER;
	bool is_header = !tx->within;

	*end = is_at_end(tx);
	*w = next_word(tx);
	if (is_header) {
		kind = WEFT_APE_K_HEADER;
		tx->vc = weft_ape_bits(*w, 3, 0) % WEFT_APE_CHANNELS;
		tx->within = true;
	} else if (!*end) {
		kind = WEFT_APE_K_DATA;
	}
	sent = &tx->ledger.sent[tx->vc];
	if (kind == WEFT_APE_K_DATA)
		sent->data++;
	else
		sent->headers++;
	if (*end)
		tx->within = false;
	return kind;
}

/* The words of the next beat are there: as many as it has, or the packet's last. */
static bool has_beat(const struct weft_ape_tx *tx)
{
	unsigned int here = words_here(tx);

	return here >= 2 || (here && (tx->config->quads < 4 || is_at_end(tx)));
}

static void put_next_content(struct weft_ape_tx *tx)
{
	struct weft_ape_word w, second = {0};
	bool is_header = !tx->within;
	bool end;
	enum weft_ape_kind kind = count_word(tx, &w, &end);

	if (is_header)
		w = spoil(&tx->errors, tx->errors.headers, w);
	if (tx->config->quads == 4 && !end)
		count_word(tx, &second, &end);
	put_content(tx, w, second, kind);
}

/* ---- Word times ---- */

static void decide(struct weft_ape_tx *tx, uint64_t now_ns)
{
	bool ready = has_beat(tx);

	if (tx->begun) {
		if (credit_due(tx, now_ns, !ready)) {
			put_pattern(tx, WEFT_APE_MAGIC, WEFT_APE_K_MAGIC);
			put_credit(tx, now_ns);
		} else if (ready) {
			put_next_content(tx);
			tx->begun = tx->within;
		}
		return;
	}
	if (credit_due(tx, now_ns, !ready)) {
		if (!ready && (!tx->config->fill || tx->idle++ % IDLE_MAGIC == 0))
			put_pattern(tx, WEFT_APE_MAGIC, WEFT_APE_K_MAGIC);
		put_credit(tx, now_ns);
	} else if (ready) {
		if (!tx->config->no_lead)
			put_pattern(tx, WEFT_APE_MAGIC, WEFT_APE_K_MAGIC);
		put_pattern(tx, WEFT_APE_START, WEFT_APE_K_START);
		tx->begun = true;
	}
}

const struct weft_ape_beat *weft_ape_tx_step(struct weft_ape_tx *tx, uint64_t now_ns)
{
	unsigned int place;

	if (!tx->beat_count)
		decide(tx, now_ns);
	if (!tx->beat_count)
		return NULL;
	place = tx->beat_first;
	tx->beats[tx->beat_kind[place]]++;
	tx->beat_first = (place + 1) % WEFT_APE_TX_BEATS;
	tx->beat_count--;
	tx->since++;
	return &tx->beat[place];
}

unsigned int weft_ape_tx_run(struct weft_ape_tx *tx, uint64_t now_ns, unsigned int most,
			     const struct weft_ape_word **run)
{
	unsigned int words = tx->config->quads / 2, n, limit;
	struct weft_ape_fifo *f;

	if (!words || !tx->rest || tx->count || tx->beat_count || tx->since >= tx->config->cycle ||
	    refresh_due(tx, now_ns))
		return 0;
	f = &tx->rest->data;
	limit = weft_ape_least(most, tx->config->cycle - tx->since) * words;
	limit = weft_ape_least(limit, weft_ape_least(tx->rest_words, weft_ape_fifo_run(f)));
	*run = f->word + f->first;
	n = weft_ape_before_magic(*run, limit);
	n -= n % words;
	tx->ledger.sent[tx->vc].data += n;
	tx->beats[WEFT_APE_K_DATA] += n / words;
	tx->since += n / words;
	tx->rest_words -= n;
	weft_ape_fifo_drop(f, n);
	return n;
}

uint64_t weft_ape_tx_deadline(const struct weft_ape_tx *tx)
{
	return tx->config->refresh_ns ? tx->said_ns + tx->config->refresh_ns : 0;
}
