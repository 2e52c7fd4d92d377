/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The network interface: what descriptors are refused, what PUT, GET and SEND do to each byte, and
 * what becomes of them when any word is lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"
#include "cards.h"
#include "wire/ape/regs.h"
#include "wire/ape/secded.h"

#define EVENTS 4096u

static struct cards cards;
static struct weft_ape_event event[EVENTS];
static unsigned int events, wanted, copies, beats;
static uint32_t event_node[EVENTS];
static uint64_t event_ns[EVENTS];

static void on_event(struct cards *c, uint32_t node, unsigned int process,
		     const struct weft_ape_event *e)
{
	event_node[events % EVENTS] = node;
	event_ns[events % EVENTS] = c->torus.sim.now_ns;
	event[events++ % EVENTS] = *e;
}

static void begin_with(const struct weft_ape_ni_config *config)
{
	events = 0;
	cards_begin_registered(&cards, config, on_event);
}

static void begin(unsigned int x, unsigned int y, unsigned int z)
{
	struct weft_ape_ni_config config = cards_config(x, y, z);

	begin_with(&config);
}

/* Returns when so many events have come. */
static void await(unsigned int count)
{
	uint64_t until = cards.torus.sim.now_ns + 50000000;

	while (events < count && weft_sim_step(&cards.torus.sim, until))
		;
	assert_int_equal(events, count);
}

static struct weft_ape_descriptor descriptor(enum weft_ape_opcode opcode, uint32_t from,
					     uint32_t to, uint64_t bytes)
{
	bool get = opcode == WEFT_APE_OP_GET;
	struct weft_ape_descriptor d = {
		.opcode = opcode,
		.channel = 1,
		.to = weft_ape_lattice_coord(&cards.torus.config.lattice, to),
		.bytes = bytes,
		.tag = bytes + 1000,
	};

	d.local = get ? card_room(&cards, from, 0, bytes) : card_source(&cards, from, 0, bytes);
	if (opcode != WEFT_APE_OP_SEND)
		d.remote =
			get ? card_source(&cards, to, 1, bytes) : card_room(&cards, to, 1, bytes);
	return d;
}

static void assert_moved(const struct weft_ape_descriptor *d, uint32_t from, uint32_t to)
{
	bool get = d->opcode == WEFT_APE_OP_GET;
	uint8_t *here = card_bytes(&cards, from, 0, d->local);
	uint8_t *there = card_bytes(&cards, to, 1, d->remote);
	uint8_t *target = get ? here : there;

	assert_memory_equal(here, there, d->bytes);
	assert_int_equal(target[-1], CARD_EMPTY);
	assert_int_equal(target[d->bytes], CARD_EMPTY);
}

/* ---- Descriptors ---- */

static void test_bad_descriptors(void **state)
{
	static const struct {
		enum weft_ape_status status;
		struct weft_ape_descriptor d;
	} bad[] = {
		{WEFT_APE_BAD_OPCODE, {.opcode = WEFT_APE_OPS}},
		{WEFT_APE_BAD_OPCODE, {.opcode = 255}},
		{WEFT_APE_BAD_FLAGS, {.flags = 1}},
		{WEFT_APE_BAD_NODE, {.to = {{2, 0, 0}}}},
		{WEFT_APE_BAD_NODE, {.to = {{0, 1, 0}}}},
		{WEFT_APE_BAD_NODE, {.to = {{0, 0, 1}}}},
		{WEFT_APE_BAD_CHANNEL, {.channel = WEFT_APE_PROCESSES}},
		{WEFT_APE_BAD_LENGTH, {.bytes = WEFT_APE_MESSAGE_BYTES + 1}},
		{WEFT_APE_BAD_LENGTH, {.bytes = UINT64_MAX}},
		{WEFT_APE_BAD_REMOTE, {.remote = 1ull << 48}},
		{WEFT_APE_BAD_REMOTE, {.remote = (1ull << 48) - 8, .bytes = 9}},
		{WEFT_APE_BAD_REMOTE, {.opcode = WEFT_APE_OP_GET, .remote = UINT64_MAX}},
		{WEFT_APE_BAD_LOCAL, {.local = UINT64_MAX - 7, .bytes = 9}},
	};
	uint64_t before;

	begin(2, 1, 1);
	before = cards.card[0].card.node.router.passed[0];
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct weft_ape_descriptor d = bad[i].d;

		d.tag = i;
		assert_true(card_post(&cards, 0, 3, &d));
		assert_int_equal(events, i + 1);
		assert_int_equal(event[i].status, bad[i].status);
		assert_int_equal(event[i].tag, i);
		assert_true(strlen(weft_ape_status_str(bad[i].status)) > 5);
	}
	weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + 100000);
	assert_int_equal(cards.card[0].card.node.router.passed[0], before);
	assert_int_equal(cards.card[0].card.process[3].waiting, 0);
	cards_end(&cards);
}

