/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of `weft torus` share. Context: one thread, as it forks. */
#ifndef WEFT_CLI_TORUS_H
#define WEFT_CLI_TORUS_H

#include "link/torus.h"
#include "pool/ape.h"
#include "wire/ape/route.h"

struct weft_torus_options {
	const char *name, *node; /* node: as the user wrote it; NULL: none */
	bool json, each, ranks, svg;
	uint32_t map[3]; /* of ranks: dimensions, the one that runs fastest first */
	uint32_t port, peers;
	struct weft_torus_peer peer[WEFT_TORUS_PARTS]; /* as they were named */
	struct weft_torus_shape shape;
	char home[PATH_MAX];
};

/* Nodes that one card can speak with. */
#define WEFT_TORUS_NODES 64u

/* A node's coordinates of a lattice; false: X,Y,Z it is not. */
bool weft_torus_parse_node(const char *text, uint8_t at[3]);
/* Loads the shape of a torus, and says what lattice it is. 0, or 1, and why on stderr: there is none, or its file is damaged. */
int weft_torus_find(struct weft_torus_options *o, struct weft_ape_lattice *l);
/* The lattice of a shape that holds. */
struct weft_ape_lattice weft_torus_lattice(const struct weft_torus_shape *shape);
/* The process that holds the lock of a node's door; 0: no card runs there. */
uint32_t weft_torus_card_pid(const char *node);

/* A node, as it is seen from outside. */
struct weft_torus_seen {
	struct weft_ape_coord at;
	uint32_t pid; /* 0: it is dead */
	bool read;
	bool elsewhere; /* of another part */
	bool stopped;	/* by a signal or a debugger */
	char text[16];
	struct weft_pool_ape_card card;
};

/* Loads the shape, and looks at all nodes. 0, or an exit status, and why on stderr. */
int weft_torus_look(struct weft_torus_options *o, struct weft_torus_seen seen[WEFT_TORUS_NODES],
		    unsigned int *nodes);
/* The first rank of MPI on a node. */
unsigned int weft_torus_rank(const struct weft_torus_options *o, struct weft_ape_coord at);

/* ---- Cables ---- */

extern const char *const weft_torus_cable_names[WEFT_POOL_APE_CABLES];

struct weft_torus_end {
	struct weft_ape_coord at, other; /* the other end */
	unsigned int cable;
};

struct weft_cable_ring;

/* Loads the shape, too. cable NULL: the node alone. 0, or an exit status, and why on stderr. */
int weft_torus_parse_end(struct weft_torus_options *o, const char *node, const char *cable,
			 struct weft_torus_end *end);
/* The ring of one direction; says on stderr why not. */
int weft_torus_open_cable(const struct weft_torus_options *o, struct weft_ape_coord at,
			  unsigned int cable, struct weft_cable_ring *ring);
bool weft_torus_is_cut(const struct weft_torus_options *o, struct weft_ape_coord at,
		       unsigned int cable);

/* ---- Commands: each an exit status; words: those behind the options, as many as it takes ---- */

int weft_torus_up(struct weft_torus_options *o);
int weft_torus_down(struct weft_torus_options *o, char **words);
int weft_torus_status(struct weft_torus_options *o, char **words);
int weft_torus_map(struct weft_torus_options *o, char **words);
int weft_torus_run(struct weft_torus_options *o, char **program);
int weft_torus_reg(struct weft_torus_options *o, char **words);
int weft_torus_words(struct weft_torus_options *o, char **words);
int weft_torus_cut(struct weft_torus_options *o, char **words);
int weft_torus_mend(struct weft_torus_options *o, char **words);
int weft_torus_spoil(struct weft_torus_options *o, char **words);

/* torus_netns.c. Becomes a card, in the caller's namespaces, and does not return; keep: a descriptor that it holds, or negative. */
typedef void weft_torus_card_fn(const struct weft_torus_options *o, struct weft_ape_coord at,
				int keep);
/* Starts the cards, each in a network namespace of its own. 0, or -errno. */
int weft_torus_netns_start(const struct weft_torus_options *o, const struct weft_ape_lattice *l,
			   unsigned int nodes, weft_torus_card_fn *become_card);
/* Into the namespaces of a card. 0, or -errno. */
int weft_torus_netns_enter(uint32_t card);

/* torus_part.c: HOST:PORT of another part; false: it is none, or there are too many. */
bool weft_torus_add_peer(struct weft_torus_options *o, const char *text);
/* Where each part is, and what their datagrams have in common. */
void weft_torus_place_parts(struct weft_torus_options *o);

/* Ends all cards and removes all files below home. How many cards there were, or -errno. */
int weft_torus_clear(const char *home);

#endif
