/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The configuration of a card, from the lattice's file: `weft torus up` and the cards use the same. */
#include "card/torus/torus.h"

#define MS 1000000ull

static bool is_order(const uint32_t order[WEFT_APE_DIMENSIONS])
{
	unsigned int seen = 0;

	for (unsigned int d = 0; d < WEFT_APE_DIMENSIONS; d++)
		seen |= order[d] < WEFT_APE_DIMENSIONS ? 1u << order[d] : 0;
	return seen == (1u << WEFT_APE_DIMENSIONS) - 1;
}

/* Of hardware's 512 words its 384; of more all: what is under way counts as used, so that nothing need be held back for it. */
static void offer_depth(struct weft_ape_node_config *node)
{
	struct weft_ape_link_config *link = &node->link;

	if (node->data_depth <= WEFT_APE_DATA_DEPTH)
		return;
	link->threshold.data = node->data_depth;
	while (weft_ape_depth_told(link) < node->data_depth)
		link->shift++;
	/* what a unit is to a word, the cycle is to hardware's */
	link->cycle <<= link->shift;
	if (link->shift)
		link->threshold.headers = node->header_depth + link->margin;
}

bool weft_torus_config(const struct weft_torus_shape *s, const uint8_t at[3],
		       struct weft_ape_ni_config *config)
{
	struct weft_ape_node_config *node = &config->node;

	*config = (struct weft_ape_ni_config){
		.life = 1,
		.engines = (uint8_t)s->engines,
		.times = {.again_ns = 250 * MS,
			  .give_up_ns = 8000 * MS,
			  .late_ns = 4 * MS,
			  .soon_ns = MS / 5},
		.not_ready_ns = MS,
		.patience_ns = 8000 * MS,
	};
	for (unsigned int d = 0; d < WEFT_APE_DIMENSIONS; d++) {
		if (s->size[d] > UINT8_MAX)
			return false;
		node->lattice.size[d] = (uint8_t)s->size[d];
		node->lattice.line[d] = s->line[d];
		node->lattice.order[d] = (uint8_t)s->order[d];
		node->me.at[d] = at[d];
	}
	if (!is_order(s->order) || s->tie >= WEFT_APE_TIES || s->channels > WEFT_APE_CHANNELS ||
	    s->quads > 4 || s->locals > UINT8_MAX || s->engines > UINT8_MAX ||
	    s->header_depth > UINT16_MAX || s->data_depth > UINT16_MAX)
		return false;
	node->lattice.tie = s->tie;
	node->lattice.channels = (uint8_t)s->channels;
	weft_ape_link_defaults(&node->link);
	node->link.quads = (uint8_t)s->quads;
	node->link.refresh_ns = 500 * MS;
	node->link.burst = WEFT_TORUS_BURST;
	node->link.thrifty = true;
	node->silence_ns = 4000 * MS;
	node->header_depth = (uint16_t)s->header_depth;
	node->data_depth = (uint16_t)s->data_depth;
	offer_depth(node);
	node->locals = (uint8_t)s->locals;
	return weft_ape_ni_config_holds(config);
}