/* A descriptor as bytes of a ring; each byte that must be zero is tried as another value. */
static void test_descriptor_bytes(void **state)
{
	uint8_t bytes[WEFT_APE_DESCRIPTOR_BYTES] = {1, 0, 0x34, 0x12, 0x42, 0x08};
	struct weft_ape_descriptor d;

	bytes[8 + 3] = 0x80;
	bytes[16] = 0x11;
	bytes[31] = 0x22;
	bytes[32 + 7] = 0x33;
	weft_ape_descriptor_load(bytes, &d);
	assert_int_equal(d.opcode, WEFT_APE_OP_GET);
	assert_int_equal(d.channel, 0x1234);
	assert_int_equal(d.to.at[0], 2);
	assert_int_equal(d.to.at[1], 1);
	assert_int_equal(d.to.at[2], 1);
	assert_int_equal(d.bytes, 0x80000000);
	assert_int_equal(d.local, 0x11);
	assert_int_equal(d.remote, 0x22ull << 56);
	assert_int_equal(d.tag, 0x33ull << 56);
	assert_int_equal(d.flags, 0);
	for (unsigned int i = 0; i < WEFT_APE_DESCRIPTOR_BYTES; i++) {
		if (i != 1 && i != 6 && i != 7 && i < 40)
			continue;
		bytes[i] = 1;
		weft_ape_descriptor_load(bytes, &d);
		assert_int_not_equal(d.flags, 0);
		bytes[i] = 0;
	}
}

/* A card that has as many peers as it can, a ring that is full, and no buffer left. */
static void test_full(void **state)
{
	struct weft_ape_ni_config config = cards_config(9, 8, 1);
	unsigned int refused = 0;

	begin_with(&config);
	for (uint32_t to = 0; to < 72; to++) {
		struct weft_ape_descriptor d = {
			.to = weft_ape_lattice_coord(&config.node.lattice, to),
			.tag = to,
			.remote = CARD_BASE,
			.bytes = 0};
		bool taken = weft_ape_ni_post(&cards.card[0].card, to % 8, &d, 1);

		assert_true(taken);
	}
	while (refused < events && event[refused].status == WEFT_APE_NO_PEER)
		refused++;
	assert_int_equal(refused, 72 - WEFT_APE_PEERS);
	for (unsigned int i = 0; i < 20; i++) {
		struct weft_ape_descriptor d = {.remote = CARD_BASE};

		assert_int_equal(weft_ape_ni_post(&cards.card[1].card, 0, &d, 1),
				 i < WEFT_APE_POSTED);
	}
	assert_false(weft_ape_ni_unregister(&cards.card[1].card, 0, 5));
	assert_int_equal(weft_ape_ni_register(&cards.card[1].card, 0, 0, 0, 1, 0), -1);
	assert_int_equal(weft_ape_ni_register(&cards.card[1].card, 0, 1, 1ull << 47, 1ull << 48, 0),
			 -1);
	for (unsigned int i = 1; i < WEFT_APE_BUFFERS; i++)
		assert_int_equal(weft_ape_ni_register(&cards.card[1].card, 0, 1, 0, 1, 0), i);
	assert_int_equal(weft_ape_ni_register(&cards.card[1].card, 0, 1, 0, 1, 0), -1);
	cards_end(&cards);
}

