/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Random programs of PUT, GET and SEND on 3 × 3 × 2 nodes, while cables flip, lose and double words
 * and are cut, and nodes are killed and begin anew, against a model: each is done exactly once and
 * in order, or fails where it may; each seed again gives the same bits. SEED= and SEEDS= choose. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"
#include "cards.h"

#define OPS	 40u
#define RECEIVES 4u
#define OPS_MAX	 9000u
#define TRIES	 6u		/* of a packet, until its sender gives up */
#define WAY	 (2u * 2u * 3u) /* there and back, both directions, of as many hops as there can be */

struct op {
	struct weft_ape_descriptor d;
	uint32_t from, to;
	unsigned int process, channel;
	uint64_t order;		   /* among the SENDs of its process */
	bool posted, ended, void_; /* its node was killed */
	enum weft_ape_status status;
	unsigned int received, life;
	uint64_t spoilt; /* words on its way: before it was posted; since, when it has ended */
};

struct game {
	struct cards cards;
	struct op op[OPS];
	unsigned int ops, killed;
	uint64_t
		last_received[64][2][64]
			     [2]; /* the order of the last SEND, by node and process to, and from */
	uint64_t trace;
	bool disturbed[64], cut_any;
	bool cable_disturbed[64][WEFT_APE_CABLES];
};

static struct game game;
static uint64_t last_seed;

static void note(uint64_t value)
{
	game.trace = (game.trace ^ value) * 0x9e3779b97f4a7c15ull;
	game.trace ^= game.trace >> 29;
}

/* ---- Ways ---- */

/* One direction of a cable, by the node that sends. */
struct half {
	uint32_t node;
	unsigned int cable;
};

/* Those on the way there and back, with the other direction of each, by which credits come. Their number. */
static unsigned int list_way(uint32_t from, uint32_t to, struct half way[WAY])
{
	const struct weft_ape_lattice *l = &game.cards.torus.config.lattice;
	unsigned int n = 0;

	for (unsigned int back = 0; back < 2; back++) {
		struct weft_ape_coord at = weft_ape_lattice_coord(l, back ? to : from);
		struct weft_ape_coord end = weft_ape_lattice_coord(l, back ? from : to);
		struct weft_ape_hop hop;

		while (weft_ape_route(l, at, end, WEFT_APE_PORTS, 0, 0x3f, &hop) == WEFT_APE_ON) {
			way[n++] = (struct half){weft_ape_lattice_index(l, at), hop.cable};
			weft_ape_lattice_neighbour(l, at, hop.cable, &at);
			way[n++] = (struct half){weft_ape_lattice_index(l, at), hop.cable ^ 1};
		}
	}
	return n;
}

/* Words that were flipped, lost or doubled on the way until now. */
static uint64_t spoilt_on_way(uint32_t from, uint32_t to)
{
	struct half way[WAY];
	unsigned int halves = list_way(from, to, way);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < halves; i++) {
		const struct weft_sim_cable *c =
			&game.cards.torus.node[way[i].node].out[way[i].cable];

		sum += c->flipped + c->lost + c->doubled;
	}
	return sum;
}

/* ---- Operations ---- */

static void on_event(struct cards *cards, uint32_t node, unsigned int process,
		     const struct weft_ape_event *e)
{
	note(cards->torus.sim.now_ns);
	note(e->tag << 8 | e->status);
	if (e->kind == WEFT_APE_SENT) {
		struct op *op = &game.op[e->tag];

		assert_in_range(e->tag, 0, game.ops);
		assert_true(op->posted && !op->ended && op->from == node && op->process == process);
		op->ended = true;
		op->status = e->status;
		op->spoilt = spoilt_on_way(op->from, op->to) - op->spoilt;
		return;
	}
	/* The first bytes of a SEND say which it is. */
	uint8_t *bytes = card_bytes(cards, node, process, e->tag);
	struct op *op = &game.op[bytes[0] | bytes[1] << 8];
	uint32_t from = weft_ape_lattice_index(&cards->torus.config.lattice, e->from);
	uint64_t *last = &game.last_received[node][process][from][e->channel];

	assert_in_range(bytes[0] | bytes[1] << 8, 0, game.ops - 1);
	assert_int_equal(op->d.opcode, WEFT_APE_OP_SEND);
	assert_int_equal(op->from, from);
	assert_int_equal(op->process, e->channel);
	assert_int_equal(op->to, node);
	assert_int_equal(op->channel, process);
	assert_int_equal(op->received++, 0);
	assert_int_equal(e->bytes, op->d.bytes);
	assert_memory_equal(bytes, card_bytes(cards, from, op->process, op->d.local), op->d.bytes);
	assert_true(op->order > *last);
	*last = op->order;
	card_receive(cards, node, process, OPS_MAX);
}

