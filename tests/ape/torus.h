/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A torus in virtual time: nodes of the engine, and the cables between them. */
#ifndef WEFT_TESTS_APE_TORUS_H
#define WEFT_TESTS_APE_TORUS_H

#include "cable.h"
#include "clock.h"
#include "wire/ape/node.h"

#define WORD_NS 8u

struct torus;

struct torus_node {
	struct weft_ape_node node;
	struct weft_sim_event tick;
	struct torus *torus;
	struct weft_ape_word *memory;
	struct weft_sim_cable out[WEFT_APE_CABLES];
	struct weft_sim_cable *in[WEFT_APE_CABLES];
	bool dead;
	void *card; /* the test's */
};

struct torus {
	struct weft_sim sim;
	uint32_t count;
	struct torus_node *node;
	struct weft_ape_node_config config; /* of all, but for `me` */
	/* What a node does in a word time beside its step, or NULL: whether it has more to do. */
	bool (*work)(struct torus_node *node);
	uint64_t (*deadline)(struct torus_node *node);
	uint64_t beats_after_end;
};

/* As the hardware has it: cables of 128 bits, FIFOs of 512 and 128, no timers. */
struct weft_ape_node_config torus_config(unsigned int x, unsigned int y, unsigned int z);
void torus_begin(struct torus *t, const struct weft_ape_node_config *config, uint64_t delay_words,
		 weft_ape_deliver_fn *deliver, uint64_t seed);
/* The node's card begins anew, with empty FIFOs. */
void torus_restart(struct torus_node *node, weft_ape_deliver_fn *deliver);
void torus_wake(struct torus_node *node);
void torus_end(struct torus *t);

#endif
