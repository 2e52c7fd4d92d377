/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "../ape/crc.h"
#include "wire/ape/packet.h"

/* The least length of a datagram: its number may lie up to there. */
#define LEAST_BYTES 20u

static uint64_t below(struct network *n, uint64_t limit)
{
	return weft_sim_below(n->sim, limit);
}

static bool happens(struct network *n, uint32_t of_1024)
{
	return below(n, 1024) < of_1024;
}

uint64_t network_field(const struct network_source *s, uint32_t run, uint32_t index)
{
	uint64_t field = (s->first[run] + index) * s->protocol.step;

	return s->protocol.bits == 64 ? field : field & ((1ull << s->protocol.bits) - 1);
}

/* ---- Datagrams ---- */

/* Of MGP the source 7, sub-source 1; of the torus the node (1, 28, 0). */
#define ID (7 << 8 | 1)

static void make_events(struct network *n, struct network_arrival *a, uint64_t field)
{
	struct weft_mgp mgp = {.sequence = (uint32_t)field,
			       .source = 7,
			       .sub_source = 1,
			       .events = (uint8_t)a->events,
			       .flags = a->last ? WEFT_MGP_LAST : 0};

	a->bytes = WEFT_MGP_HEADER;
	for (uint32_t i = 0; i < a->events; i++) {
		struct weft_m2egp event = {.hits = (uint8_t)below(n, 20)};
		uint16_t pmt[20];

		for (uint32_t k = 0; k < event.hits; k++)
			pmt[k] = (uint16_t)(1 + below(n, 1952));
		a->bytes += weft_m2egp_write(&event, pmt, a->data + a->bytes);
	}
	mgp.bytes = (uint16_t)a->bytes;
	weft_mgp_write(&mgp, a->data);
}

/* A packet of the torus, whose sums hold. */
static void make_packet(struct network *n, struct network_arrival *a, uint64_t field)
{
	unsigned int words = weft_ape_payload_words(a->bytes);
	struct weft_ape_header h = {.type = a->last ? WEFT_APE_SEND_LAST : WEFT_APE_SEND,
				    .bytes = (uint16_t)a->bytes,
				    .addr = weft_sim_random(n->sim) >> 16,
				    .hops = (uint16_t)below(n, 100)};
	struct weft_ape_footer f = {.seq = (uint32_t)field, .from = weft_ape_coord_unpack(ID)};
	uint8_t *payload = a->data + WEFT_APE_WORD_BYTES;
	struct weft_ape_word header;

	memset(payload, 0, (size_t)words * WEFT_APE_WORD_BYTES);
	for (uint32_t i = 0; i < a->bytes; i++)
		payload[i] = (uint8_t)weft_sim_random(n->sim);
	if (!weft_ape_header_build(&h, &header))
		abort();
	f.crc = weft_ape_packet_crc(crc32c, header, payload, words, weft_ape_footer_build(&f));
	weft_ape_word_store(header, a->data);
	weft_ape_word_store(weft_ape_footer_build(&f), payload + words * WEFT_APE_WORD_BYTES);
	a->bytes = (words + 2) * WEFT_APE_WORD_BYTES;
}

/* Whether the datagram is the first or the last of a numbering, which arrive unharmed. */
static bool comes_well(const struct network_source *s, const struct network_arrival *a)
{
	return !a->index || a->index == s->sends[a->run] - 1;
}

/* Makes a datagram. The first and the last of a numbering are short enough for every buffer: if none of a numbering had been taken
 * before the next one began, a straggler of it could not be told from a restart. */
