/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Programs that leave, buffers that are withdrawn, and cables that take no beat for a while: what a
 * live card asks of the engine. */
#include <string.h>

#include "cmocka_all.h"
#include "cards.h"

#define EVENTS 64u
#define LONG   60000u

static struct cards cards;
static struct weft_ape_event event[EVENTS];
static unsigned int events;

static void on_event(struct cards *c, uint32_t node, unsigned int process,
		     const struct weft_ape_event *e)
{
	event[events++ % EVENTS] = *e;
}

static void begin(void)
{
	struct weft_ape_ni_config config = cards_config(2, 1, 1);

	events = 0;
	cards_begin_registered(&cards, &config, on_event);
}

static void run(uint64_t ns)
{
	weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + ns);
}

static struct weft_ape_descriptor descriptor(enum weft_ape_opcode opcode, uint64_t bytes)
{
	bool get = opcode == WEFT_APE_OP_GET;
	struct weft_ape_descriptor d = {
		.opcode = opcode, .channel = 1, .to = {{1, 0, 0}}, .bytes = bytes, .tag = opcode};

	d.local = get ? card_room(&cards, 0, 0, bytes) : card_source(&cards, 0, 0, bytes);
	d.remote = get ? card_source(&cards, 1, 1, bytes) : card_room(&cards, 1, 1, bytes);
	if (opcode == WEFT_APE_OP_SEND)
		d.remote = 0;
	return d;
}

static void test_numbers_of_buffers(void **state)
{
	struct weft_ape_ni *c;

	begin();
	c = &cards.card[0].card;
	assert_true(weft_ape_ni_register_at(c, 2, 5, WEFT_APE_MAY_PUT, 0, 10, 0));
	assert_false(weft_ape_ni_register_at(c, 2, 5, WEFT_APE_MAY_PUT, 0, 10, 0));
	assert_false(weft_ape_ni_register_at(c, 2, 6, 0, 0, 10, 0));
	assert_false(weft_ape_ni_register_at(c, 2, 6, WEFT_APE_MAY_PUT, 1ull << 48, 1, 0));
	assert_true(weft_ape_ni_withdraw(c, 2, 5));
	assert_false(weft_ape_ni_withdraw(c, 2, 5));
	assert_true(weft_ape_ni_register_at(c, 2, 5, WEFT_APE_MAY_PUT, 0, 10, 0));
	cards_end(&cards);
}

/* A SEND of which half has come loses its receive; the whole of it goes into the next one. */
static void test_withdrawn_in_the_middle(void **state)
{
	struct weft_ape_descriptor d;
	uint8_t before[LONG];
	struct weft_ape_ni *there;
	uint64_t first, second;

	begin();
	there = &cards.card[1].card;
	d = descriptor(WEFT_APE_OP_SEND, LONG);
	first = card_room(&cards, 1, 1, LONG);
	second = card_room(&cards, 1, 1, LONG);
	assert_true(weft_ape_ni_register_at(there, 1, 9, WEFT_APE_RECEIVES, first, LONG, 7));
	assert_true(card_post(&cards, 0, 0, &d));
	while (there->counters.send_bytes < LONG / 2)
		run(100);
	assert_false(weft_ape_ni_unregister(there, 1, 9));
	assert_true(weft_ape_ni_withdraw(there, 1, 9));
	memcpy(before, card_bytes(&cards, 1, 1, first), LONG);
	assert_true(weft_ape_ni_register_at(there, 1, 9, WEFT_APE_RECEIVES, second, LONG, 8));
	run(CARD_PATIENCE_NS);
	assert_int_equal(events, 2);
	assert_memory_equal(card_bytes(&cards, 1, 1, first), before, LONG);
	assert_int_equal(*card_bytes(&cards, 1, 1, first + LONG - 1), CARD_EMPTY);
	assert_memory_equal(card_bytes(&cards, 1, 1, second), card_bytes(&cards, 0, 0, d.local),
			    LONG);
	for (unsigned int i = 0; i < events; i++)
		assert_int_equal(event[i].tag, event[i].kind == WEFT_APE_RECEIVED ? 8 : d.tag);
	cards_end(&cards);
}

