/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "ends.h"

#include <assert.h>
#include <string.h>

void end_begin(struct pair *p, struct end *e)
{
	struct weft_ape_queue *const queue[WEFT_APE_CHANNELS] = {&e->queue[0], &e->queue[1]};

	weft_ape_rx_init(&e->rx, &p->config, queue, &e->tx.ledger);
	weft_ape_rx_up(&e->rx);
}

void pair_begin(struct pair *p, const struct weft_ape_link_config *config, unsigned int delay)
{
	memset(p, 0, sizeof(*p));
	p->config = *config;
	p->now_ns = 1;
	for (unsigned int i = 0; i < 2; i++) {
		struct end *e = &p->end[i];

		for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++) {
			e->queue[vc].headers.word = e->header_word[vc];
			e->queue[vc].headers.depth = WEFT_APE_HEADER_DEPTH;
			e->queue[vc].data.word = e->data_word[vc];
			e->queue[vc].data.depth = config->shift
							  ? WEFT_APE_DEPTH_TOLD << config->shift
							  : WEFT_APE_DATA_DEPTH;
		}
		weft_ape_tx_init(&e->tx, &p->config, &e->rx);
		end_begin(p, e);
		p->cable[i].delay = delay;
	}
}

bool end_send(struct weft_ape_tx *tx, uint64_t now_ns, struct weft_ape_beat *beat)
{
	const struct weft_ape_beat *sent = weft_ape_tx_step(tx, now_ns);

	if (sent)
		*beat = *sent;
	return sent;
}

/* What arrives now was sent `delay` word times ago; with a delay of 0, in this very word time. */
void pair_step(struct pair *p)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct cable *c = &p->cable[i];
		struct weft_ape_beat beat;
		bool there = end_send(&p->end[i].tx, p->now_ns, &beat);

		if (there && p->meddle)
			there = p->meddle(p, i, &beat);
		c->there[c->at] = there;
		if (there)
			c->beat[c->at] = beat;
		c->at = c->at < c->delay ? c->at + 1 : 0;
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct cable *c = &p->cable[i];

		if (c->there[c->at])
			weft_ape_rx_beat(&p->end[!i].rx, &c->beat[c->at]);
		c->there[c->at] = false;
	}
	p->now_ns++;
}

bool pair_may_give(const struct pair *p, unsigned int i)
{
	return !p->end[i].busy_giving;
}

void pair_give(struct pair *p, unsigned int i, const struct packet *packet)
{
	p->end[i].giving = *packet;
	p->end[i].given = 0;
	p->end[i].busy_giving = true;
}

void pair_feed(struct pair *p, unsigned int i, unsigned int words)
{
	struct end *e = &p->end[i];

	if (!e->busy_giving)
		return;
	if (!e->given) {
		struct weft_ape_header h;

		weft_ape_header_parse(e->giving.word[0], &h);
		if (!weft_ape_tx_grants(&e->tx, h.vc, weft_ape_payload_words(h.bytes)))
			return;
	}
	while (words-- && e->given < e->giving.words && weft_ape_tx_has_room(&e->tx)) {
		weft_ape_tx_give(&e->tx, e->giving.word[e->given], e->given + 1 == e->giving.words);
		e->given++;
	}
	e->busy_giving = e->given < e->giving.words;
}

/* The header tells how many words the packet has. */
static void begin_taking(struct end *e, unsigned int vc)
{
	struct weft_ape_header h;

	e->taking.word[0] = weft_ape_fifo_pop(&e->queue[vc].headers);
	weft_ape_header_parse(e->taking.word[0], &h);
	e->taking.words = 1;
	e->taking_vc = vc;
	e->busy_taking = !weft_ape_is_header_only(h.type);
}

bool pair_take(struct pair *p, unsigned int i, unsigned int words)
{
	struct end *e = &p->end[i];

	while (words--) {
		if (!e->busy_taking) {
			unsigned int vc = !e->queue[0].headers.count;

			if (!e->queue[vc].headers.count)
				return false;
			begin_taking(e, vc);
			if (!e->busy_taking)
				return true;
			continue;
		}
		struct weft_ape_queue *q = &e->queue[e->taking_vc];
		struct weft_ape_header h;

		weft_ape_header_parse(e->taking.word[0], &h);
		if (e->taking.words <= weft_ape_payload_words(h.bytes)) {
			if (!q->data.count)
				return false;
			e->taking.word[e->taking.words++] = weft_ape_fifo_pop(&q->data);
		} else {
			if (!q->headers.count)
				return false;
			e->taking.word[e->taking.words++] = weft_ape_fifo_pop(&q->headers);
			e->busy_taking = false;
			return true;
		}
	}
	return false;
}

void packet_make(struct packet *packet, unsigned int vc, unsigned int payload_words, uint64_t *seed)
{
	struct weft_ape_header h = {
		.vc = vc,
		.channel = splitmix64(seed),
		.bytes = payload_words * WEFT_APE_WORD_BYTES,
		.addr = splitmix64(seed) >> 16,
	};

	assert(weft_ape_header_build(&h, &packet->word[0]));
	packet->words = payload_words + 2;
	for (unsigned int i = 1; i < packet->words; i++)
		packet->word[i] = (struct weft_ape_word){splitmix64(seed), splitmix64(seed)};
}

uint64_t sum_of(const uint64_t beats[WEFT_APE_KINDS])
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < WEFT_APE_KINDS; i++)
		sum += beats[i];
	return sum;
}