/* ---- Bytes ---- */

static void test_sizes(void **state)
{
	static const unsigned int sizes[] = {0,	   1,	 8,    15,   16,    17,
					     4095, 4096, 4097, 8192, 10001, 40000};
	unsigned int count = 0;

	for (unsigned int kind = 0; kind < 9; kind++) {
		struct weft_ape_ni_config config = cards_config(3, 2, 1);
		uint32_t to = kind % 2 ? 0 : 5;

		config.engines = 1 + kind % 8;
		config.node.locals = 1 + kind % 3;
		config.node.link.quads = 1u << kind % 3;
		begin_with(&config);
		count = 0;
		for (unsigned int i = 0; i < 12; i++) {
			struct weft_ape_descriptor put =
				descriptor(WEFT_APE_OP_PUT, 0, to, sizes[i]);
			struct weft_ape_descriptor get =
				descriptor(WEFT_APE_OP_GET, 0, to, sizes[i]);
			struct weft_ape_descriptor send =
				descriptor(WEFT_APE_OP_SEND, 0, to, sizes[i]);

			card_receive(&cards, to, 1, sizes[i]);
			assert_true(card_post(&cards, 0, 0, &put) &&
				    card_post(&cards, 0, 0, &get) &&
				    card_post(&cards, 0, 0, &send));
			await(count += 4);
			assert_moved(&put, 0, to);
			assert_moved(&get, 0, to);
			for (unsigned int k = count - 4; k < count; k++) {
				assert_int_equal(event[k].status, WEFT_APE_OK);
				assert_int_equal(event[k].bytes, sizes[i]);
				if (event[k].kind != WEFT_APE_RECEIVED)
					continue;
				send.remote = event[k].tag;
				assert_int_equal(event_node[k], to);
			}
			assert_moved(&send, 0, to);
		}
		cards_end(&cards);
	}
}

/* When the counter grows, the bytes that it counts are there, one hop and three hops away. */
static const uint8_t *litmus_at;
static uint8_t litmus_bytes;
static uint64_t litmus_seen;

static void on_count(struct cards *c, uint32_t node)
{
	for (unsigned int i = 0; i < 24; i++)
		litmus_seen += litmus_at[i] == litmus_bytes;
}

static void test_counter_is_last(void **state)
{
	struct weft_ape_ni *c;

	begin(4, 4, 1);
	cards.counted = on_count;
	for (unsigned int round = 0; round < 10000; round++) {
		uint32_t to = round % 2 ? 1 : 6;
		uint64_t at = CARD_BASE + 64;
		struct weft_ape_descriptor d = {
			.opcode = WEFT_APE_OP_PUT,
			.channel = 1,
			.to = weft_ape_lattice_coord(&cards.torus.config.lattice, to),
			.bytes = 24,
			.local = CARD_BASE + CARD_SOURCES,
			.remote = at,
		};
		uint64_t count;

		c = &cards.card[to].card;
		count = c->process[1].buffer[0].count;
		litmus_bytes = round + 1;
		litmus_at = card_bytes(&cards, to, 1, at);
		memset(card_bytes(&cards, 0, 0, d.local), litmus_bytes, 24);
		assert_true(card_post(&cards, 0, 0, &d));
		while (c->process[1].buffer[0].count == count)
			assert_true(weft_sim_step(&cards.torus.sim, UINT64_MAX));
		assert_int_equal(litmus_seen, 24 * (round + 1));
		await(events + 1);
		events = 0;
	}
	assert_int_equal(cards.card[1].puts + cards.card[6].puts, 10000);
	cards.counted = NULL;
	cards_end(&cards);
}

/* ---- Refusals ---- */

static enum weft_ape_status outcome(const struct weft_ape_descriptor *d)
{
	unsigned int before = events;

	assert_true(card_post(&cards, 0, 0, d));
	await(before + 1);
	return event[before].status;
}

