/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Packets of verbs: each once and in order, whatever cables do; what their ring holds; nodes that are given up. */
#include <string.h>

#include "cards.h"
#include "cmocka_all.h"
#include "wire/ape/verbs.h"

#define PACKETS 2000u

static struct cards cards;
static struct {
	uint32_t written, came, wrong;
	uint64_t put_events;
	enum weft_ape_status last;
} seen;

static const struct weft_ape_coord here = {{0, 0, 0}}, there = {{1, 1, 0}};

static void on_event(struct cards *c, uint32_t node, unsigned int process,
		     const struct weft_ape_event *e)
{
	seen.put_events++;
	seen.last = e->status;
}

static uint16_t bytes_of(uint32_t number)
{
	return 4 + number * 37 % (WEFT_APE_PAYLOAD_BYTES - 3);
}

static void fill(uint8_t *at, uint32_t number)
{
	for (uint32_t i = 0; i < bytes_of(number); i++)
		at[i] = number * 7 + i * 13 + i / 256;
	memcpy(at, &number, sizeof(number));
}

static void arrived(struct cards *c, uint32_t node, struct weft_ape_coord from,
		    const uint8_t *payload, uint32_t bytes)
{
	static uint8_t wanted[WEFT_APE_PAYLOAD_BYTES];
	uint32_t number;

	memcpy(&number, payload, sizeof(number));
	fill(wanted, number);
	if (number != seen.came || bytes != bytes_of(number) || memcmp(payload, wanted, bytes) ||
	    memcmp(&from, &here, sizeof(from)))
		seen.wrong++;
	seen.came = number + 1;
}

static void begin(uint64_t seed)
{
	struct weft_ape_ni_config config = cards_config(3, 2, 1);

	memset(&seen, 0, sizeof(seen));
	cards.verbs = arrived;
	cards_begin_with(&cards, &config, seed, on_event);
	for (uint32_t n = 0; n < cards.torus.count; n++)
		assert_int_equal(card_register_all(&cards, n, 0), 0);
	weft_sim_run(&cards.torus.sim, 10000);
}

static void run(uint64_t ns)
{
	weft_sim_run(&cards.torus.sim, cards.torus.sim.now_ns + ns);
}

/* Writes packets, as many as there is room for. */
static void write_packets(uint32_t most)
{
	struct weft_ape_ni *c = &cards.card[0].card;

	while (seen.written < most) {
		uint8_t *at = weft_ape_verbs_room(c, there);

		if (!at)
			break;
		fill(at, seen.written);
		weft_ape_verbs_put(c, there, bytes_of(seen.written), WEFT_APE_VERBS_REQUEST,
				   cards.torus.sim.now_ns);
		seen.written++;
	}
	torus_wake(&cards.torus.node[0]);
}

static void write_all(void)
{
	struct weft_ape_ni *c = &cards.card[0].card;
	uint64_t end_ns = cards.torus.sim.now_ns + 100000000;

	write_packets(PACKETS);
	while (seen.came < PACKETS && cards.torus.sim.now_ns < end_ns) {
		run(1000);
		if (!c->verbs_room)
			continue;
		c->verbs_room = false;
		write_packets(PACKETS);
	}
	assert_int_equal(seen.came, PACKETS);
	assert_int_equal(seen.wrong, 0);
}

static void test_in_order(void **state)
{
	begin(1);
	write_all();
	assert_int_equal(cards.card[0].card.peer[4].flow[WEFT_APE_REQUESTS].again, 0);
	cards_end(&cards);
}

static void test_damaged(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		begin(seed);
		for (uint32_t n = 0; n < cards.torus.count; n++)
			for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
				cards.torus.node[n].out[i].flips = 200;
				cards.torus.node[n].out[i].losses = 200;
				cards.torus.node[n].out[i].doubles = 200;
			}
		write_all();
		assert_true(cards.card[0].card.peer[4].flow[WEFT_APE_REQUESTS].again > 0);
		cards_end(&cards);
	}
}

