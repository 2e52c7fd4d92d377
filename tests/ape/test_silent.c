/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Nodes that are silent, and what others of their neighbours wait for meanwhile. */
#include <stdio.h>

#include "cmocka_all.h"
#include "cards.h"

#define EVENTS 64u

static struct cards cards;
static struct weft_ape_event event[EVENTS];
static unsigned int events;

static void on_event(struct cards *c, uint32_t node, unsigned int process,
		     const struct weft_ape_event *e)
{
	event[events++ % EVENTS] = *e;
}

static void begin_with(const struct weft_ape_ni_config *config)
{
	events = 0;
	cards_begin_registered(&cards, config, on_event);
}

/* From process 0 of node 0, into process 1 there. */
static struct weft_ape_descriptor put(uint32_t to, uint64_t bytes)
{
	return (struct weft_ape_descriptor){
		.opcode = WEFT_APE_OP_PUT,
		.channel = 1,
		.to = weft_ape_lattice_coord(&cards.torus.config.lattice, to),
		.bytes = bytes,
		.local = card_source(&cards, 0, 0, bytes),
		.remote = card_room(&cards, to, 1, bytes),
	};
}

/* One that lives and stands still is vouched for again and again; but a packet that finds no room there holds up others, which
 * go on when it is dropped, before they are given up. */
static void test_stands_still_in_the_way(void **state)
{
	struct weft_ape_ni_config config = cards_config(3, 2, 1);
	struct weft_sim *sim = &cards.torus.sim;
	struct weft_ape_descriptor d;
	struct weft_ape_node *n;
	uint64_t until_ns;

	config.engines = 8;
	begin_with(&config);
	n = &cards.card[0].card.node;
	weft_sim_run(sim, sim->now_ns + 100000);
	/* as many packets as find no room at once */
	d = put(1, 90000);
	assert_true(card_post(&cards, 0, 0, &d));
	weft_sim_run(sim, sim->now_ns + 1000);
	cards.torus.node[1].dead = true;
	d = put(3, 3000);
	assert_true(card_post(&cards, 0, 1, &d));
	until_ns = sim->now_ns + 3 * config.node.silence_ns;
	while (sim->now_ns < until_ns && !events) {
		weft_sim_run(sim, sim->now_ns + 1000);
		if (n->doubted & 1)
			weft_ape_node_vouch(n, 0, sim->now_ns);
	}
	assert_int_equal(events, 1);
	assert_int_equal(event[0].status, WEFT_APE_OK);
	assert_int_equal(n->went_down[0], 1);
	cards_end(&cards);
}

/* A program that posts to a silent node again and again holds up another for the time of one repetition, though there are more
 * such messages than engines. */
static void test_silence_holds_up_no_other(void **state)
{
	const struct weft_ape_ni_config config = cards_config(3, 1, 1);
	struct weft_sim *sim = &cards.torus.sim;
	struct weft_ape_descriptor lost, d;
	uint64_t longest_ns = 0, begun_ns;

	begin_with(&config);
	lost = put(1, 64);
	cards.torus.node[1].dead = true;
	for (unsigned int i = 0; i < 6; i++)
		assert_true(card_post(&cards, 0, 1, &lost));
	d = put(2, 64);
	for (begun_ns = sim->now_ns; sim->now_ns - begun_ns < 5000000;) {
		uint64_t posted_ns = sim->now_ns;

		d.tag = 7;
		events = 0;
		assert_true(card_post(&cards, 0, 0, &d));
		for (bool done = false; !done;) {
			assert_true(weft_sim_step(sim, posted_ns + 3000000));
			for (unsigned int i = 0; i < events; i++) {
				done |= event[i].tag == 7;
				if (event[i].tag != 7)
					assert_true(card_post(&cards, 0, 1, &lost));
			}
			events = 0;
		}
		longest_ns =
			sim->now_ns - posted_ns > longest_ns ? sim->now_ns - posted_ns : longest_ns;
	}
	printf("# longest wait beside messages to a silent node: %ju ns\n", (uintmax_t)longest_ns);
	assert_true(longest_ns < 2 * cards.config.times.again_ns);
	cards_end(&cards);
}

/* Nor does one that has posted as many small messages as the card has places, before the node is known to be silent. */
static void test_small_ones_leave_places(void **state)
{
	struct weft_ape_ni_config config = cards_config(3, 1, 1);
	struct weft_sim *sim = &cards.torus.sim;
	struct weft_ape_descriptor lost, d;
	unsigned int posted = 0;

	config.times.again_ns = 1000000;
	begin_with(&config);
	lost = put(1, 64);
	d = put(2, 64);
	d.tag = 7;
	assert_true(card_post(&cards, 0, 1, &lost));
	weft_sim_run(sim, sim->now_ns + 100000);
	assert_int_equal(events, 1);
	events = 0;
	cards.torus.node[1].dead = true;
	for (uint64_t until_ns = sim->now_ns + config.times.again_ns / 2; sim->now_ns < until_ns;
	     weft_sim_run(sim, sim->now_ns + 1000))
		while (card_post(&cards, 0, 1, &lost))
			posted++;
	assert_true(posted >= WEFT_APE_MESSAGES);
	assert_int_equal(__builtin_popcountll(cards.card[0].card.messages), WEFT_APE_SHARE);
	assert_true(card_post(&cards, 0, 0, &d));
	weft_sim_run(sim, sim->now_ns + 100000);
	assert_int_equal(events, 1);
	assert_int_equal(event[0].tag, 7);
	assert_int_equal(event[0].status, WEFT_APE_OK);
	cards_end(&cards);
}

/* SENDs of a process wait for each other: those to a dead node, and what is behind them, are told in hardly more than one patience. */
static void test_patience_counts_from_the_post(void **state)
{
	const struct weft_ape_ni_config config = cards_config(3, 1, 1);
	struct weft_sim *sim = &cards.torus.sim;
	struct weft_ape_descriptor lost, d;
	uint64_t posted_ns;

	begin_with(&config);
	lost = put(1, 64);
	lost.opcode = WEFT_APE_OP_SEND;
	cards.torus.node[1].dead = true;
	posted_ns = sim->now_ns;
	for (unsigned int i = 0; i < 4; i++)
		assert_true(card_post(&cards, 0, 1, &lost));
	d = put(2, 64);
	d.tag = 7;
	assert_true(card_post(&cards, 0, 1, &d));
	while (events < 5)
		assert_true(weft_sim_step(sim, posted_ns + 2 * config.times.give_up_ns));
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(event[i].status, WEFT_APE_UNREACHABLE);
	assert_int_equal(event[4].tag, 7);
	assert_int_equal(event[4].status, WEFT_APE_OK);
	assert_true(sim->now_ns - posted_ns < config.times.give_up_ns / 4 * 5);
	cards_end(&cards);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patience_counts_from_the_post),
		cmocka_unit_test(test_small_ones_leave_places),
		cmocka_unit_test(test_stands_still_in_the_way),
		cmocka_unit_test(test_silence_holds_up_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