static void make(struct network *n, struct network_source *s, struct network_arrival *a)
{
	uint64_t field = network_field(s, a->run, a->index);
	unsigned int width = s->protocol.bits / 8;

	a->events = 1;
	if (s->protocol.kind == WEFT_PROTOCOL_MGP) {
		a->events = comes_well(s, a) ? 0 : (uint32_t)below(n, 6);
		a->last = !below(n, 50);
		make_events(n, a, field);
		return;
	}
	if (s->protocol.kind == WEFT_PROTOCOL_APE) {
		a->last = !below(n, 50);
		a->bytes = comes_well(s, a) ? 0 : (uint32_t)below(n, 150);
		make_packet(n, a, field);
		return;
	}
	a->bytes = comes_well(s, a)	   ? LEAST_BYTES
		   : (uint32_t)below(n, 4) ? 120
					   : LEAST_BYTES + (uint32_t)below(n, 180);
	for (uint32_t i = 0; i < a->bytes; i += 8)
		weft_bytes_put_little(a->data + i, 8, weft_sim_random(n->sim));
	if (s->protocol.kind != WEFT_PROTOCOL_SEQUENCED)
		return;
	if (s->protocol.big_endian)
		weft_bytes_put_big(a->data + s->protocol.offset, width, field);
	else
		weft_bytes_put_little(a->data + s->protocol.offset, width, field);
}

/* ---- Faults ---- */

static void cut(struct network *n, const struct network_source *s, struct network_arrival *a)
{
	a->bytes -= 1 + (uint32_t)below(n, a->bytes);
	if (s->protocol.kind == WEFT_PROTOCOL_SEQUENCED)
		a->bad |= a->bytes < s->protocol.offset + s->protocol.bits / 8;
	else
		a->bad |= s->protocol.kind != WEFT_PROTOCOL_RAW;
}

/* Changes bytes, but not the number: by it alone a datagram is known. */
static void change(struct network *n, const struct network_source *s, struct network_arrival *a)
{
	uint32_t at = (uint32_t)below(n, a->bytes);
	uint8_t by = 1 << below(n, 8);

	if (s->protocol.kind == WEFT_PROTOCOL_RAW) {
		a->data[at] ^= by;
	} else if (s->protocol.kind == WEFT_PROTOCOL_SEQUENCED) {
		if (at < s->protocol.offset || at >= s->protocol.offset + s->protocol.bits / 8)
			a->data[at] ^= by;
	} else if (s->protocol.kind == WEFT_PROTOCOL_APE) {
		a->data[at] ^= by;
		a->bad = true;
	} else {
		/* of the header only sequence and timestamp may be any; of an event, its fine time */
		static const uint8_t places[] = {4,  5,	     6,	     7,	      12,     14,
						 15, 16 + 6, 16 + 7, 16 + 12, 16 + 13};
		uint32_t which = (uint32_t)below(n, a->events ? sizeof(places) + 1 : 7);

		a->bad |= which < sizeof(places);
		a->data[which < sizeof(places) ? places[which] : 16] ^= by;
	}
}

/* ---- Sending ---- */

static void free_arrival(struct network *n, struct network_arrival *a)
{
	a->next = n->free;
	n->free = a;
}

static void arrive(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct network_arrival *a = (struct network_arrival *)event;

	a->network->arrive(a->network, a);
	free_arrival(a->network, a);
}

static void dispatch(struct network *n, const struct network_arrival *made, bool well, bool copy)
{
	const struct network_source *s = &n->source[made->source];
	struct network_arrival *a = n->free;
	uint64_t delay = 1;

	if (!a)
		abort();
	n->free = a->next;
	*a = *made;
	a->event = (struct weft_sim_event){.happen = arrive};
	a->network = n;
	if (!well && happens(n, n->faults.delayed))
		delay += s->spacing_ns * below(n, n->faults.deep + 1);
	if (!well && (!copy || n->faults.bad_copies)) {
		if (happens(n, n->faults.cut))
			cut(n, s, a);
		else if (happens(n, n->faults.changed))
			change(n, s, a);
	}
	if (weft_sim_at(n->sim, &a->event, n->sim->now_ns + delay))
		abort();
}

static void send(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct network_source *s = (struct network_source *)event;
	struct network *n = s->network;
	struct network_arrival made = {
		.source = (uint32_t)(s - n->source), .run = s->run, .index = s->sent};

	make(n, s, &made);
	bool well = comes_well(s, &made);
	bool lost = !well && happens(n, n->faults.lost),
	     doubled = !well && happens(n, n->faults.doubled);

	if (lost)
		s->lost[s->run]++;
	else
		dispatch(n, &made, well, doubled);
	for (uint64_t copies = doubled && !lost ? 1 + below(n, 3) : 0; copies; copies--)
		dispatch(n, &made, well, true);
	if (++s->sent == s->sends[s->run]) {
		s->sent = 0;
		s->run++;
	}
	if (s->run < s->runs && weft_sim_at(sim, event, sim->now_ns + s->spacing_ns))
		abort();
}