/* What waits for the flow is bounded. */
static void test_ahead(void **state)
{
	struct weft_ape_ni *c;

	begin(1);
	c = &cards.card[0].card;
	assert_null(weft_ape_verbs_room(c, (struct weft_ape_coord){{3, 0, 0}}));
	weft_ape_node_down(&c->node, 0);
	cards.torus.node[0].out[0].cut = true;
	write_packets(PACKETS);
	assert_int_equal(seen.written, WEFT_APE_VERBS_AHEAD);
	assert_null(weft_ape_verbs_room(c, there));
	assert_non_null(weft_ape_verbs_room(c, (struct weft_ape_coord){{0, 1, 0}}));
	assert_false(c->verbs_room);
	cards.torus.node[0].out[0].cut = false;
	write_all();
	cards_end(&cards);
}

/* The ring is bounded, too: nothing that is not acknowledged leaves it. When it has room again, that is told. */
static void test_room(void **state)
{
	begin(1);
	write_packets(1);
	run(20000);
	assert_int_equal(seen.came, 1);
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		cards.torus.node[4].out[i].cut = true;
	for (unsigned int i = 0; i < 400; i++) {
		write_packets(PACKETS);
		run(1000);
	}
	assert_int_equal(seen.written, 1 + WEFT_APE_VERBS_RING);
	assert_false(cards.card[0].card.verbs_room);
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		cards.torus.node[4].out[i].cut = false;
	write_all();
	cards_end(&cards);
}

/* One queue pair finds no room; another finds some before most of it is free, and wants no more. The first is told
 * all the same. */
static void test_room_is_told(void **state)
{
	struct weft_ape_ni *c;

	begin(1);
	c = &cards.card[0].card;
	write_packets(PACKETS);
	assert_int_equal(seen.written, WEFT_APE_VERBS_AHEAD);
	for (unsigned int i = 0; i < 10000 && !weft_ape_verbs_room(c, there); i++)
		run(100);
	assert_non_null(weft_ape_verbs_room(c, there));
	assert_false(c->verbs_room);
	run(1000000);
	assert_true(c->verbs_room);
	write_all();
	cards_end(&cards);
}

/* Packets on their way to a node that no longer answers are lost; those that are written when it answers again arrive. */
static void test_given_up(void **state)
{
	struct weft_ape_ni *c;

	begin(1);
	c = &cards.card[0].card;
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		cards.torus.node[0].out[i].cut = true;
	write_packets(PACKETS);
	run(5000000);
	assert_int_equal(seen.came, 0);
	assert_true(c->verbs_room);
	assert_int_equal(c->verbs_waiting, 0);
	c->verbs_room = false;
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		cards.torus.node[0].out[i].cut = false;
	run(200000);
	seen.came = seen.written;
	write_all();
	cards_end(&cards);
}

/* A card in a new life gets none of the packets from before; packets that its peer writes afterwards arrive. */
static void test_new_life(void **state)
{
	begin(1);
	write_packets(PACKETS);
	run(2000);
	card_restart(&cards, 4);
	run(3000000);
	assert_int_equal(seen.wrong, 0);
	seen.came = seen.written;
	cards.card[0].card.verbs_room = false;
	write_all();
	cards_end(&cards);
}

/* PUTs and packets of verbs to one node take turns. */
static void test_beside_puts(void **state)
{
	struct weft_ape_descriptor d = {.opcode = WEFT_APE_OP_PUT, .to = there, .bytes = 60000};

	begin(1);
	d.local = card_source(&cards, 0, 0, d.bytes);
	d.remote = card_room(&cards, 4, 0, d.bytes);
	write_packets(WEFT_APE_VERBS_RING);
	assert_true(card_post(&cards, 0, 0, &d));
	while (!seen.put_events && seen.came < PACKETS) {
		run(1000);
		write_packets(PACKETS);
	}
	/* 15 packets of the PUT: not behind all that the ring ever had */
	assert_int_equal(seen.put_events, 1);
	assert_int_equal(seen.last, WEFT_APE_OK);
	assert_true(seen.came < 15 + WEFT_APE_VERBS_RING);
	write_all();
	cards_end(&cards);
}

/* ---- Acknowledgements that wait for a request ---- */

#define LATE_NS 100000u
#define SOON_NS 5000u

static uint32_t heard[2]; /* by the node at `here`, and the one there */

