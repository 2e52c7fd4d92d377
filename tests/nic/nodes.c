/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nodes.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../ape/cards.h"
#include "card/wire.h"
#include "ends.h"
#include "pieces.h"
#include "pool/format_member.h"
#include "process/node.h"
#include "wire/ape/verbs.h"

#define SHARE	 32u
#define SLICE_NS 1000u
#define MOST_NS	 100000000u /* for which anything rehomed */

static struct {
	struct cards cards;
	struct weft_wire wire;
	struct weft_out out;
	uint32_t from; /* the node whose packet is being written */
	struct weft_ape_coord to;
	uint64_t came;
	bool held;
} nodes;

/* ---- Packets between the engines ---- */

static uint8_t *write_packet(struct weft_out *out, const uint8_t to[16], uint32_t bytes)
{
	if (!weft_node_of_gid(to, nodes.to.at))
		return NULL;
	nodes.from = !nodes.to.at[0];
	return weft_ape_verbs_room(&nodes.cards.card[nodes.from].card, nodes.to);
}

static void put_packet(struct weft_out *out, uint32_t bytes)
{
	weft_ape_verbs_put(&nodes.cards.card[nodes.from].card, nodes.to, (uint16_t)bytes,
			   WEFT_APE_VERBS_REQUEST, nodes.cards.torus.sim.now_ns);
	torus_wake(&nodes.cards.torus.node[nodes.from]);
}

static const struct weft_out_medium medium = {
	.reserve = write_packet,
	.commit = put_packet,
	.message_bytes = WEFT_ROCE_TORUS_MTU,
	.checks = true,
};

static void packet_came(struct cards *cards, uint32_t node, struct weft_ape_coord from,
			const uint8_t *payload, uint32_t bytes)
{
	struct weft_udp_datagram d = {.from_port = WEFT_ROCE_PORT,
				      .to_port = WEFT_ROCE_PORT,
				      .at = payload,
				      .bytes = bytes};

	nodes.came++;
	weft_node_gid(from.at, d.from);
	weft_node_gid(cards->card[node].card.config.node.me.at, d.to);
	weft_switch_receive(&nodes.wire.sw, &d, world.now_ns, world.now_ns);
}

static void no_event(struct cards *cards, uint32_t node, unsigned int process,
		     const struct weft_ape_event *event)
{
	fail_msg("no program of libweft-ape is there");
}

/* ---- Time ---- */

static bool is_quiet(const struct weft_ape_ni *c)
{
	for (uint64_t left = c->peers; left;) {
		const struct weft_ape_verbs *v = &c->peer[weft_ape_next_bit(&left)].verbs;

		if (v->written != v->done)
			return false;
	}
	return true;
}

static bool has_room(void)
{
	bool any = false;

	for (uint32_t n = 0; n < 2; n++) {
		any |= nodes.cards.card[n].card.verbs_room;
		nodes.cards.card[n].card.verbs_room = false;
	}
	return any;
}

void nodes_carry(void)
{
	uint64_t until_ns = nodes.cards.torus.sim.now_ns + MOST_NS;
	bool rehomed = true;

	while (rehomed) {
		rehomed = weft_card_look(&nodes.wire.card);
		if (nodes.held)
			return;
		rehomed |= weft_wire_run(&nodes.wire, SHARE, world.now_ns);
		weft_sim_run(&nodes.cards.torus.sim, nodes.cards.torus.sim.now_ns + SLICE_NS);
		if (has_room())
			weft_wire_resume(&nodes.wire);
		rehomed |= nodes.wire.sw.ready || !is_quiet(&nodes.cards.card[0].card) ||
			   !is_quiet(&nodes.cards.card[1].card);
		assert_true(nodes.cards.torus.sim.now_ns < until_ns);
	}
	world.now_ns += ENDS_RNR_NS;
}

void nodes_hold(bool held)
{
	nodes.held = held;
}

/* ---- Coming and going ---- */

uint64_t nodes_came(void)
{
	return nodes.came;
}

uint64_t nodes_again(void)
{
	uint64_t again = 0;

	for (uint32_t n = 0; n < 2; n++) {
		const struct weft_ape_ni *c = &nodes.cards.card[n].card;

		for (uint64_t left = c->peers; left;)
			again += c->peer[weft_ape_next_bit(&left)].flow[WEFT_APE_REQUESTS].again;
	}
	return again;
}

int nodes_begin(uint32_t flips)
{
	struct weft_ape_ni_config config = cards_config(2, 1, 1);
	struct weft_pool_card *card = &world.pool->self->card;
	uint8_t none[16] = {0};

	cards_in_bursts(&config);
	memset(&nodes, 0, sizeof(nodes));
	nodes.out.medium = &medium;
	nodes.cards.verbs = packet_came;
	cards_begin_with(&nodes.cards, &config, 1, no_event);
	weft_sim_run(&nodes.cards.torus.sim, 10000);
	for (uint32_t n = 0; n < 2; n++)
		for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
			nodes.cards.torus.node[n].out[i].flips = flips;
	for (uint32_t n = 0; n < 2; n++)
		world_publish(ends_node_gid[n]);
	if (weft_wire_begin(&nodes.wire, &world.nic, &pieces_line, none, 128u << WEFT_NODE_MTU,
			    &nodes.out))
		return -1;
	/* both nodes' programs are in one pool here: the card carries what goes between its own addresses, too */
	atomic_store(&card->reach, WEFT_CARD_ALL);
	return 0;
}

void nodes_end(void)
{
	weft_wire_end(&nodes.wire);
	cards_end(&nodes.cards);
}
