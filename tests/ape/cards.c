/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cards.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "crc.h"
#include "wire/ape/verbs.h"

static struct card *card_of(void *owner)
{
	struct torus_node *n = owner;

	return n->card;
}

static void send_beat(void *owner, unsigned int cable, const struct weft_ape_beat *beat)
{
	torus_send(owner, cable, beat);
}

static void send_words(void *owner, unsigned int cable, const struct weft_ape_word *words,
		       unsigned int count)
{
	struct torus_node *n = owner;
	unsigned int quads = n->config.link.quads;
	struct weft_ape_beat beat = {{0}};

	for (unsigned int i = 0; i < count; i += quads / 2) {
		memcpy(beat.quad, words + i, quads * sizeof(*beat.quad));
		torus_send(n, cable, &beat);
	}
}

static bool is_there(const struct card *c, unsigned int process, uint64_t addr, uint64_t bytes)
{
	return !c->faulty && process < CARD_PROCESSES && addr >= CARD_BASE &&
	       addr - CARD_BASE + bytes <= CARD_BYTES;
}

static bool read_bytes(void *owner, unsigned int process, uint64_t addr, void *to, uint32_t bytes)
{
	struct card *c = card_of(owner);

	if (!is_there(c, process, addr, bytes))
		return false;
	memcpy(to, c->bytes[process] + (addr - CARD_BASE), bytes);
	return true;
}

static bool place_bytes(void *owner, unsigned int process, uint64_t addr, const void *from,
			uint32_t bytes)
{
	struct card *c = card_of(owner);

	if (!is_there(c, process, addr, bytes))
		return false;
	memcpy(c->bytes[process] + (addr - CARD_BASE), from, bytes);
	return true;
}

static void count(void *owner, unsigned int process, uint32_t buffer, uint64_t value)
{
	struct card *c = card_of(owner);

	if (c->card.process[process].buffer[buffer].rights & WEFT_APE_MAY_PUT)
		c->puts++;
	if (c->cards->counted)
		c->cards->counted(c->cards, c - c->cards->card);
}

static void tell(void *owner, unsigned int process, const struct weft_ape_event *event)
{
	struct card *c = card_of(owner);

	c->cards->event(c->cards, c - c->cards->card, process, event);
}

static void take_verbs(void *owner, struct weft_ape_coord from, const uint8_t *payload,
		       uint32_t bytes)
{
	struct card *c = card_of(owner);

	if (c->cards->verbs)
		c->cards->verbs(c->cards, c - c->cards->card, from, payload, bytes);
}

static const struct weft_ape_world world = {
	.send = send_beat,
	.send_words = send_words,
	.read = read_bytes,
	.place = place_bytes,
	.crc32c = crc32c,
	.count = count,
	.verbs = take_verbs,
	.event = tell,
};

/* ---- As nodes of the torus ---- */

static void take_beat(struct torus_node *n, unsigned int cable, const struct weft_ape_beat *beat)
{
	weft_ape_ni_beat(&((struct card *)n->card)->card, cable, beat, n->torus->sim.now_ns);
}

static bool step(struct torus_node *n)
{
	return weft_ape_ni_step(&((struct card *)n->card)->card, n->torus->sim.now_ns);
}

static uint64_t deadline(const struct torus_node *n)
{
	return weft_ape_ni_deadline(&((struct card *)n->card)->card);
}

static void begin(struct torus_node *n)
{
	struct card *c = n->card;
	struct weft_ape_ni_config config = c->cards->config;

	config.node.me = n->config.me;
	config.life = ++c->life;
	assert(weft_ape_ni_config_holds(&config));
	weft_ape_ni_init(&c->card, &config, n->memory, &world, n);
	if (!c->verbs)
		c->verbs = malloc(WEFT_APE_VERBS_MEMORY);
	assert(c->verbs);
	weft_ape_verbs_begin(&c->card, c->verbs);
}

static const struct torus_kind kind = {
	.begin = begin,
	.beat = take_beat,
	.step = step,
	.deadline = deadline,
};

struct weft_ape_ni_config cards_config(unsigned int x, unsigned int y, unsigned int z)
{
	struct weft_ape_ni_config config = {
		.node = torus_config(x, y, z),
		.engines = 2,
		.times = {.again_ns = 40000, .give_up_ns = 2000000},
		.not_ready_ns = 20000,
		.patience_ns = CARD_PATIENCE_NS,
	};