static void count_packet(struct cards *c, uint32_t node, struct weft_ape_coord from,
			 const uint8_t *payload, uint32_t bytes)
{
	heard[node != 0]++;
}

static uint8_t *room_for(bool is_there)
{
	return weft_ape_verbs_room(&cards.card[is_there ? 4 : 0].card, is_there ? here : there);
}

static void put(bool is_there, enum weft_ape_verbs_kind kind)
{
	memset(room_for(is_there), 0, 64);
	weft_ape_verbs_put(&cards.card[is_there ? 4 : 0].card, is_there ? here : there, 64, kind,
			   cards.torus.sim.now_ns);
	torus_wake(&cards.torus.node[is_there ? 4 : 0]);
}

/* From `here` a request comes, of which the node there says what; how many packets have come back soon. */
static uint32_t soon_behind(enum weft_ape_verbs_kind kind)
{
	uint32_t before = heard[0];

	put(false, WEFT_APE_VERBS_REQUEST);
	run(SOON_NS);
	put(true, kind);
	run(SOON_NS);
	return heard[0] - before;
}

/* Requests come soon behind those that came: the node answers. */
static void answer(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		assert_int_equal(soon_behind(WEFT_APE_VERBS_REQUEST), 1);
	heard[0] = 1;
}

static void begin_late(void)
{
	struct weft_ape_ni_config config = cards_config(3, 2, 1);

	memset(heard, 0, sizeof(heard));
	config.times = (struct weft_ape_flow_times){.again_ns = 1000000,
						    .give_up_ns = 20000000,
						    .late_ns = LATE_NS,
						    .soon_ns = LATE_NS};
	cards.verbs = count_packet;
	cards_begin_with(&cards, &config, 1, on_event);
	run(10000);
	answer(WEFT_APE_LATE_FIRST);
}

/* One that waits goes in front of the next request, or by itself when none comes; then none waits until twice as many requests
 * in a row were answered. */
static void test_acks_go_with_requests(void **state)
{
	begin_late();
	assert_int_equal(soon_behind(WEFT_APE_VERBS_ACK), 0);
	run(LATE_NS / 2);
	assert_int_equal(heard[0], 1);
	put(true, WEFT_APE_VERBS_REQUEST);
	run(SOON_NS);
	assert_int_equal(heard[0], 3);
	assert_int_equal(soon_behind(WEFT_APE_VERBS_ACK), 0);
	run(LATE_NS + SOON_NS);
	assert_int_equal(heard[0], 4);
	answer(2 * WEFT_APE_LATE_FIRST - 1);
	assert_int_equal(soon_behind(WEFT_APE_VERBS_ACK), 1);
	answer(1);
	assert_int_equal(soon_behind(WEFT_APE_VERBS_ACK), 0);
	cards_end(&cards);
}

/* A response is waited for, and is no sign that requests come. */
static void test_responses_do_not_wait(void **state)
{
	begin_late();
	assert_int_equal(soon_behind(WEFT_APE_VERBS_RESPONSE), 1);
	run(LATE_NS);
	put(true, WEFT_APE_VERBS_REQUEST);
	run(SOON_NS);
	assert_int_equal(soon_behind(WEFT_APE_VERBS_RESPONSE), 1);
	assert_int_equal(soon_behind(WEFT_APE_VERBS_ACK), 1);
	cards_end(&cards);
}

/* A ring that is full of them lets them go. */
static void test_acks_make_room(void **state)
{
	begin_late();
	assert_int_equal(soon_behind(WEFT_APE_VERBS_ACK), 0);
	for (unsigned int i = 1; i < WEFT_APE_VERBS_AHEAD; i++)
		put(true, WEFT_APE_VERBS_ACK);
	assert_int_equal(heard[0], 1);
	assert_null(room_for(true));
	run(LATE_NS / 2);
	assert_int_equal(heard[0], 1 + WEFT_APE_VERBS_AHEAD);
	cards_end(&cards);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_room_is_told),
		cmocka_unit_test(test_new_life),
		cmocka_unit_test(test_beside_puts),
		cmocka_unit_test(test_acks_go_with_requests),
		cmocka_unit_test(test_responses_do_not_wait),
		cmocka_unit_test(test_acks_make_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
