/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Routers in a torus: cut-through to the word, packets that do not mix, what is dropped, and that all else
 * arrives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "cmocka_all.h"
#include "torus.h"

#define DELAY 3u /* words */
#define HOP   (DELAY + 2u)

/* What has come at the nodes. */
static struct torus torus;
static uint64_t whole, came_ns, came_node, came_words, came_local, came_hops, mixed;
static uint64_t came_sum, sent_sum;

struct arriving {
	bool within;
	uint64_t words, wanted, tag;
};
static struct arriving arriving[512][WEFT_APE_LOCALS];

static void deliver(void *owner, unsigned int local, struct weft_ape_word word, bool end)
{
	struct torus_node *n = owner;
	uint32_t index = n - n->torus->node;
	struct arriving *a = &arriving[index][local];
	struct weft_ape_header h;

	if (!a->within) {
		weft_ape_header_parse(word, &h);
		*a = (struct arriving){true, 0, weft_ape_payload_words(h.bytes), h.addr};
		came_hops = h.hops;
	} else if (!end) {
		/* Each word says which packet's it is, and which one of it. */
		mixed += word.lo != a->tag || word.hi != a->words;
		a->words++;
	}
	if (end) {
		mixed += a->words != a->wanted;
		a->within = false;
		whole++;
		came_ns = n->torus->sim.now_ns;
		came_node = index;
		came_local = local;
		came_words = a->words;
		came_sum += a->tag;
	}
}

static void give(uint32_t from, uint32_t to, unsigned int local, unsigned int port,
		 unsigned int words)
{
	static uint64_t tag;
	struct torus_node *n = &torus.node[from];
	struct weft_ape_header h = {
		.to = weft_ape_lattice_coord(&torus.config.lattice, to),
		.port = port,
		.bytes = words * WEFT_APE_WORD_BYTES,
		.addr = ++tag & 0xffffffff,
	};
	uint8_t payload[WEFT_APE_PAYLOAD_BYTES];
	struct weft_ape_word header;

	sent_sum += h.addr;
	assert_true(weft_ape_header_build(&h, &header));
	for (unsigned int i = 0; i < words; i++)
		weft_ape_word_store((struct weft_ape_word){h.addr, i}, payload + 16 * i);
	weft_ape_node_give(&n->node, local, header, payload, words, (struct weft_ape_word){1, 2});
	torus_wake(n);
}

static void begin(const struct weft_ape_node_config *config)
{
	whole = mixed = came_sum = sent_sum = 0;
	memset(arriving, 0, sizeof(arriving));
	torus_begin(&torus, config, DELAY, deliver, 1);
	/* Credits have to come first. */
	weft_sim_run(&torus.sim, 1000 * WORD_NS);
}

static unsigned int distance(const struct weft_ape_lattice *l, uint32_t a, uint32_t b)
{
	struct weft_ape_coord from = weft_ape_lattice_coord(l, a),
			      to = weft_ape_lattice_coord(l, b);
	unsigned int hops = 0;

	for (unsigned int d = 0; d < 3; d++) {
		unsigned int ahead = (to.at[d] + l->size[d] - from.at[d]) % l->size[d];

		hops += ahead < l->size[d] - ahead ? ahead : l->size[d] - ahead;
	}
	return hops;
}

/* A lone packet takes a time for each hop, and its words once. A packet of 256 words has a credit
 * among them, whose two words each cable inserts while the one before does. */
static void test_cut_through(void **state)
{
	struct weft_ape_node_config config = torus_config(5, 4, 3);

	begin(&config);
	for (uint32_t from = 0; from < torus.count; from++)
		for (uint32_t to = 0; to < torus.count; to++)
			for (unsigned int words = 1; words <= 256; words *= 2) {
				unsigned int hops = distance(&config.lattice, from, to);
				uint64_t begun, expected, packets = whole;

				weft_sim_run(&torus.sim, torus.sim.now_ns + 100 * WORD_NS);
				begun = torus.sim.now_ns;
				give(from, to, 0, 0, words);
				while (whole == packets)
					assert_true(weft_sim_step(&torus.sim, UINT64_MAX));
				expected = hops * HOP + words + 1 + (words == 256 && hops ? 2 : 0);
				assert_int_equal((came_ns - begun) / WORD_NS, expected);
				assert_int_equal(came_node, to);
				assert_int_equal(came_words, words);
				assert_int_equal(came_hops, hops);
			}
	assert_int_equal(mixed, 0);
	torus_end(&torus);
}