/* A process leaves: all that it has posted ends, by an event each; nothing comes to it, and the flow goes on. */
static void test_leaves(void **state)
{
	struct weft_ape_descriptor put, get, send;
	struct weft_ape_ni *here;

	begin();
	here = &cards.card[0].card;
	put = descriptor(WEFT_APE_OP_PUT, LONG);
	get = descriptor(WEFT_APE_OP_GET, LONG);
	send = descriptor(WEFT_APE_OP_SEND, 100);
	assert_true(card_post(&cards, 0, 0, &put));
	assert_true(card_post(&cards, 0, 0, &get));
	assert_true(card_post(&cards, 0, 0, &send));
	assert_true(card_post(&cards, 0, 0, &send));
	run(15000);
	assert_false(weft_ape_ni_is_quiet(here, 0));
	weft_ape_ni_leave(here, 0);
	run(2000000);
	assert_true(weft_ape_ni_is_quiet(here, 0));
	assert_int_equal(events, 3); /* what had not begun is forgotten */
	for (unsigned int i = 0; i < events; i++)
		assert_int_equal(event[i].status, WEFT_APE_LOCAL_FAULT);
	/* another process of the node can still send, and nothing reaches the one that left */
	events = 0;
	put = descriptor(WEFT_APE_OP_PUT, 100);
	card_source(&cards, 0, 1, put.local - CARD_BASE - CARD_SOURCES + 100);
	assert_true(card_post(&cards, 0, 1, &put));
	run(1000000);
	assert_int_equal(events, 1);
	assert_int_equal(event[0].status, WEFT_APE_OK);
	put = (struct weft_ape_descriptor){.opcode = WEFT_APE_OP_PUT,
					   .bytes = 8,
					   .local = CARD_BASE + CARD_SOURCES,
					   .remote = CARD_BASE};
	card_source(&cards, 1, 1, 8);
	assert_true(card_post(&cards, 1, 1, &put));
	run(1000000);
	assert_int_equal(events, 2);
	assert_int_equal(event[1].status, WEFT_APE_REMOTE_RANGE);
	cards_end(&cards);
}

/* No beat goes onto a cable that is full, and none is missing afterwards. */
static void test_full_cable(void **state)
{
	struct weft_ape_descriptor d;
	struct weft_ape_node *n;
	uint64_t sent = 0;

	begin();
	n = &cards.card[0].card.node;
	d = descriptor(WEFT_APE_OP_PUT, LONG);
	assert_true(card_post(&cards, 0, 0, &d));
	for (unsigned int i = 0; i < 20; i++) {
		n->full = i % 2 ? 0x3f : 0;
		for (unsigned int k = 0; k < WEFT_APE_KINDS; k++)
			sent += n->full ? n->tx[0].beats[k] : 0;
		run(1000);
		for (unsigned int k = 0; k < WEFT_APE_KINDS; k++)
			sent -= n->full ? n->tx[0].beats[k] : 0;
		assert_int_equal(sent, 0);
	}
	assert_int_equal(events, 0);
	n->full = 0;
	torus_wake(&cards.torus.node[0]);
	run(1000000);
	assert_int_equal(events, 1);
	assert_int_equal(event[0].status, WEFT_APE_OK);
	assert_memory_equal(card_bytes(&cards, 1, 1, d.remote), card_bytes(&cards, 0, 0, d.local),
			    LONG);
	assert_int_equal(cards.card[0].card.peer[1].flow[WEFT_APE_REQUESTS].again, 0);
	cards_end(&cards);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_of_buffers),
		cmocka_unit_test(test_withdrawn_in_the_middle),
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_full_cable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
