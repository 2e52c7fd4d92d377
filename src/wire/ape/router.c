/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/router.h"

#include "wire/ape/secded.h"

#define NOBODY WEFT_APE_SOURCES

void weft_ape_router_init(struct weft_ape_router *r)
{
	for (unsigned int port = 0; port < WEFT_APE_PORTS; port++)
		r->holder[port] = NOBODY;
}

/* ---- Where a packet goes ---- */

static void drop(struct weft_ape_router *r, unsigned int which, enum weft_ape_drop why)
{
	r->source[which].state = WEFT_APE_SOURCE_DROPPING;
	r->fronts |= 1u << which;
	r->dropped[why]++;
}

static void make_empty(struct weft_ape_router *r, unsigned int which)
{
	r->source[which].state = WEFT_APE_SOURCE_EMPTY;
	r->fronts |= 1u << which;
}

static void wait_for(struct weft_ape_router *r, unsigned int which, unsigned int port)
{
	r->source[which].port = port;
	r->source[which].state = WEFT_APE_SOURCE_WAITING;
	r->waiting[port] |= 1u << which;
	r->wanted |= 1u << port;
}

/* Whether *last* is what it must be behind the hop by this cable. */
static bool last_fits(const struct weft_ape_router *r, unsigned int which,
		      const struct weft_ape_header *h)
{
	unsigned int d = which / WEFT_APE_CHANNELS / 2;

	return which >= WEFT_APE_LOCAL_SOURCE || !weft_ape_lattice_has(r->lattice, h->to) ||
	       h->last == (h->to.at[d] == r->me.at[d]);
}

static void go_on(struct weft_ape_router *r, unsigned int which, struct weft_ape_header *h,
		  const struct weft_ape_hop *hop)
{
	struct weft_ape_source *s = &r->source[which];

	if (++h->hops > weft_ape_lattice_hops(r->lattice)) {
		drop(r, which, WEFT_APE_DROP_HOPS);
		return;
	}
	if (!(r->up >> hop->cable & 1)) {
		drop(r, which, WEFT_APE_DROP_DOWN);
		return;
	}
	s->vc = h->vc = hop->vc;
	h->last = hop->last;
	weft_ape_header_build(h, &s->header);
	wait_for(r, which, hop->cable);
}

/* The header in front of a source's queue. */
static void look_at_front(struct weft_ape_router *r, unsigned int which)
{
	struct weft_ape_source *s = &r->source[which];
	unsigned int from =
		which < WEFT_APE_LOCAL_SOURCE ? which / WEFT_APE_CHANNELS : WEFT_APE_PORTS;
	struct weft_ape_header h;
	struct weft_ape_hop hop;

	s->header = s->queue.headers.word[s->queue.headers.first];
	weft_ape_header_parse(s->header, &h);
	s->headed = false;
	s->header_only = weft_ape_is_header_only(h.type);
	s->words = s->words_left = weft_ape_payload_words(h.bytes);
	if (!last_fits(r, which, &h)) {
		drop(r, which, WEFT_APE_DROP_ODD);
		return;
	}
	switch (weft_ape_route(r->lattice, r->me, h.to, from, h.vc, r->enabled, &hop)) {
	case WEFT_APE_ON:
		go_on(r, which, &h, &hop);
		return;
	case WEFT_APE_HERE:
		if (h.port < r->locals)
			wait_for(r, which, WEFT_APE_CABLES + h.port);
		else
			drop(r, which, WEFT_APE_DROP_NOWHERE);
		return;
	case WEFT_APE_NOWHERE:
		drop(r, which, WEFT_APE_DROP_NOWHERE);
		return;
	}
}

bool weft_ape_router_is_wanted(const struct weft_ape_router *r, unsigned int port)
{
	return r->waiting[port] || r->holder[port] != NOBODY;
}

/* ---- Words ---- */

/* The next word of the packet in front, if it has come. */
static bool pop_word(struct weft_ape_source *s, struct weft_ape_word *word, bool *end)
{
	struct weft_ape_fifo *f = s->headed && s->words_left ? &s->queue.data : &s->queue.headers;

	if (!f->count)
		return false;
	*word = weft_ape_fifo_pop(f);
	if (!s->headed) {
		s->headed = true;
		*word = s->header;
		*end = s->header_only;
	} else {
		*end = !s->words_left;
		s->words_left -= !*end;
	}
	return true;
}

/* What left the FIFOs of a cable is news for its other end. */
static void stir(struct weft_ape_router *r, unsigned int which)
{
	if (which < WEFT_APE_LOCAL_SOURCE)
		r->stirred |= 1u << which / WEFT_APE_CHANNELS;
}

static bool discard(struct weft_ape_router *r, unsigned int which)
{
	struct weft_ape_source *s = &r->source[which];
	struct weft_ape_word word;
	bool end, moved = false;

	while (s->state == WEFT_APE_SOURCE_DROPPING && pop_word(s, &word, &end)) {
		moved = true;
		if (end)
			make_empty(r, which);
	}
	return moved;
}

static bool may_send(struct weft_ape_router *r, unsigned int port, const struct weft_ape_source *s)
{
	if (port >= WEFT_APE_CABLES)
		return true;
	r->stirred |= 1u << port;
	return weft_ape_tx_grants(&r->tx[port], s->vc, s->words);
}