static void test_refusals(void **state)
{
	struct weft_ape_descriptor d;

	begin(2, 1, 1);
	for (unsigned int op = 0; op < 2; op++) {
		d = descriptor(op, 0, 1, 10000);
		d.remote = CARD_BASE + CARD_BYTES - 9999;
		assert_int_equal(outcome(&d), WEFT_APE_REMOTE_RANGE);
		d.channel = 5;
		assert_int_equal(outcome(&d), WEFT_APE_REMOTE_RANGE);
		d = descriptor(op, 0, 1, 10000);
		assert_int_equal(outcome(&d), WEFT_APE_OK);
		cards.card[1].faulty = true;
		assert_int_equal(outcome(&d), WEFT_APE_REMOTE_FAULT);
		cards.card[1].faulty = false;
		cards.card[0].faulty = true;
		assert_int_equal(outcome(&d), WEFT_APE_LOCAL_FAULT);
		cards.card[0].faulty = false;
	}
	/* SEND: there is no receive; then there is one that is too short, and stays. */
	d = descriptor(WEFT_APE_OP_SEND, 0, 1, 10000);
	assert_int_equal(outcome(&d), WEFT_APE_NOT_READY);
	card_receive(&cards, 1, 1, 9999);
	assert_int_equal(outcome(&d), WEFT_APE_TOO_LONG);
	cards.card[1].faulty = true;
	d.bytes = 9999;
	assert_int_equal(outcome(&d), WEFT_APE_REMOTE_FAULT);
	cards.card[1].faulty = false;
	cards.card[0].faulty = true;
	assert_int_equal(outcome(&d), WEFT_APE_LOCAL_FAULT);
	cards.card[0].faulty = false;
	assert_true(card_post(&cards, 0, 0, &d));
	await(events + 2);
	/* A receive that comes in time. */
	events = 0;
	assert_true(card_post(&cards, 0, 0, &d));
	weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + 200000);
	assert_int_equal(events, 0);
	/* Meanwhile another process gets through to the process that does not receive. */
	struct weft_ape_descriptor put = descriptor(WEFT_APE_OP_PUT, 0, 1, 5000);

	assert_true(card_post(&cards, 0, 1, &put));
	card_source(&cards, 0, 1, 5000 + put.local - CARD_BASE - CARD_SOURCES);
	await(1);
	assert_int_equal(event[0].status, WEFT_APE_OK);
	card_receive(&cards, 1, 1, 9999);
	await(3);
	/* The buffer is unregistered: no byte comes in any more. */
	assert_true(weft_ape_ni_unregister(&cards.card[1].card, 1, 0));
	d = descriptor(WEFT_APE_OP_PUT, 0, 1, 100);
	assert_int_equal(outcome(&d), WEFT_APE_REMOTE_RANGE);
	assert_int_equal(*card_bytes(&cards, 1, 1, d.remote), CARD_EMPTY);
	cards_end(&cards);
}

/* ---- Engines ---- */

/* The time at which a PUT of 8 bytes is done that is posted behind a long one of another process. */
static uint64_t short_beside_long(unsigned int engines, uint64_t bytes)
{
	struct weft_ape_ni_config config = cards_config(2, 1, 1);
	struct weft_ape_descriptor big, small;
	uint64_t begun, short_ns = 0;

	config.engines = engines;
	begin_with(&config);
	small = descriptor(WEFT_APE_OP_PUT, 0, 1, 8);
	assert_int_equal(outcome(&small), WEFT_APE_OK);
	events = 0;
	if (bytes) {
		big = descriptor(WEFT_APE_OP_PUT, 0, 1, bytes);
		assert_true(card_post(&cards, 0, 0, &big));
	}
	weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + 20000);
	begun = cards.torus.sim.now_ns;
	/* The other process's memory has the bytes there, too. */
	assert_true(card_post(&cards, 0, 1, &small));
	await(bytes ? 2 : 1);
	for (unsigned int i = 0; i < events; i++)
		if (event[i].bytes == 8)
			short_ns = event_ns[i] - begun;
	cards_end(&cards);
	return short_ns;
}