/* All nodes to all nodes, by several ports, with FIFOs of one packet: all arrive whole, and none is lost. */
static void test_all_to_all(void **state)
{
	static const unsigned int sizes[][3] = {{3, 3, 3}, {5, 4, 1}, {8, 1, 1}, {4, 4, 1}};
	uint64_t seed = 1;

	for (unsigned int i = 0; i < 8; i++) {
		const unsigned int *s = sizes[i % 4];
		struct weft_ape_node_config config = torus_config(s[0], s[1], s[2]);
		unsigned int given[512] = {0}, left;

		config.locals = 1 + i % 3;
		config.fixed = i & 1;
		config.link.quads = 1u << i % 3;
		if (i >= 4) {
			config.data_depth = 16;
			config.header_depth = 2;
			config.link.threshold = (struct weft_ape_counts){16 + 64, 2 + 64};
		}
		begin(&config);
		do {
			left = 0;
			for (uint32_t n = 0; n < torus.count; n++) {
				unsigned int local = given[n] % config.locals;

				left += given[n] < 100;
				if (given[n] >= 100 ||
				    weft_ape_node_waiting(&torus.node[n].node, local) > 1)
					continue;
				give(n, splitmix64(&seed) % torus.count, local,
				     splitmix64(&seed) % config.locals, splitmix64(&seed) % 17);
				given[n]++;
			}
			weft_sim_run(&torus.sim, torus.sim.now_ns + 20 * WORD_NS);
		} while (left);
		weft_sim_run(&torus.sim, torus.sim.now_ns + 20000 * WORD_NS);
		assert_int_equal(whole, torus.count * 100);
		assert_int_equal(came_sum, sent_sum);
		assert_int_equal(mixed, 0);
		for (uint32_t n = 0; n < torus.count; n++)
			for (unsigned int c = 0; c < WEFT_APE_CABLES; c++) {
				const struct weft_ape_rx *rx = &torus.node[n].node.rx[c];

				assert_int_equal(rx->no_room + rx->skipped + rx->cut, 0);
				for (unsigned int vc = 0; vc < WEFT_APE_CHANNELS; vc++)
					assert_true(rx->queue[vc]->data.deepest <=
						    config.link.threshold.data - 64);
			}
		torus_end(&torus);
	}
}

/* Tornado on a ring of eight, FIFOs of a packet: with one channel nothing moves any more. */
static uint64_t tornado(unsigned int channels)
{
	struct weft_ape_node_config config = torus_config(8, 1, 1);
	unsigned int given[8] = {0};

	config.lattice.channels = channels;
	config.data_depth = 16;
	config.header_depth = 2;
	config.link.threshold = (struct weft_ape_counts){16 + 64, 2 + 64};
	begin(&config);
	for (unsigned int t = 0; t < 3000; t++) {
		for (uint32_t n = 0; n < 8; n++)
			if (given[n] < 50 && weft_ape_node_waiting(&torus.node[n].node, 0) < 2) {
				give(n, (n + 3) % 8, 0, 0, 16);
				given[n]++;
			}
		weft_sim_run(&torus.sim, torus.sim.now_ns + 20 * WORD_NS);
	}
	torus_end(&torus);
	return whole;
}

static void test_deadlock_is_real(void **state)
{
	assert_int_equal(tornado(2), 400);
	assert_in_range(tornado(1), 0, 300);
}

