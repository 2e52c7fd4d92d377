/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Beats of a live cable as bits of lanes (wire/ape/lanes.h), and back: what the ring or the datagram carries is then the bits of one
 * slot of all lanes, lane after lane. Lanes have bits only while something is sent; before a channel is up, and when
 * it has gone down, markers come now and then, so many that the other end finds the lanes' order and number.
 */
#include <errno.h>
#include <stdlib.h>

#include "card/torus/torus.h"

#define TRAIN_SLOTS 128u
#define TRAIN_NS    20000000ull
#define TRAIN_MOST  (25 * TRAIN_NS)

static struct weft_ape_b8b10 table;

int weft_torus_lanes_begin(struct weft_torus_card *c, struct weft_torus_cable *cable)
{
	enum weft_ape_code code =
		c->shape.phy == WEFT_TORUS_8B10B ? WEFT_APE_8B10B : WEFT_APE_64B66B;

	if (c->shape.phy == WEFT_TORUS_NO_PHY)
		return 0;
	weft_ape_b8b10_init(&table);
	cable->phy = calloc(1, sizeof(*cable->phy));
	if (!cable->phy)
		return -ENOMEM;
	weft_ape_phy_init(cable->phy, code, c->shape.lanes, &table);
	cable->patience_ns = TRAIN_NS;
	return 0;
}

static void put_slot(struct weft_torus_cable *cable, const struct weft_ape_beat *beat)
{
	uint8_t bits[WEFT_APE_LANES][WEFT_APE_SLOT_BITS];
	unsigned int of_lane = weft_ape_phy_bits(cable->phy), at = 0;
	uint64_t quad[WEFT_RING_QUADS] = {0};

	weft_ape_phy_send(cable->phy, beat, bits);
	for (unsigned int lane = 0; lane < cable->phy->lanes; lane++)
		for (unsigned int i = 0; i < of_lane; i++, at++)
			quad[at / 64] |= (uint64_t)bits[lane][i] << at % 64;
	weft_ring_put(&cable->out, quad);
}

void weft_torus_lanes_send(struct weft_torus_cable *cable, const struct weft_ape_beat *beat)
{
	if (weft_ape_phy_must_mark(cable->phy))
		put_slot(cable, NULL);
	put_slot(cable, beat);
}

void weft_torus_lanes_receive(struct weft_torus_card *c, unsigned int which, const uint64_t *quad,
			      uint32_t slots)
{
	struct weft_torus_cable *cable = &c->cable[which];
	uint64_t downs = cable->phy->downs;
	struct weft_ape_beat beat;

	for (; slots--; quad += cable->out.quads) {
		weft_ape_phy_slot_in(cable->phy, quad);
		while (weft_ape_phy_receive(cable->phy, &beat))
			weft_ape_ni_beat(&c->engine, which, &beat, c->now_ns);
	}
	if (cable->phy->downs != downs)
		weft_ape_node_down(&c->engine.node, which);
}

/* Where a channel is not up: markers, and then a credit anew, which the other end hears if the lanes are in order by now. */
void weft_torus_lanes_train(struct weft_torus_card *c)
{
	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		struct weft_torus_cable *cable = &c->cable[i];

		if (!cable->there || !cable->phy)
			continue;
		if (c->engine.node.router.up >> i & 1) {
			cable->patience_ns = TRAIN_NS;
			continue;
		}
		if (c->now_ns < cable->train_ns || !weft_ring_has_room(&cable->out, TRAIN_SLOTS))
			continue;
		for (unsigned int n = 0; n < TRAIN_SLOTS; n++)
			put_slot(cable, NULL);
		weft_ape_tx_reset(&c->engine.node.tx[i]);
		cable->train_ns = c->now_ns + cable->patience_ns;
		if (cable->patience_ns < TRAIN_MOST)
			cable->patience_ns *= 2;
	}
}

uint64_t weft_torus_lanes_deadline(const struct weft_torus_card *c)
{
	uint64_t first = UINT64_MAX;

	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++)
		if (c->cable[i].there && c->cable[i].phy && !(c->engine.node.router.up >> i & 1) &&
		    c->cable[i].train_ns < first)
			first = c->cable[i].train_ns;
	return first;
}
