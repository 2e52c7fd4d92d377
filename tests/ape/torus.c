/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "torus.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct weft_ape_node_config torus_config(unsigned int x, unsigned int y, unsigned int z)
{
	struct weft_ape_node_config config = {
		.lattice = {.size = {x, y, z}, .order = {0, 1, 2}, .channels = 2},
		.header_depth = WEFT_APE_HEADER_DEPTH,
		.data_depth = WEFT_APE_DATA_DEPTH,
		.locals = 1,
	};

	weft_ape_link_defaults(&config.link);
	config.link.refresh_ns = 0;
	return config;
}

void torus_send(struct torus_node *n, unsigned int cable, const struct weft_ape_beat *beat)
{
	struct weft_ape_beat changed = *beat;
	unsigned int times = n->torus->meddle ? n->torus->meddle(n, cable, &changed) : 1;
	struct weft_sim_beat sent;

	memcpy(&sent, &changed, sizeof(sent));
	while (times--)
		assert(!weft_sim_cable_send(&n->torus->sim, &n->out[cable], &sent));
}

static void tick(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct torus_node *n =
		(struct torus_node *)((char *)event - offsetof(struct torus_node, tick));
	const struct torus_kind *kind = n->torus->kind;
	struct weft_sim_beat beat;
	struct weft_ape_beat came;
	uint64_t next;

	for (unsigned int cable = 0; cable < WEFT_APE_CABLES; cable++)
		while (n->in[cable] && weft_sim_cable_take(sim, n->in[cable], &beat)) {
			memcpy(&came, &beat, sizeof(came));
			if (!n->dead)
				kind->beat(n, cable, &came);
		}
	if (n->dead)
		return;
	next = kind->step(n) ? 0 : kind->deadline(n);
	if (next <= sim->now_ns)
		next = sim->now_ns + WORD_NS;
	if (next != UINT64_MAX && (!weft_sim_is_set(event) || event->at_ns > next))
		assert(!weft_sim_at(sim, event, next));
}

void torus_wake(struct torus_node *n)
{
	struct weft_sim *sim = &n->torus->sim;
	uint64_t at_ns = (sim->now_ns + WORD_NS - 1) / WORD_NS * WORD_NS;

	if (!weft_sim_is_set(&n->tick) || n->tick.at_ns > at_ns)
		assert(!weft_sim_at(sim, &n->tick, at_ns));
}

void torus_restart(struct torus_node *n)
{
	n->torus->kind->begin(n);
	n->dead = false;
	torus_wake(n);
}

/* ---- Links and router alone ---- */

static void send_beat(void *owner, unsigned int cable, const struct weft_ape_beat *beat)
{
	torus_send(owner, cable, beat);
}

static void node_begin(struct torus_node *n)
{
	weft_ape_node_init(&n->node, &n->config, n->memory, send_beat, n, n->torus->deliver, n);
}

static void node_beat(struct torus_node *n, unsigned int cable, const struct weft_ape_beat *beat)
{
	weft_ape_node_beat(&n->node, cable, beat, n->torus->sim.now_ns);
}

static bool node_step(struct torus_node *n)
{
	return weft_ape_node_step(&n->node, n->torus->sim.now_ns);
}

static uint64_t node_deadline(const struct torus_node *n)
{
	return weft_ape_node_deadline(&n->node);
}

static const struct torus_kind nodes = {
	.begin = node_begin,
	.beat = node_beat,
	.step = node_step,
	.deadline = node_deadline,
};

/* ---- All of it ---- */

static void join(struct torus *t, struct torus_node *n, uint64_t delay_words)
{
	const struct weft_ape_lattice *l = &t->config.lattice;
	struct weft_ape_coord other;

	for (unsigned int cable = 0; cable < WEFT_APE_CABLES; cable++) {
		if (!weft_ape_lattice_neighbour(l, n->config.me, cable, &other))
			continue;
		struct torus_node *to = &t->node[weft_ape_lattice_index(l, other)];

		n->out[cable].delay_ns = delay_words * WORD_NS;
		n->out[cable].quads = t->config.link.quads;
		n->out[cable].reader = &to->tick;
		to->in[cable ^ 1] = &n->out[cable];
	}
}

void torus_begin_with(struct torus *t, const struct weft_ape_node_config *config,
		      uint64_t delay_words, const struct torus_kind *kind, uint64_t seed,
		      void *cards, size_t size)
{
	const struct weft_ape_lattice *l = &config->lattice;

	weft_sim_begin(&t->sim, seed);
	weft_sim_run(&t->sim, WORD_NS);
	t->config = *config;
	t->kind = kind;
	t->count = (uint32_t)l->size[0] * l->size[1] * l->size[2];
	t->node = calloc(t->count, sizeof(*t->node));
	assert(t->node);
	for (uint32_t i = 0; i < t->count; i++) {
		struct torus_node *n = &t->node[i];

		n->config = *config;
		n->config.me = weft_ape_lattice_coord(l, i);
		assert(weft_ape_node_config_holds(&n->config));
		n->torus = t;
		n->tick.happen = tick;
		n->memory = calloc(weft_ape_node_words(&n->config), sizeof(*n->memory));
		assert(n->memory);
		n->card = (char *)cards + i * size;
		join(t, n, delay_words);
		torus_restart(n);
	}
}

void torus_begin(struct torus *t, const struct weft_ape_node_config *config, uint64_t delay_words,
		 weft_ape_deliver_fn *deliver, uint64_t seed)
{
	t->deliver = deliver;
	torus_begin_with(t, config, delay_words, &nodes, seed, NULL, 0);
}

void torus_end(struct torus *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		for (unsigned int cable = 0; cable < WEFT_APE_CABLES; cable++)
			weft_sim_cable_end(&t->node[i].out[cable]);
		free(t->node[i].memory);
	}
	weft_sim_end(&t->sim);
	free(t->node);
}