static void test_engines(void **state)
{
	uint64_t packet_ns = 260 * WORD_NS, alone = short_beside_long(2, 0);
	uint64_t two = short_beside_long(2, 200000), one = short_beside_long(1, 200000);

	printf("# 8 bytes: alone %ju ns, beside 200,000 bytes %ju with two engines, %ju with one\n",
	       (uintmax_t)alone, (uintmax_t)two, (uintmax_t)one);
	assert_true(two <= alone + 3 * packet_ns);
	assert_true(one > 30 * packet_ns);
}

/* ---- Losses ---- */

static unsigned int meddle_nth(struct torus_node *n, unsigned int cable, struct weft_ape_beat *beat)
{
	if (++beats != wanted)
		return 1;
	if (copies == 3) {
		beat->quad[1] ^= 1ull << 17;
		return 1;
	}
	if (copies == 4) {
		beat->quad[0] ^= 5ull << 20;
		return 1;
	}
	return copies;
}

/* A PUT of three packets, a GET, a SEND; every beat that they need is lost, doubled or flipped
 * once. */
static void test_nth_beat(void **state)
{
	unsigned int all = 1;

	for (wanted = 0; wanted <= all; wanted += 1 + (wanted > 40) * 6)
		for (copies = 0; copies < 5; copies++) {
			struct weft_ape_descriptor put, get, send;

			if (copies == 1)
				continue;
			begin(2, 1, 1);
			beats = 0;
			cards.torus.meddle = meddle_nth;
			card_receive(&cards, 1, 1, 700);
			put = descriptor(WEFT_APE_OP_PUT, 0, 1, 8300);
			get = descriptor(WEFT_APE_OP_GET, 0, 1, 500);
			send = descriptor(WEFT_APE_OP_SEND, 0, 1, 700);
			assert_true(card_post(&cards, 0, 0, &put) &&
				    card_post(&cards, 0, 0, &get) &&
				    card_post(&cards, 0, 0, &send));
			await(4);
			assert_moved(&put, 0, 1);
			assert_moved(&get, 0, 1);
			for (unsigned int i = 0; i < 4; i++)
				assert_int_equal(event[i].status, WEFT_APE_OK);
			assert_int_equal(cards.card[1].puts, 1);
			all = wanted ? all : beats;
			cards.torus.meddle = NULL;
			cards_end(&cards);
		}
	printf("# each of the first beats of %u, then every seventh, lost, doubled, flipped\n",
	       all);
}

/* Sequence numbers begin close to their wrap, and windows fill. */
static void test_wrap(void **state)
{
	struct weft_ape_descriptor d;

	begin(2, 1, 1);
	for (unsigned int class = 0; class < WEFT_APE_CLASSES; class ++) {
		struct weft_ape_flow *f[] = {
			&weft_ape_ni_peer(&cards.card[0].card, cards.torus.node[1].config.me)
				 ->flow[class],
			&weft_ape_ni_peer(&cards.card[1].card, cards.torus.node[0].config.me)
				 ->flow[class],
		};

		for (unsigned int i = 0; i < 2; i++)
			f[i]->una = f[i]->next = f[i]->resend = WEFT_APE_SEQ_MASK - 3;
	}
	cards.torus.node[0].out[0].losses = 2000;
	for (unsigned int i = 0; i < 4; i++) {
		for (unsigned int op = 0; op < 2; op++) {
			d = descriptor(op, 0, 1, 30000);
			assert_int_equal(outcome(&d), WEFT_APE_OK);
			assert_moved(&d, 0, 1);
		}
	}
	assert_true(
		weft_ape_ni_peer(&cards.card[0].card, cards.torus.node[1].config.me)->flow[0].next <
		100);
	cards_end(&cards);
}