/* The source that gets the port: in turn, the first one behind the last that has had it. */
static bool arbitrate(struct weft_ape_router *r, unsigned int port)
{
	uint32_t before = r->fixed ? 0 : (1u << r->turn[port]) - 1;
	uint32_t first = r->waiting[port] & ~before, then = r->waiting[port] & before;

	while (first | then) {
		uint32_t *half = first ? &first : &then;
		unsigned int which = (unsigned int)__builtin_ctz(*half);

		*half &= *half - 1;
		if (!may_send(r, port, &r->source[which]))
			continue;
		r->waiting[port] &= ~(1u << which);
		r->holder[port] = which;
		r->turn[port] = (which + 1) % WEFT_APE_SOURCES;
		r->source[which].state = WEFT_APE_SOURCE_MOVING;
		return true;
	}
	return false;
}

static void release(struct weft_ape_router *r, unsigned int port)
{
	r->passed[port]++;
	make_empty(r, r->holder[port]);
	r->holder[port] = NOBODY;
}

/* A cable takes a word in a word time, if its sender has room; an intra-tile port always. */
static bool move_word(struct weft_ape_router *r, unsigned int port)
{
	struct weft_ape_source *s = &r->source[r->holder[port]];
	bool is_cable = port < WEFT_APE_CABLES, end;
	struct weft_ape_word word;

	if ((is_cable && !weft_ape_tx_has_room(&r->tx[port])) || !pop_word(s, &word, &end))
		return false;
	stir(r, r->holder[port]);
	r->stirred |= is_cable ? 1u << port : 0;
	if (is_cable)
		weft_ape_tx_give(&r->tx[port], word, end);
	else
		r->deliver(r->owner, port - WEFT_APE_CABLES, word, end);
	if (end)
		release(r, port);
	return true;
}

/* ---- Bursts ---- */

/* The sender of a cable gets the header, and takes the rest as it comes and as the cable has room: it was lent the packet of whatever
 * source holds the cable. */
static bool lend_packet(struct weft_ape_router *r, unsigned int port)
{
	struct weft_ape_source *s = &r->source[r->holder[port]];

	if (r->tx[port].rest)
		return false;
	move_word(r, port);
	if (s->state == WEFT_APE_SOURCE_MOVING)
		weft_ape_tx_lend(&r->tx[port], &s->queue, s->words);
	return true;
}

/* What senders have taken since is news for those that fill the FIFOs; a packet of which they have all is through. */
static bool look_after_lent(struct weft_ape_router *r)
{
	bool any = false;

	for (uint32_t left = r->wanted & ((1u << WEFT_APE_CABLES) - 1); left; left &= left - 1) {
		unsigned int port = (unsigned int)__builtin_ctz(left);

		if (r->holder[port] == NOBODY)
			continue;
		stir(r, r->holder[port]);
		r->stirred |= 1u << port;
		if (r->tx[port].rest)
			continue;
		release(r, port);
		any = true;
	}
	return any;
}

/* A packet for this node is taken whole, when all of it has come; one without a footer has nothing to take. */
static bool deliver_whole(struct weft_ape_router *r, unsigned int port)
{
	struct weft_ape_source *s = &r->source[r->holder[port]];
	struct weft_ape_queue *q = &s->queue;

	if (q->data.count < s->words || q->headers.count < 2u - s->header_only)
		return false;
	weft_ape_fifo_drop(&q->headers, 1);
	if (!s->header_only)
		r->deliver_packet(r->owner, port - WEFT_APE_CABLES, s->header, &q->data, s->words,
				  weft_ape_fifo_pop(&q->headers));
	stir(r, r->holder[port]);
	release(r, port);
	return true;
}

static bool move_packet(struct weft_ape_router *r, unsigned int port)
{
	return port < WEFT_APE_CABLES ? lend_packet(r, port) : deliver_whole(r, port);
}

static bool look_at_fronts(struct weft_ape_router *r)
{
	uint32_t left = r->fronts;
	bool moved = false;

	r->fronts = 0;
	for (; left; left &= left - 1) {
		unsigned int which = (unsigned int)__builtin_ctz(left);
		struct weft_ape_source *s = &r->source[which];

		if (s->state == WEFT_APE_SOURCE_EMPTY && s->queue.headers.count) {
			look_at_front(r, which);
			moved = true;
		}
		if (s->state == WEFT_APE_SOURCE_DROPPING && discard(r, which)) {
			stir(r, which);
			moved = true;
		}
	}
	return moved;
}

bool weft_ape_router_step(struct weft_ape_router *r)
{
	bool moved = r->bursts && look_after_lent(r);

	moved |= look_at_fronts(r);
	for (uint32_t left = r->wanted; left; left &= left - 1) {
		unsigned int port = (unsigned int)__builtin_ctz(left);

		if (r->holder[port] != NOBODY || arbitrate(r, port))
			moved |= r->bursts ? move_packet(r, port) : move_word(r, port);
		if (!weft_ape_router_is_wanted(r, port))
			r->wanted &= ~(1u << port);
	}
	return moved;
}

/* What its sender has not taken of a packet that it was lent is dropped; maybe nothing. */
static void drop_held(struct weft_ape_router *r, unsigned int cable)
{
	unsigned int which = r->holder[cable];

	if (r->bursts && !r->tx[cable].rest) {
		make_empty(r, which);
		return;
	}
	if (r->bursts)
		r->source[which].words_left = r->tx[cable].rest_words;
	drop(r, which, WEFT_APE_DROP_DOWN);
}

void weft_ape_router_down(struct weft_ape_router *r, unsigned int cable)
{
	r->up &= ~(1u << cable);
	if (r->holder[cable] != NOBODY)
		drop_held(r, cable);
	r->holder[cable] = NOBODY;
	for (unsigned int which = 0; which < WEFT_APE_SOURCES; which++)
		if (r->waiting[cable] >> which & 1)
			drop(r, which, WEFT_APE_DROP_DOWN);
	r->waiting[cable] = 0;
}