static void begin_node(uint32_t node)
{
	for (unsigned int process = 0; process < 2; process++) {
		card_register_all(&game.cards, node, process);
		for (unsigned int i = 0; i < RECEIVES; i++)
			card_receive(&game.cards, node, process, OPS_MAX);
	}
}

static uint64_t dice(uint64_t limit)
{
	return weft_sim_below(&game.cards.torus.sim, limit);
}

static void post_one(void)
{
	struct op *op = &game.op[game.ops];
	uint32_t nodes = game.cards.torus.count;
	uint64_t bytes = dice(3) ? dice(200) : dice(OPS_MAX);

	*op = (struct op){.from = dice(nodes),
			  .to = dice(nodes),
			  .process = dice(2),
			  .channel = dice(2),
			  .order = game.ops + 1};
	if (game.cards.torus.node[op->from].dead)
		return;
	op->d = (struct weft_ape_descriptor){
		.opcode = dice(WEFT_APE_OPS),
		.channel = op->channel,
		.to = weft_ape_lattice_coord(&game.cards.torus.config.lattice, op->to),
		.tag = game.ops,
	};
	op->d.bytes = op->d.opcode == WEFT_APE_OP_SEND ? 2 + bytes % (OPS_MAX - 2) : bytes;
	if (op->d.opcode == WEFT_APE_OP_GET) {
		op->d.local = card_room(&game.cards, op->from, op->process, op->d.bytes);
		op->d.remote = card_source(&game.cards, op->to, op->channel, op->d.bytes);
	} else {
		op->d.local = card_source(&game.cards, op->from, op->process, op->d.bytes);
		if (op->d.opcode == WEFT_APE_OP_PUT)
			op->d.remote = card_room(&game.cards, op->to, op->channel, op->d.bytes);
		else
			memcpy(card_bytes(&game.cards, op->from, op->process, op->d.local),
			       (uint8_t[]){game.ops, game.ops >> 8}, 2);
	}
	op->life = game.cards.card[op->from].life;
	op->posted = true;
	op->spoilt = spoilt_on_way(op->from, op->to);
	game.ops++;
	assert_true(card_post(&game.cards, op->from, op->process, &op->d));
}

static void kill_one(void)
{
	uint32_t node = dice(game.cards.torus.count);

	if (game.cards.torus.node[node].dead || game.killed == 2)
		return;
	game.killed++;
	game.cards.torus.node[node].dead = true;
	game.disturbed[node] = true;
	for (unsigned int i = 0; i < game.ops; i++)
		if (game.op[i].from == node && !game.op[i].ended)
			game.op[i].void_ = true;
}

static void raise_one(void)
{
	for (uint32_t node = 0; node < game.cards.torus.count; node++)
		if (game.cards.torus.node[node].dead) {
			card_restart(&game.cards, node);
			begin_node(node);
			return;
		}
}

static void cut_or_mend(void)
{
	uint32_t node = dice(game.cards.torus.count);
	unsigned int cable = dice(WEFT_APE_CABLES);
	struct weft_sim_cable *c = &game.cards.torus.node[node].out[cable];

	c->cut = !c->cut;
	game.cable_disturbed[node][cable] = true;
}

/* Whether nothing was cut or killed on the way there and back. */
static bool undisturbed(uint32_t from, uint32_t to)
{
	struct half way[WAY];
	unsigned int halves = list_way(from, to, way);
	bool disturbed = game.disturbed[from] || game.disturbed[to];

	for (unsigned int i = 0; i < halves; i++)
		disturbed |= game.disturbed[way[i].node] ||
			     game.cable_disturbed[way[i].node][way[i].cable];
	return !disturbed;
}

/* What is told of an operation between nodes that nothing disturbed. By chance all tries of a packet may be lost to bad cables: then
 * at least as many words were. */
static bool is_fair(const struct op *op)
{
	return op->status == WEFT_APE_OK ||
	       (op->status == WEFT_APE_UNREACHABLE && op->spoilt >= TRIES);
}

static void assert_bytes(const struct op *op)
{
	bool get = op->d.opcode == WEFT_APE_OP_GET;
	uint8_t *at = card_bytes(&game.cards, get ? op->from : op->to,
				 get ? op->process : op->channel, get ? op->d.local : op->d.remote);
	uint8_t *is = card_bytes(&game.cards, get ? op->to : op->from,
				 get ? op->channel : op->process, get ? op->d.remote : op->d.local);

	if (op->ended && op->status == WEFT_APE_OK)
		assert_memory_equal(at, is, op->d.bytes);
	else
		for (uint64_t i = 0; i < op->d.bytes; i++)
			assert_true(at[i] == is[i] || at[i] == CARD_EMPTY);
	assert_int_equal(at[op->d.bytes], CARD_EMPTY);
	assert_int_equal(at[-1], CARD_EMPTY);
}