/* The time that 24 PUTs of 200,000 bytes take if so many beats of a million are lost. */
static uint64_t time_with_losses(unsigned int losses)
{
	struct weft_ape_descriptor d;
	uint64_t begun;
	unsigned int posted = 0;

	begin(2, 1, 1);
	cards.torus.node[0].out[0].losses = losses;
	d = descriptor(WEFT_APE_OP_PUT, 0, 1, 200000);
	begun = cards.torus.sim.now_ns;
	while (events < 80) {
		while (posted < 80 && card_post(&cards, 0, 0, &d))
			posted++;
		assert_true(weft_sim_step(&cards.torus.sim, UINT64_MAX));
	}
	begun = cards.torus.sim.now_ns - begun;
	printf("# %u of a million beats lost: %.3f bytes a word time, %ju packets again of %ju\n",
	       losses, 80 * 200000.0 * WORD_NS / begun,
	       (uintmax_t)weft_ape_ni_peer(&cards.card[0].card, d.to)->flow[0].again,
	       (uintmax_t)weft_ape_ni_peer(&cards.card[0].card, d.to)->flow[0].sent);
	cards_end(&cards);
	return begun;
}

static void test_losses_cost_little(void **state)
{
	/* A packet has 260 beats: one packet in a thousand. */
	uint64_t none = time_with_losses(0), some = time_with_losses(4);

	assert_true(some > none);
	assert_true(some * 10 <= none * 11);
}

/* ---- Lives ---- */

static struct weft_ape_beat recorded[4096];
static unsigned int recorded_count;

static unsigned int record(struct torus_node *n, unsigned int cable, struct weft_ape_beat *beat)
{
	if (n == &cards.torus.node[0] && cable == 0)
		recorded[recorded_count++ % 4096] = *beat;
	return 1;
}

/* Beats that were sent to a card come again: after it has begun a new life, and while it has not. */
static void test_lives(void **state)
{
	struct weft_ape_descriptor d;
	uint8_t *there;

	for (unsigned int anew = 0; anew < 2; anew++) {
		struct weft_ape_ni *c;
		uint64_t packets;

		recorded_count = 0;
		begin(2, 1, 1);
		cards.torus.meddle = record;
		d = descriptor(WEFT_APE_OP_PUT, 0, 1, 3000);
		assert_int_equal(outcome(&d), WEFT_APE_OK);
		cards.torus.meddle = NULL;
		there = card_bytes(&cards, 1, 1, d.remote);
		memset(there, CARD_EMPTY, d.bytes);
		if (anew) {
			card_restart(&cards, 1);
			card_register_all(&cards, 1, 1);
			weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + 200000);
		}
		c = &cards.card[1].card;
		packets = c->counters.packets;
		for (unsigned int i = 0; i < recorded_count; i++) {
			weft_ape_ni_beat(c, 1, &recorded[i], cards.torus.sim.now_ns);
			weft_ape_ni_step(c, cards.torus.sim.now_ns);
		}
		weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + 200000);
		for (unsigned int i = 0; i < d.bytes; i++)
			assert_int_equal(there[i], CARD_EMPTY);
		assert_int_equal(cards.card[1].puts, 1);
		if (anew)
			assert_true(c->counters.bad_life > 0);
		else
			assert_true(c->counters.packets > packets);
		/* And the two cards speak with each other. */
		events = 0;
		d = descriptor(WEFT_APE_OP_PUT, 0, 1, 3000);
		if (outcome(&d) == WEFT_APE_RESTARTED)
			assert_int_equal(outcome(&d), WEFT_APE_OK);
		assert_moved(&d, 0, 1);
		cards_end(&cards);
	}
}

