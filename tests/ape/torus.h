/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A torus in virtual time: nodes of the engine, and the cables between them. */
#ifndef WEFT_TESTS_APE_TORUS_H
#define WEFT_TESTS_APE_TORUS_H

#include "cable.h"
#include "clock.h"
#include "wire/ape/node.h"

#define WORD_NS 8u

struct torus;
struct torus_node;

/* What the nodes are: links and router alone, or cards. */
struct torus_kind {
	void (*begin)(struct torus_node *n);
	void (*beat)(struct torus_node *n, unsigned int cable, const struct weft_ape_beat *beat);
	bool (*step)(struct torus_node *n);
	uint64_t (*deadline)(const struct torus_node *n);
};

struct torus_node {
	struct weft_ape_node node; /* unless it is a card's */
	struct weft_ape_node_config config;
	struct weft_sim_event tick;
	struct torus *torus;
	struct weft_ape_word *memory;
	struct weft_sim_cable out[WEFT_APE_CABLES];
	struct weft_sim_cable *in[WEFT_APE_CABLES];
	bool dead;
	void *card;
};

struct torus {
	struct weft_sim sim;
	uint32_t count;
	struct torus_node *node;
	struct weft_ape_node_config config; /* of all, but for `me` */
	const struct torus_kind *kind;
	weft_ape_deliver_fn *deliver;
	/* May change the beat; says how often it is sent. NULL: each is sent once. */
	unsigned int (*meddle)(struct torus_node *n, unsigned int cable,
			       struct weft_ape_beat *beat);
};

/* As the hardware has it: cables of 128 bits, FIFOs of 512 and 128, no timers. */
struct weft_ape_node_config torus_config(unsigned int x, unsigned int y, unsigned int z);
/* Links and routers; what they deliver, with the node as owner. */
void torus_begin(struct torus *t, const struct weft_ape_node_config *config, uint64_t delay_words,
		 weft_ape_deliver_fn *deliver, uint64_t seed);
/* The same with nodes of this kind; `cards` is an array of structs of `size` bytes, one a node. */
void torus_begin_with(struct torus *t, const struct weft_ape_node_config *config,
		      uint64_t delay_words, const struct torus_kind *kind, uint64_t seed,
		      void *cards, size_t size);
void torus_send(struct torus_node *n, unsigned int cable, const struct weft_ape_beat *beat);
/* The node begins anew, with empty FIFOs. */
void torus_restart(struct torus_node *n);
void torus_wake(struct torus_node *n);
void torus_end(struct torus *t);

#endif
