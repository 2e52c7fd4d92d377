/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/node.h"

#include <stddef.h>

uint32_t weft_ape_depth_told(const struct weft_ape_link_config *link)
{
	return (link->quads == 1 ? WEFT_APE_DEPTH_NARROW : WEFT_APE_DEPTH_TOLD) << link->shift;
}

bool weft_ape_node_config_holds(const struct weft_ape_node_config *c)
{
	return weft_ape_lattice_holds(&c->lattice) && weft_ape_lattice_has(&c->lattice, c->me) &&
	       (c->link.quads == 1 || c->link.quads == 2 || c->link.quads == 4) &&
	       c->link.cycle >= WEFT_APE_CYCLE_MIN && c->locals >= 1 &&
	       c->locals <= WEFT_APE_LOCALS && c->header_depth >= WEFT_APE_HEADER_ROOM &&
	       c->header_depth <= WEFT_APE_HEADERS_MAX && c->data_depth >= 1 &&
	       c->link.shift <= WEFT_APE_SHIFT_MAX &&
	       c->data_depth <= weft_ape_depth_told(&c->link) &&
	       c->link.threshold.data <= (uint32_t)c->data_depth + c->link.margin &&
	       c->link.threshold.headers <= (uint32_t)c->header_depth + c->link.margin &&
	       c->link.margin <= WEFT_APE_HEADERS_MAX - 1;
}

size_t weft_ape_node_words(const struct weft_ape_node_config *c)
{
	return (size_t)WEFT_APE_LOCAL_SOURCE * (c->header_depth + c->data_depth) +
	       (size_t)c->locals * (WEFT_APE_LOCAL_HEADERS + WEFT_APE_LOCAL_DATA);
}

static struct weft_ape_fifo fifo(struct weft_ape_word **memory, uint32_t depth)
{
	struct weft_ape_fifo f = {.word = *memory, .depth = depth};

	*memory += depth;
	return f;
}

void weft_ape_node_init(struct weft_ape_node *n, const struct weft_ape_node_config *config,
			struct weft_ape_word *memory, weft_ape_send_fn *send, void *owner,
			weft_ape_deliver_fn *deliver, void *taker)
{
	struct weft_ape_router *r = &n->router;
	struct weft_ape_coord other;

	*n = (struct weft_ape_node){.config = *config, .send = send, .owner = owner};
	r->lattice = &n->config.lattice;
	r->me = config->me;
	r->locals = config->locals;
	r->fixed = config->fixed;
	r->bursts = config->link.burst > 1;
	r->deliver = deliver;
	r->owner = taker;
	r->tx = n->tx;
	for (unsigned int i = 0; i < WEFT_APE_LOCAL_SOURCE + config->locals; i++) {
		bool is_cable = i < WEFT_APE_LOCAL_SOURCE;
		struct weft_ape_queue *q = &r->source[i].queue;

		q->headers =
			fifo(&memory, is_cable ? config->header_depth : WEFT_APE_LOCAL_HEADERS);
		q->data = fifo(&memory, is_cable ? config->data_depth : WEFT_APE_LOCAL_DATA);
		if (!is_cable)
			n->own_data[i - WEFT_APE_LOCAL_SOURCE] = q->data.word;
	}
	for (unsigned int cable = 0; cable < WEFT_APE_CABLES; cable++) {
		struct weft_ape_queue *queue[WEFT_APE_CHANNELS];

		for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
			queue[vc] = &r->source[cable * WEFT_APE_CHANNELS + vc].queue;
		if (weft_ape_lattice_neighbour(&config->lattice, config->me, cable, &other))
			r->enabled |= 1u << cable;
		weft_ape_tx_init(&n->tx[cable], &n->config.link, &n->rx[cable]);
		weft_ape_rx_init(&n->rx[cable], &n->config.link, queue, &n->tx[cable].ledger);
	}
	weft_ape_router_init(r);
}

/* Words have come by the cable, or a packet was ended. */
static void note_came(struct weft_ape_node *n, unsigned int cable)
{
	weft_ape_router_came(&n->router, ((1u << WEFT_APE_CHANNELS) - 1)
						 << cable * WEFT_APE_CHANNELS);
}

/* Nothing can be sent by the cable. */
static void stop_sending(struct weft_ape_node *n, unsigned int cable)
{
	if (!(n->router.up >> cable & 1))
		return;
	n->went_down[cable]++;
	weft_ape_router_down(&n->router, cable);
	weft_ape_tx_reset(&n->tx[cable]);
}