/* The peer is silent: the error comes when it should, and is told for each kind of message. */
static void test_silence(void **state)
{
	for (unsigned int op = 0; op < WEFT_APE_OPS; op++) {
		struct weft_ape_descriptor d;
		uint64_t begun;

		begin(3, 1, 1);
		d = descriptor(op, 0, 1, 100);
		cards.torus.node[1].dead = true;
		begun = cards.torus.sim.now_ns;
		assert_int_equal(outcome(&d), WEFT_APE_UNREACHABLE);
		assert_in_range(event_ns[0] - begun, 2000000, 2200000);
		/* The other nodes still answer. */
		d.to.at[0] = 2;
		if (op != WEFT_APE_OP_SEND)
			assert_int_equal(outcome(&d), WEFT_APE_OK);
		/* A card that dies in mid-traffic, and begins a new life. */
		card_restart(&cards, 1);
		card_register_all(&cards, 1, 1);
		weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + 100000);
		d = descriptor(WEFT_APE_OP_PUT, 0, 1, 90000);
		assert_true(card_post(&cards, 0, 0, &d));
		events = 0;
		weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + 40000);
		card_restart(&cards, 1);
		await(1);
		assert_int_equal(event[0].status, WEFT_APE_RESTARTED);
		cards_end(&cards);
	}
}

static uint64_t times_down(void)
{
	uint64_t times = 0;

	for (uint32_t n = 0; n < cards.torus.count; n++)
		for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
			times += cards.card[n].card.node.went_down[i];
	return times;
}

/* All cards stand still for longer than a cable may be silent, as where programs have all cores: none takes a cable down
 * for that. Of one that stays silent both neighbours do, one later, as it was told that the other end lives. */
static void test_standstill(void **state)
{
	struct weft_sim *sim = &cards.torus.sim;
	struct weft_ape_descriptor d;
	uint64_t silence_ns;

	begin(3, 1, 1);
	silence_ns = cards.config.node.silence_ns;
	weft_sim_run(sim, sim->now_ns + silence_ns);
	for (uint32_t n = 0; n < cards.torus.count; n++)
		assert_int_equal(weft_sim_at(sim, &cards.torus.node[n].tick,
					     sim->now_ns + 10 * silence_ns + 1000ull * n),
				 0);
	weft_sim_run(sim, sim->now_ns + 12 * silence_ns);
	assert_int_equal(times_down(), 0);
	d = descriptor(WEFT_APE_OP_PUT, 0, 1, 3000);
	assert_int_equal(outcome(&d), WEFT_APE_OK);
	cards.torus.node[1].dead = true;
	weft_sim_run(sim, sim->now_ns + silence_ns + silence_ns / 4);
	assert_int_equal(times_down(), 0);
	assert_int_equal(cards.card[0].card.node.doubted, 1u << 0);
	assert_int_equal(cards.card[2].card.node.doubted, 1u << 1);
	weft_ape_node_vouch(&cards.card[0].card.node, 0, sim->now_ns);
	weft_sim_run(sim, sim->now_ns + silence_ns / 2);
	assert_int_equal(times_down(), 1);
	weft_sim_run(sim, sim->now_ns + 2 * silence_ns);
	assert_int_equal(times_down(), 2);
	cards_end(&cards);
}

/* ---- Registers ---- */

