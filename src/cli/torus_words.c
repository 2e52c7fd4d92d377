/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What went over a cable last: its ring keeps what was taken until it is written over. */
#include <stdio.h>
#include <string.h>

#include "card/torus/torus.h"
#include "cli/torus.h"
#include "link/ring.h"
#include "wire/ape/frames.h"
#include "wire/ape/lanes.h"

#define LAST  1024u /* at most half of a ring */
#define TRIES 100u

static const char *const types[WEFT_APE_HEADER_ONLY] = {
	"PUT",	      "PUT, last", "Ethernet",	      "SEND",	"SEND, last", "GET",	 "data",
	"data, last", "refused",   "acknowledgement", "repeat", "hello",      "welcome", "nothing",
	"verbs",      "?",
};

/* What the words so far have told of the one that comes. */
struct decoder {
	unsigned int quads;
	uint8_t shift; /* of credits */
	bool in_step;  /* a START was seen */
	bool within;   /* a packet: its header was seen, its footer was not */
	bool begun;    /* START was seen, its header was not */
	bool magic;    /* the beat before was MAGIC */
	bool half;     /* of 64 bits: the first half of a word; */
	bool credit;   /* of a credit */
	uint64_t low;
	uint32_t left; /* words of payload */
};

static void print_word(struct weft_ape_word w)
{
	printf("  %016llx%016llx  ", (unsigned long long)w.hi, (unsigned long long)w.lo);
}

static void print_credit(const struct decoder *d, struct weft_ape_word w)
{
	struct weft_ape_credit c;

	print_word(w);
	if (weft_ape_secded_check(&w) == WEFT_APE_SPOILT ||
	    !weft_ape_credit_parse(w, d->shift, &c)) {
		puts("of no kind");
		return;
	}
	printf("credit: FIFOs of data %u and %u, of headers %u and %u; mark %u, seen %u%s\n",
	       c.used[0].data, c.used[1].data, c.used[0].headers, c.used[1].headers, c.mark, c.seen,
	       c.deaf ? "; hears nothing" : "");
}

static void print_header(struct decoder *d, struct weft_ape_word w)
{
	struct weft_ape_header h;

	d->begun = false;
	if (weft_ape_secded_check(&w) == WEFT_APE_SPOILT || !weft_ape_header_parse(w, &h)) {
		puts("header: damaged");
		d->in_step = false;
		return;
	}
	d->within = !weft_ape_is_header_only(h.type);
	d->left = d->within ? weft_ape_payload_words(h.bytes) : 0;
	printf("header: %s to %u,%u,%u port %u channel %u, %u bytes at 0x%llx; virtual channel "
	       "%u%s, %u hops\n",
	       h.type < WEFT_APE_HEADER_ONLY ? types[h.type] : "header only", h.to.at[0],
	       h.to.at[1], h.to.at[2], h.port, h.channel, h.bytes, (unsigned long long)h.addr, h.vc,
	       h.last ? ", last" : "", h.hops);
}

static void print_footer(struct decoder *d, struct weft_ape_word w)
{
	struct weft_ape_footer f;

	d->within = false;
	if (!weft_ape_footer_parse(w, &f)) {
		puts("footer: filler");
		return;
	}
	printf("footer: from %u,%u,%u, sequence %u, acknowledges %u, life %u to %u, CRC %08x\n",
	       f.from.at[0], f.from.at[1], f.from.at[2], f.seq, f.ack, f.life, f.peer_life, f.crc);
}

static void print_content(struct decoder *d, struct weft_ape_word w)
{
	if (!d->begun && !d->within)
		return; /* what fills a wide beat */
	print_word(w);
	if (d->begun) {
		print_header(d, w);
	} else if (d->left) {
		d->left--;
		puts("data");
	} else {
		print_footer(d, w);
	}
}

/* A beat of words, or half a word, of content or credit. */
static void print_words(struct decoder *d, const struct weft_ape_beat *beat, bool credit)
{
	struct weft_ape_word w;

	if (d->quads == 1 && !d->half) {
		d->low = beat->quad[0];
		d->half = true;
		d->credit = credit;
		return;
	}
	w = d->half ? (struct weft_ape_word){d->low, beat->quad[0]}
		    : (struct weft_ape_word){beat->quad[0], beat->quad[1]};
	d->half = false;
	d->credit = false;
	if (credit) {
		print_credit(d, w);
		return;
	}
	print_content(d, w);
	if (d->quads == 4)
		print_content(d, (struct weft_ape_word){beat->quad[2], beat->quad[3]});
}