void weft_ape_node_down(struct weft_ape_node *n, unsigned int cable)
{
	stop_sending(n, cable);
	n->calm &= ~(1u << cable);
	if (n->hears >> cable & 1) {
		weft_ape_rx_down(&n->rx[cable]);
		note_came(n, cable);
	}
	n->hears &= ~(1u << cable);
	n->doubted &= ~(1u << cable);
}

void weft_ape_node_sever(struct weft_ape_node *n, unsigned int cable, bool severed)
{
	uint8_t bit = 1u << cable;

	if ((n->severed & bit) == (severed ? bit : 0))
		return;
	n->severed ^= bit;
	n->calm &= ~bit;
	if (severed)
		stop_sending(n, cable);
	else
		weft_ape_tx_reset(&n->tx[cable]); /* it says a credit at once */
}

static void note_heard(struct weft_ape_node *n, unsigned int cable, uint64_t now_ns)
{
	n->heard_ns[cable] = now_ns;
	n->doubted &= ~(1u << cable);
	n->calm &= ~(1u << cable);
	note_came(n, cable);
}

/* A packet waits for room there, or one of which only a part has come holds the port that it leaves by. */
static bool holds_up_others(const struct weft_ape_node *n, unsigned int cable)
{
	return weft_ape_router_is_wanted(&n->router, cable) || weft_ape_rx_is_within(&n->rx[cable]);
}

void weft_ape_node_vouch(struct weft_ape_node *n, unsigned int cable, uint64_t now_ns)
{
	if (!holds_up_others(n, cable))
		note_heard(n, cable, now_ns);
}

static void hear_cable(struct weft_ape_node *n, unsigned int cable, uint64_t now_ns)
{
	if (!(n->hears >> cable & 1)) {
		weft_ape_rx_up(&n->rx[cable]);
		n->rx[cable].unheard = true;
		n->hears |= 1u << cable;
	}
	note_heard(n, cable, now_ns);
}

static void take_beat(struct weft_ape_node *n, unsigned int cable, const struct weft_ape_beat *beat)
{
	weft_ape_rx_beat(&n->rx[cable], beat);
	if (n->rx[cable].unheard || n->severed >> cable & 1)
		stop_sending(n, cable);
	else
		n->router.up |= 1u << cable;
}

void weft_ape_node_beat(struct weft_ape_node *n, unsigned int cable,
			const struct weft_ape_beat *beat, uint64_t now_ns)
{
	hear_cable(n, cable, now_ns);
	take_beat(n, cable, beat);
}

void weft_ape_node_beats(struct weft_ape_node *n, unsigned int cable, const uint64_t *quad,
			 unsigned int count, uint64_t now_ns)
{
	unsigned int quads = n->config.link.quads, run;
	struct weft_ape_beat beat = {{0}};

	if (count)
		hear_cable(n, cable, now_ns);
	while (count) {
		run = weft_ape_rx_run(&n->rx[cable], quad, count);
		if (!run) {
			run = 1;
			for (unsigned int i = 0; i < quads; i++)
				beat.quad[i] = quad[i];
			take_beat(n, cable, &beat);
		}
		quad += (size_t)run * quads;
		count -= run;
	}
}

static void listen(struct weft_ape_node *n, unsigned int cable, uint64_t now_ns)
{
	uint64_t silence_ns = n->config.silence_ns;

	if (!silence_ns || !(n->hears >> cable & 1) || now_ns - n->heard_ns[cable] < silence_ns)
		return;
	if (n->doubted >> cable & 1) {
		weft_ape_node_down(n, cable);
		return;
	}
	n->doubted |= 1u << cable;
	n->heard_ns[cable] = now_ns - silence_ns / 2;
}

/* What the cable carries in this word time. */
static bool send_beats(struct weft_ape_node *n, unsigned int cable, uint64_t now_ns)
{
	bool back = n->config.loopback >> cable & 1;
	unsigned int sent = 0, most = n->router.bursts ? n->config.link.burst : 1, count;
	const struct weft_ape_word *run;
	const struct weft_ape_beat *beat;

	while (sent < most && !(n->full >> cable & 1)) {
		count = n->send_words && !back
				? weft_ape_tx_run(&n->tx[cable], now_ns, most - sent, &run)
				: 0;
		if (count) {
			n->send_words(n->owner, cable, run, count);
			sent += 2 * count / n->config.link.quads;
			continue;
		}
		beat = weft_ape_tx_step(&n->tx[cable], now_ns);
		if (!beat)
			break;
		sent++;
		if (back)
			weft_ape_node_beat(n, cable, beat, now_ns);
		else
			n->send(n->owner, cable, beat);
	}
	return sent;
}

