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

static void send_beat(void *owner, unsigned int cable, const struct weft_ape_beat *beat)
{
	struct torus_node *n = owner;
	struct weft_sim_beat sent;

	memcpy(&sent, beat, sizeof(sent));
	assert(!weft_sim_cable_send(&n->torus->sim, &n->out[cable], &sent));
}

static void tick(struct weft_sim *sim, struct weft_sim_event *event)
{
	struct torus_node *n = (struct torus_node *)((char *)event - offsetof(struct torus_node, tick));
	struct torus *t = n->torus;
	struct weft_sim_beat beat;
	struct weft_ape_beat came;
	uint64_t deadline;
	bool busy;

	for (unsigned int cable = 0; cable < WEFT_APE_CABLES; cable++)
		while (n->in[cable] && weft_sim_cable_take(sim, n->in[cable], &beat)) {
			memcpy(&came, &beat, sizeof(came));
			if (!n->dead)
				weft_ape_node_beat(&n->node, cable, &came, sim->now_ns);
		}
	if (n->dead)
		return;
	busy = t->work && t->work(n);
	busy |= weft_ape_node_step(&n->node, sim->now_ns);
	deadline = weft_ape_node_deadline(&n->node);
	if (t->deadline && t->deadline(n) < deadline)
		deadline = t->deadline(n);
	if (busy || deadline <= sim->now_ns)
		deadline = sim->now_ns + WORD_NS;
	if (deadline != UINT64_MAX && (!weft_sim_is_set(event) || event->at_ns > deadline))
		assert(!weft_sim_at(sim, event, deadline));
}

void torus_restart(struct torus_node *n, weft_ape_deliver_fn *deliver)
{
	struct weft_ape_node_config config = n->node.config;

	weft_ape_node_init(&n->node, &config, n->memory, send_beat, deliver, n);
	n->dead = false;
	torus_wake(n);
}

void torus_wake(struct torus_node *n)
{
	struct weft_sim *sim = &n->torus->sim;

	if (!weft_sim_is_set(&n->tick) || n->tick.at_ns > sim->now_ns)
		assert(!weft_sim_at(sim, &n->tick, sim->now_ns));
}

void torus_begin(struct torus *t, const struct weft_ape_node_config *config, uint64_t delay_words,
		 weft_ape_deliver_fn *deliver, uint64_t seed)
{
	const struct weft_ape_lattice *l = &config->lattice;

	memset(t, 0, sizeof(*t));
	weft_sim_begin(&t->sim, seed);
	t->config = *config;
	t->count = (uint32_t)l->size[0] * l->size[1] * l->size[2];
	t->node = calloc(t->count, sizeof(*t->node));
	assert(t->node);
	for (uint32_t i = 0; i < t->count; i++) {
		struct torus_node *n = &t->node[i];
		struct weft_ape_node_config own = *config;
		struct weft_ape_coord other;

		own.me = weft_ape_lattice_coord(l, i);
		assert(weft_ape_node_config_holds(&own));
		n->torus = t;
		n->tick.happen = tick;
		n->memory = calloc(weft_ape_node_words(&own), sizeof(*n->memory));
		assert(n->memory);
		n->node.config = own;
		torus_restart(n, deliver);
		for (unsigned int cable = 0; cable < WEFT_APE_CABLES; cable++) {
			if (!weft_ape_lattice_neighbour(l, own.me, cable, &other))
				continue;
			struct torus_node *to = &t->node[weft_ape_lattice_index(l, other)];

			n->out[cable].delay_ns = delay_words * WORD_NS;
			n->out[cable].quads = config->link.quads;
			n->out[cable].reader = &to->tick;
			to->in[cable ^ 1] = &n->out[cable];
		}
	}
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