static void begin_packet(struct decoder *d)
{
	puts("  START");
	d->in_step = d->begun = true;
	d->within = d->half = false;
}

static void print_beat(struct decoder *d, const struct weft_ape_beat *beat)
{
	bool magic = d->magic, content = d->begun || d->within;

	d->magic = false;
	if (d->half && d->credit) {
		print_words(d, beat, true);
	} else if (weft_ape_beat_is(beat, WEFT_APE_MAGIC, d->quads)) {
		if (magic && content) {
			print_words(d, beat, false);
			return;
		}
		d->magic = true;
		if (d->in_step)
			puts("  MAGIC");
	} else if (weft_ape_beat_is(beat, WEFT_APE_START, d->quads) && !content) {
		begin_packet(d);
	} else if (d->in_step) {
		print_words(d, beat, magic || !content);
	}
}

/* The last that were sent, and are not written over while they are copied. How many. */
static uint32_t copy_last(struct weft_cable_ring *ring, uint64_t quad[LAST][WEFT_RING_QUADS])
{
	/* acquire: pairs with the release in show_up_to (link/ring.c) */
	uint64_t sent = atomic_load_explicit(&ring->file->sent, memory_order_acquire);
	uint32_t count = sent < LAST ? (uint32_t)sent : LAST;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = (sent - count + i) & (ring->beats - 1);

		memcpy(quad[i], ring->file->quad + at * ring->quads,
		       ring->quads * sizeof(uint64_t));
	}
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&ring->file->sent, memory_order_relaxed) - sent >
	    ring->beats - LAST)
		return 0;
	return count;
}

/* The beats that the bits of lanes say, as a receiver that begins with the first of them finds them. */
static void print_lanes(struct decoder *d, const struct weft_torus_shape *shape,
			uint64_t quad[LAST][WEFT_RING_QUADS], uint32_t count)
{
	static struct weft_ape_b8b10 table;
	static struct weft_ape_phy phy;
	struct weft_ape_beat beat;

	weft_ape_b8b10_init(&table);
	weft_ape_phy_init(&phy, shape->phy == WEFT_TORUS_8B10B ? WEFT_APE_8B10B : WEFT_APE_64B66B,
			  shape->lanes, &table);
	for (uint32_t i = 0; i < count; i++) {
		weft_ape_phy_slot_in(&phy, quad[i]);
		while (weft_ape_phy_receive(&phy, &beat))
			print_beat(d, &beat);
	}
}

static void print_last(struct decoder *d, const struct weft_torus_shape *shape,
		       uint64_t quad[LAST][WEFT_RING_QUADS], uint32_t count)
{
	struct weft_ape_beat beat = {{0}};

	if (shape->phy != WEFT_TORUS_NO_PHY) {
		print_lanes(d, shape, quad, count);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		memcpy(beat.quad, quad[i], sizeof(beat.quad));
		print_beat(d, &beat);
	}
}

int weft_torus_words(struct weft_torus_options *o, char **words)
{
	static uint64_t quad[LAST][WEFT_RING_QUADS];
	struct weft_ape_ni_config config;
	struct decoder d = {.in_step = false};
	struct weft_torus_end end;
	struct weft_cable_ring ring;
	uint32_t count = 0;
	int err = weft_torus_parse_end(o, words[0], words[1], &end);

	if (err)
		return err;
	if (weft_torus_open_cable(o, end.at, end.cable, &ring))
		return 1;
	weft_torus_config(&o->shape, end.at.at, &config);
	d.quads = o->shape.quads;
	d.shift = config.node.link.shift;
	for (unsigned int i = 0; i < TRIES && !count && ring.beats > LAST; i++)
		count = copy_last(&ring, quad);
	weft_ring_close(&ring);
	printf("%u %s of %u bits, from the first START on:\n", count,
	       o->shape.phy == WEFT_TORUS_NO_PHY ? "words" : "slots of lanes, words", d.quads * 64);
	print_last(&d, &o->shape, quad, count);
	return 0;
}