/* ---- What the seed decides ---- */

static void choose_protocol(struct network *n, struct weft_protocol *p)
{
	static const uint8_t bits[] = {16, 32, 64};

	*p = (struct weft_protocol){.kind = (enum weft_protocol_kind)below(n, WEFT_PROTOCOLS),
				    .offset = (uint32_t)below(n, 12),
				    .bits = bits[below(n, 3)],
				    .big_endian = below(n, 2),
				    .step = below(n, 2) ? 1 : 1 + below(n, 4),
				    .id = below(n, 2) ? ID : WEFT_PROTOCOL_ANY,
				    .crc32c = crc32c};
	if (!weft_protocol_settle(p))
		abort();
	if (p->kind == WEFT_PROTOCOL_MGP)
		p->id = ID; /* so that a changed source is bad */
}

/* A first number that is far from those of the numberings before, over the field's wrap, too. */
static uint64_t choose_first(struct network *n, const struct network_source *s, uint32_t run)
{
	uint64_t numbers = s->protocol.bits == 64 ? 0 : 1ull << s->protocol.bits;
	uint64_t range = (numbers ? numbers : -1ull) / s->protocol.step;

	for (;;) {
		uint64_t first = below(n, 4) ? below(n, range) : range - below(n, 100) - 1;
		bool near = false;

		for (uint32_t i = 0; i < run; i++) {
			uint64_t up = (first - s->first[i]) * s->protocol.step;
			uint64_t down = (s->first[i] - first) * s->protocol.step;
			uint64_t mask = numbers ? numbers - 1 : -1ull;

			near |= (up & mask) / s->protocol.step < NETWORK_FAR ||
				(down & mask) / s->protocol.step < NETWORK_FAR;
		}
		if (!near)
			return first;
	}
}

static void choose_source(struct network *n, struct network_source *s, bool large)
{
	*s = (struct network_source){
		.event.happen = send, .network = n, .spacing_ns = 100 + below(n, 1000)};
	choose_protocol(n, &s->protocol);
	s->runs = 1 + (uint32_t)below(n, s->protocol.kind == WEFT_PROTOCOL_RAW ? 1 : NETWORK_RUNS);
	/* of 16 bits, at a step of 4, there are few numbers */
	if (s->protocol.bits == 16 && s->protocol.step > 1)
		s->runs = 1;
	for (uint32_t i = 0; i < s->runs; i++) {
		s->sends[i] = (large ? 1100 : n->faults.deep + 2) +
			      (uint32_t)below(n, large ? 1500 : 300);
		s->first[i] = choose_first(n, s, i);
	}
}

void network_begin(struct network *n, struct weft_sim *sim, struct network_arrival *arrivals,
		   uint32_t count)
{
	*n = (struct network){.sim = sim};
	for (uint32_t i = 0; i < count; i++)
		free_arrival(n, &arrivals[i]);
	bool large = !below(n, 16);

	n->faults = (struct network_faults){
		.lost = (uint32_t)below(n, 2) * (uint32_t)below(n, 205), /* 20 % */
		.doubled = (uint32_t)below(n, 2) * (uint32_t)below(n, 200),
		.delayed = (uint32_t)below(n, 2) * (uint32_t)below(n, 400),
		.cut = (uint32_t)below(n, 2) * (uint32_t)below(n, 60),
		.changed = (uint32_t)below(n, 2) * (uint32_t)below(n, 60),
		.deep = large ? 1000 : (uint32_t)below(n, 60),
		.bad_copies = below(n, 2),
	};
	n->sources = 1 + (uint32_t)below(n, NETWORK_SOURCES);
	for (uint32_t i = 0; i < n->sources; i++) {
		choose_source(n, &n->source[i], large);
		if (weft_sim_at(sim, &n->source[i].event, 1 + below(n, 1000)))
			abort();
	}
}