/* A packet that cannot go on is taken out and counted. */
static void test_drops(void **state)
{
	struct weft_ape_node_config config = torus_config(4, 1, 1);
	struct weft_ape_router *r;
	struct weft_ape_header h = {.to = {{0, 0, 0}}, .bytes = 32, .hops = 6};
	struct weft_ape_word header;
	uint8_t payload[32] = {0};

	config.locals = 2;
	begin(&config);
	r = &torus.node[0].node.router;
	give(0, 0, 0, 2, 2); /* no such port */
	h.to.at[0] = 4;	     /* no such node */
	weft_ape_header_build(&h, &header);
	weft_ape_node_give(&torus.node[0].node, 0, header, payload, 2, header);
	h.to.at[0] = 2; /* six hops are behind it, the seventh is too many */
	weft_ape_header_build(&h, &header);
	weft_ape_node_give(&torus.node[0].node, 0, header, payload, 2, header);
	weft_sim_run(&torus.sim, torus.sim.now_ns + 1000 * WORD_NS);
	assert_int_equal(r->dropped[WEFT_APE_DROP_NOWHERE], 2);
	assert_int_equal(r->dropped[WEFT_APE_DROP_HOPS], 1);
	assert_int_equal(whole, 0);
	/* A cable that is looped back: the packet comes to the node that sent it, whose router finds *last* wrong. */
	torus.node[0].node.config.loopback = 1;
	give(0, 1, 1, 0, 2);
	weft_sim_run(&torus.sim, torus.sim.now_ns + 1000 * WORD_NS);
	assert_int_equal(r->dropped[WEFT_APE_DROP_ODD], 1);
	/* A packet that waits for a cable that goes down, and one that comes for it later. */
	torus.node[0].node.config.loopback = 0;
	give(0, 1, 0, 0, 256);
	weft_sim_run(&torus.sim, torus.sim.now_ns + 50 * WORD_NS);
	weft_ape_node_down(&torus.node[0].node, 0);
	give(0, 1, 1, 0, 2);
	weft_ape_router_step(r);
	weft_ape_router_step(r);
	assert_int_equal(r->dropped[WEFT_APE_DROP_DOWN], 2);
	assert_int_equal(r->source[WEFT_APE_LOCAL_SOURCE].queue.data.count, 0);
	torus_end(&torus);
}

/* Configurations that no node can have. */
static void test_configs(void **state)
{
	struct weft_ape_node_config good = torus_config(4, 4, 4), c;

	assert_true(weft_ape_node_config_holds(&good));
#define BAD(change)                                                                                \
	do {                                                                                       \
		c = good;                                                                          \
		change;                                                                            \
		assert_false(weft_ape_node_config_holds(&c));                                      \
	} while (0)
	BAD(c.lattice.size[0] = 65);
	BAD(c.lattice.size[1] = 33);
	BAD(c.lattice.size[2] = 33);
	BAD(c.lattice.size[2] = 0);
	BAD(c.lattice.channels = 3);
	BAD(c.me.at[1] = 4);
	BAD(c.link.quads = 3);
	BAD(c.link.cycle = 7);
	BAD(c.locals = 0);
	BAD(c.locals = 9);
	BAD(c.header_depth = 1);
	BAD(c.header_depth = 129);
	BAD(c.data_depth = WEFT_APE_DEPTH_TOLD + 1);
	BAD(c.link.shift = 2; c.data_depth = 4 * WEFT_APE_DEPTH_TOLD + 1);
	BAD(c.link.shift = WEFT_APE_SHIFT_MAX + 1);
	BAD(c.link.quads = 1; c.data_depth = WEFT_APE_DEPTH_NARROW + 1);
	BAD(c.data_depth = 300);
	BAD(c.link.threshold.headers = 193);
	BAD(c.link.margin = 128);
#undef BAD
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_through),	 cmocka_unit_test(test_all_to_all),
		cmocka_unit_test(test_deadlock_is_real), cmocka_unit_test(test_drops),
		cmocka_unit_test(test_configs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