	config.node.link.refresh_ns = 20000;
	config.node.silence_ns = 70000;
	return config;
}

void cards_in_bursts(struct weft_ape_ni_config *config)
{
	config->node.link.burst = 320;
	config->node.link.thrifty = true;
}

void cards_are_deep(struct weft_ape_ni_config *config)
{
	struct weft_ape_node_config *node = &config->node;

	node->link.shift = 2;
	node->link.cycle <<= node->link.shift;
	node->data_depth = WEFT_APE_DEPTH_TOLD << node->link.shift;
	node->link.threshold.data = node->data_depth;
	node->link.threshold.headers = node->header_depth + node->link.margin;
}

void cards_begin_with(struct cards *c, const struct weft_ape_ni_config *config, uint64_t seed,
		      cards_event_fn *event)
{
	const struct weft_ape_lattice *l = &config->node.lattice;
	uint32_t count = (uint32_t)l->size[0] * l->size[1] * l->size[2];

	c->config = *config;
	c->event = event;
	c->card = calloc(count, sizeof(*c->card));
	assert(c->card);
	for (uint32_t n = 0; n < count; n++) {
		struct card *card = &c->card[n];

		card->cards = c;
		for (unsigned int p = 0; p < CARD_PROCESSES; p++) {
			card->bytes[p] = malloc(CARD_BYTES);
			assert(card->bytes[p]);
			memset(card->bytes[p], CARD_EMPTY, CARD_BYTES);
			card->room[p] = 1;
			card->source[p] = CARD_SOURCES;
		}
	}
	torus_begin_with(&c->torus, &config->node, 3, &kind, seed, c->card, sizeof(*c->card));
}

void cards_begin_registered(struct cards *c, const struct weft_ape_ni_config *config,
			    cards_event_fn *event)
{
	int number;

	cards_begin_with(c, config, 1, event);
	for (uint32_t n = 0; n < c->torus.count; n++)
		for (unsigned int p = 0; p < CARD_PROCESSES; p++) {
			number = card_register_all(c, n, p);
			assert(number == 0);
		}
	weft_sim_run(&c->torus.sim, 10000);
}

void card_restart(struct cards *c, uint32_t node)
{
	torus_restart(&c->torus.node[node]);
}

void cards_end(struct cards *c)
{
	for (uint32_t n = 0; n < c->torus.count; n++) {
		free(c->card[n].verbs);
		for (unsigned int p = 0; p < CARD_PROCESSES; p++)
			free(c->card[n].bytes[p]);
	}
	torus_end(&c->torus);
	free(c->card);
}

/* ---- Programs ---- */

uint8_t *card_bytes(struct cards *c, uint32_t node, unsigned int process, uint64_t addr)
{
	return c->card[node].bytes[process] + (addr - CARD_BASE);
}

uint64_t card_room(struct cards *c, uint32_t node, unsigned int process, uint64_t bytes)
{
	uint64_t at = c->card[node].room[process];

	c->card[node].room[process] += bytes + 1;
	assert(at + bytes + 1 <= CARD_SOURCES);
	return CARD_BASE + at;
}

uint64_t card_source(struct cards *c, uint32_t node, unsigned int process, uint64_t bytes)
{
	uint64_t at = c->card[node].source[process];

	c->card[node].source[process] += bytes + 1;
	assert(at + bytes + 1 <= CARD_BYTES);
	for (uint64_t i = 0; i < bytes; i++)
		c->card[node].bytes[process][at + i] =
			(at + i) * 131 + (at + i) / 256 * 29 + node * 17 + process * 7;
	return CARD_BASE + at;
}

int card_register_all(struct cards *c, uint32_t node, unsigned int process)
{
	return weft_ape_ni_register(&c->card[node].card, process,
				    WEFT_APE_MAY_PUT | WEFT_APE_MAY_GET, CARD_BASE, CARD_BYTES, 0);
}

void card_receive(struct cards *c, uint32_t node, unsigned int process, uint64_t bytes)
{
	uint64_t at = card_room(c, node, process, bytes);

	assert(weft_ape_ni_register(&c->card[node].card, process, WEFT_APE_RECEIVES, at, bytes,
				    at) >= 0);
}

bool card_post(struct cards *c, uint32_t node, unsigned int process,
	       const struct weft_ape_descriptor *d)
{
	bool taken = weft_ape_ni_post(&c->card[node].card, process, d, c->torus.sim.now_ns);

	if (taken)
		torus_wake(&c->torus.node[node]);
	return taken;
}
