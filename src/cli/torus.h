/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of `weft torus` share. Context: one thread, as it forks. */
#ifndef WEFT_CLI_TORUS_H
#define WEFT_CLI_TORUS_H

#include "link/torus.h"
#include "wire/ape/route.h"

struct weft_torus_options {
	const char *name, *node; /* node: as the user wrote it; NULL: none */
	bool json, each;
	struct weft_torus_shape shape;
	char home[PATH_MAX];
};

/* Nodes that one card can speak with. */
#define WEFT_TORUS_NODES 64u

/* A node's coordinates of a lattice; false: X,Y,Z it is not. */
bool weft_torus_parse_node(const char *text, uint8_t at[3]);
/* The lattice of a shape that holds. */
struct weft_ape_lattice weft_torus_lattice(const struct weft_torus_shape *shape);
/* The process that holds the lock of a node's door; 0: no card runs there. */
uint32_t weft_torus_card_pid(const char *node);

/* Each an exit status. */
int weft_torus_up(struct weft_torus_options *o);
int weft_torus_down(const struct weft_torus_options *o);
int weft_torus_status(const struct weft_torus_options *o);

/* Ends all cards and removes all files below home. How many cards there were, or -errno. */
int weft_torus_clear(const char *home);

#endif
