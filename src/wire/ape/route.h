/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which way: dimension order in a lattice of up to three dimensions, each a ring or a line. The
 * offset in one dimension is brought to zero before the next is looked at. All nodes of a lattice
 * have the same struct weft_ape_lattice.
 */
#ifndef WEFT_WIRE_APE_ROUTE_H
#define WEFT_WIRE_APE_ROUTE_H

#include "wire/ape/packet.h"

/* Cables: dimension × 2, plus 1 towards smaller coordinates. Intra-tile ports follow. */
#define WEFT_APE_CABLES 6u
#define WEFT_APE_LOCALS 8u
#define WEFT_APE_PORTS	(WEFT_APE_CABLES + WEFT_APE_LOCALS)

static inline unsigned int weft_ape_cable(unsigned int dimension, bool minus)
{
	return 2 * dimension + minus;
}

/* Which way a packet takes whose destination is as far by either, in a ring of an even size. */
enum weft_ape_tie {
	WEFT_APE_TIE_PLUS,
	WEFT_APE_TIE_MINUS,
	WEFT_APE_TIE_PARITY, /* plus where the coordinate is even */
	WEFT_APE_TIES,
};

struct weft_ape_lattice {
	uint8_t size[WEFT_APE_DIMENSIONS];  /* 1 to 64, 32, 32 */
	bool line[WEFT_APE_DIMENSIONS];	    /* no cable between size - 1 and 0 */
	uint8_t order[WEFT_APE_DIMENSIONS]; /* of dimensions; X Y Z if it is none */
	enum weft_ape_tie tie;
	uint8_t channels; /* 2; with 1, rings of four and more can deadlock */
};

/* Whether a lattice can be so: the header must be able to address all of it. */
bool weft_ape_lattice_holds(const struct weft_ape_lattice *l);
static inline bool weft_ape_lattice_has(const struct weft_ape_lattice *l, struct weft_ape_coord c)
{
	return c.at[0] < l->size[0] && c.at[1] < l->size[1] && c.at[2] < l->size[2];
}
/* The most hops that any way has: a packet that has made more has gone astray. */
uint32_t weft_ape_lattice_hops(const struct weft_ape_lattice *l);
/* X first: 0 to nodes - 1. */
uint32_t weft_ape_lattice_index(const struct weft_ape_lattice *l, struct weft_ape_coord c);
struct weft_ape_coord weft_ape_lattice_coord(const struct weft_ape_lattice *l, uint32_t index);
/* Whether the node has this cable, and the node at its other end. A ring of one has none. */
bool weft_ape_lattice_neighbour(const struct weft_ape_lattice *l, struct weft_ape_coord me,
				unsigned int cable, struct weft_ape_coord *other);

enum weft_ape_way {
	WEFT_APE_ON,	  /* by *hop */
	WEFT_APE_HERE,	  /* this is the destination */
	WEFT_APE_NOWHERE, /* not in the lattice */
};

struct weft_ape_hop {
	uint8_t cable, vc;
	bool last;
};

/*
 * The next hop of a packet that came in by `from` (a cable, or anything else for a packet that
 * begins here) on virtual channel vc. enabled: the cables that are, as bits; it decides only where
 * a ring is as long by plus as by minus, or longer by one.
 */
enum weft_ape_way weft_ape_route(const struct weft_ape_lattice *l, struct weft_ape_coord me,
				 struct weft_ape_coord to, unsigned int from, unsigned int vc,
				 uint8_t enabled, struct weft_ape_hop *hop);

#endif