static void test_registers(void **state)
{
	struct weft_ape_descriptor d;
	struct weft_ape_ni *c;

	begin(5, 4, 3);
	c = &cards.card[1 + 5 * 2 + 20].card;
	assert_int_equal(weft_ape_reg_read(c, 5), 1);
	assert_int_equal(weft_ape_reg_read(c, 6), 1 | 2 << 6 | 1 << 11);
	assert_int_equal(weft_ape_reg_read(c, 8), 5 | 4 << 8 | 3 << 16);
	assert_int_equal(weft_ape_reg_read(c, 68), 0xff000000);
	assert_int_equal(weft_ape_reg_read(c, 69), 0x01800060);
	assert_int_equal(weft_ape_reg_read(c, 70), 0x0000ff40);
	assert_int_equal(weft_ape_reg_read(c, 152), 0x3f);
	assert_int_equal(weft_ape_reg_read(c, 7), 0);
	/* A value that a card cannot have is refused, and changes nothing. */
	assert_false(weft_ape_reg_write(c, 69, 0xffff0060));
	assert_false(weft_ape_reg_write(c, 69, 0x0180ffff));
	assert_false(weft_ape_reg_write(c, 70, 0x00000740));
	assert_false(weft_ape_reg_write(c, 70, 0x0000ff80));
	assert_false(weft_ape_reg_write(c, 6, 0));
	assert_int_equal(weft_ape_reg_read(c, 69), 0x01800060);
	assert_true(weft_ape_reg_write(c, 69, 0x01400050));
	assert_int_equal(weft_ape_reg_read(c, 69), 0x01400050);
	assert_true(weft_ape_reg_write(c, 70, 0x00008030));
	assert_int_equal(weft_ape_reg_read(c, 70), 0x00008030);
	assert_true(weft_ape_reg_write(c, 204, 300));
	assert_int_equal(weft_ape_reg_read(c, 204), 300);
	assert_false(weft_ape_reg_write(c, 205, 0));
	assert_true(weft_ape_reg_write(c, 205, 4000));
	assert_int_equal(weft_ape_reg_read(c, 205), 4000);
	assert_true(weft_ape_reg_write(c, 68, 0x0f000001));
	assert_int_equal(weft_ape_reg_read(c, 68), 0x0f000001);
	assert_int_equal(weft_ape_reg_read(c, 150), 0);
	/* Damage by register: one flip is corrected, two drop each header, and are counted. */
	for (unsigned int flips = 1; flips < 4; flips++) {
		assert_true(weft_ape_reg_write(&cards.card[0].card, 71,
					       7 | 50 << 7 | 90 << 14 | flips << 21 | 1 << 23));
		d = descriptor(WEFT_APE_OP_PUT, 0, 1, 100);
		assert_int_equal(outcome(&d), flips == 1 ? WEFT_APE_OK : WEFT_APE_UNREACHABLE);
		if (flips > 1)
			assert_int_equal(*card_bytes(&cards, 1, 1, d.remote), CARD_EMPTY);
		assert_true(weft_ape_reg_read(&cards.card[1].card, flips == 1 ? 94 : 99) > 0);
	}
	assert_true(weft_ape_reg_read(&cards.card[0].card, 81) > 0);
	assert_true(weft_ape_reg_read(&cards.card[1].card, 97) > 0);
	cards_end(&cards);
}

/* Hops, channel and *last*, which no footer covers, are not those of the way from the source. */
static unsigned int wrong_way(struct torus_node *n, unsigned int cable, struct weft_ape_beat *beat)
{
	struct weft_ape_word w = {beat->quad[0], beat->quad[1]};
	struct weft_ape_header h;

	if (n != &cards.torus.node[0] || cable || n->torus->node[0].dead ||
	    weft_ape_secded_check(&w) != WEFT_APE_INTACT || !weft_ape_header_parse(w, &h) ||
	    h.to.at[0] != 1 || h.hops != 1 || h.type > WEFT_APE_NOTHING)
		return 1;
	if (copies == 0)
		h.hops = 2;
	else if (copies == 1)
		h.vc = 1;
	else
		h.last = false;
	weft_ape_header_build(&h, &w);
	beat->quad[0] = w.lo;
	beat->quad[1] = w.hi;
	return 1;
}

static void test_wrong_way(void **state)
{
	for (copies = 0; copies < 3; copies++) {
		struct weft_ape_descriptor d;

		begin(4, 1, 1);
		cards.torus.meddle = wrong_way;
		d = descriptor(WEFT_APE_OP_PUT, 0, 1, 100);
		assert_int_equal(outcome(&d), WEFT_APE_UNREACHABLE);
		if (copies < 2)
			assert_true(cards.card[1].card.counters.bad_way > 0);
		else
			assert_true(cards.card[1].card.node.router.dropped[WEFT_APE_DROP_ODD] > 0);
		cards.torus.meddle = NULL;
		cards_end(&cards);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_descriptors),
		cmocka_unit_test(test_descriptor_bytes),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_counter_is_last),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_engines),
		cmocka_unit_test(test_nth_beat),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_losses_cost_little),
		cmocka_unit_test(test_lives),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_standstill),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_wrong_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