/* When something is due of the cable although nothing comes and nothing moves. */
static uint64_t cable_deadline(const struct weft_ape_node *n, unsigned int cable)
{
	uint64_t refresh = weft_ape_tx_deadline(&n->tx[cable]), first = UINT64_MAX;

	if (refresh && !(n->full >> cable & 1))
		first = refresh;
	if (n->config.silence_ns && n->hears >> cable & 1 &&
	    n->heard_ns[cable] + n->config.silence_ns < first)
		first = n->heard_ns[cable] + n->config.silence_ns;
	return first;
}

static void calm_down(struct weft_ape_node *n, unsigned int cable)
{
	uint64_t due_ns = cable_deadline(n, cable);

	if (!n->calm || due_ns < n->calm_ns)
		n->calm_ns = due_ns;
	n->calm |= 1u << cable;
}

bool weft_ape_node_step(struct weft_ape_node *n, uint64_t now_ns)
{
	bool moved = weft_ape_router_step(&n->router);

	n->calm &= now_ns < n->calm_ns ? ~n->router.stirred : 0;
	n->router.stirred = 0;
	for (uint8_t left = n->router.enabled & ~n->calm; left; left &= left - 1) {
		unsigned int cable = (unsigned int)__builtin_ctz(left);

		listen(n, cable, now_ns);
		if (send_beats(n, cable, now_ns))
			moved = true;
		else if (!(n->full >> cable & 1))
			calm_down(n, cable);
	}
	return moved;
}

uint64_t weft_ape_node_deadline(const struct weft_ape_node *n)
{
	uint64_t first = UINT64_MAX, due_ns;

	for (unsigned int cable = 0; cable < WEFT_APE_CABLES; cable++) {
		due_ns = n->router.enabled >> cable & 1 ? cable_deadline(n, cable) : UINT64_MAX;
		first = due_ns < first ? due_ns : first;
	}
	return first;
}

/* ---- Intra-tile ports ---- */

static struct weft_ape_queue *port_queue(struct weft_ape_node *n, unsigned int local)
{
	return &n->router.source[WEFT_APE_LOCAL_SOURCE + local].queue;
}

bool weft_ape_node_has_room(struct weft_ape_node *n, unsigned int local)
{
	struct weft_ape_queue *q = port_queue(n, local);

	if (!q->data.count)
		weft_ape_node_keep(n, local);
	return q->data.word == n->own_data[local] &&
	       weft_ape_queue_has_room(q, WEFT_APE_PAYLOAD_WORDS);
}

void weft_ape_node_give(struct weft_ape_node *n, unsigned int local, struct weft_ape_word header,
			const uint8_t *payload, unsigned int words, struct weft_ape_word footer)
{
	struct weft_ape_queue *q = port_queue(n, local);

	weft_ape_fifo_push(&q->headers, header);
	if (words)
		weft_ape_fifo_push_bytes(&q->data, payload, words);
	if (!weft_ape_is_header_only(weft_ape_bits(header, 47, 43)))
		weft_ape_fifo_push(&q->headers, footer);
	weft_ape_router_came(&n->router, 1u << (WEFT_APE_LOCAL_SOURCE + local));
}

void weft_ape_node_lend(struct weft_ape_node *n, unsigned int local, struct weft_ape_word header,
			const uint8_t *payload, unsigned int words, struct weft_ape_word footer)
{
	struct weft_ape_fifo *f = &port_queue(n, local)->data;
	bool as_words = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

	if (as_words && words && !f->count) {
		f->word = (struct weft_ape_word *)payload; /* nothing is stored there */
		f->depth = f->count = words;
		words = 0;
	}
	weft_ape_node_give(n, local, header, payload, words, footer);
}

void weft_ape_node_keep(struct weft_ape_node *n, unsigned int local)
{
	struct weft_ape_fifo *f = &port_queue(n, local)->data;
	const struct weft_ape_word *rest = f->word + f->first;

	if (f->word == n->own_data[local])
		return;
	f->word = n->own_data[local];
	f->depth = WEFT_APE_LOCAL_DATA;
	f->first = 0;
	__builtin_memcpy(f->word, rest, f->count * sizeof(*rest));
}