static void judge(void)
{
	uint64_t puts = 0, puts_at_most = 0, counted = 0;

	for (unsigned int i = 0; i < game.ops; i++) {
		const struct op *op = &game.op[i];

		assert_true(op->ended || op->void_);
		if (undisturbed(op->from, op->to) && !is_fair(op))
			fail_msg("operation %u: %s", i, weft_ape_status_str(op->status));
		if (op->d.opcode != WEFT_APE_OP_SEND)
			assert_bytes(op);
		else if (op->ended && op->status == WEFT_APE_OK)
			assert_int_equal(op->received, 1);
		puts += op->d.opcode == WEFT_APE_OP_PUT && op->ended && op->status == WEFT_APE_OK;
		puts_at_most += op->d.opcode == WEFT_APE_OP_PUT;
	}
	for (uint32_t n = 0; n < game.cards.torus.count; n++)
		counted += game.cards.card[n].puts;
	assert_in_range(counted, puts, puts_at_most);
}

static uint64_t play(uint64_t seed, bool disturb)
{
	struct weft_ape_ni_config config = cards_config(3, 3, 2);
	struct torus *t = &game.cards.torus;
	uint64_t quiet_ns;

	memset((char *)&game + sizeof(game.cards), 0, sizeof(game) - sizeof(game.cards));
	/* of each kind of disturbance the half: word by word as hardware, and in bursts as live cards */
	if ((seed ^ seed >> 3) & 1)
		cards_in_bursts(&config);
	if ((seed ^ seed >> 4) & 1)
		cards_are_deep(&config);
	cards_begin_with(&game.cards, &config, seed, on_event);
	for (uint32_t n = 0; n < t->count; n++) {
		begin_node(n);
		for (unsigned int c = 0; c < WEFT_APE_CABLES; c++) {
			t->node[n].out[c].flips = disturb ? dice(2) * dice(300) : 0;
			t->node[n].out[c].losses = disturb ? dice(2) * dice(100) : 0;
			t->node[n].out[c].doubles = disturb ? dice(2) * dice(50) : 0;
		}
	}
	while (game.ops < OPS) {
		weft_sim_run(&t->sim, t->sim.now_ns + dice(4000));
		post_one();
		if (!disturb)
			continue;
		if (!dice(25))
			kill_one();
		if (!dice(15))
			raise_one();
		if (!dice(15))
			cut_or_mend();
	}
	quiet_ns = t->sim.now_ns + 3 * CARD_PATIENCE_NS;
	for (bool left = true; left && t->sim.now_ns < quiet_ns;) {
		weft_sim_run(&t->sim, t->sim.now_ns + 100000);
		left = false;
		for (unsigned int i = 0; i < game.ops; i++)
			left |= !game.op[i].ended && !game.op[i].void_;
	}
	judge();
	for (uint32_t n = 0; n < t->count; n++)
		note(game.cards.card[n].card.counters.packets);
	note(t->sim.happened);
	cards_end(&game.cards);
	return game.trace;
}

static void test_random_programs(void **state)
{
	const char *seeds = getenv("SEEDS"), *seed = getenv("SEED");
	uint64_t from = seed ? strtoul(seed, NULL, 10) : 1;
	uint64_t count = seeds ? strtoul(seeds, NULL, 10) : seed ? 1 : 2000;
	uint64_t failed = 0, ended = 0;

	for (uint64_t s = from; s < from + count; s++) {
		bool disturb = s % 8;
		uint64_t first;

		last_seed = s;
		first = play(s, disturb);
		assert_int_equal(play(s, disturb), first);
		for (unsigned int i = 0; i < game.ops; i++) {
			ended += game.op[i].ended;
			failed += game.op[i].ended && game.op[i].status != WEFT_APE_OK;
		}
	}
	printf("# %ju seeds: %ju operations ended, %ju of them failed\n", (uintmax_t)count,
	       (uintmax_t)ended, (uintmax_t)failed);
	assert_true(failed * 2 < ended);
}

static int tell_seed(void **state)
{
	printf("# last seed: %ju\n", (uintmax_t)last_seed);
	return 0;
}

int main(void)
{
	/* Keeps freed memory, which the next game takes again. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_random_programs, tell_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
