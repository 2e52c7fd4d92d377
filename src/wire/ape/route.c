/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/route.h"

static const uint8_t limits[WEFT_APE_DIMENSIONS] = {64, 32, 32};

bool weft_ape_lattice_holds(const struct weft_ape_lattice *l)
{
	for (unsigned int d = 0; d < WEFT_APE_DIMENSIONS; d++)
		if (!l->size[d] || l->size[d] > limits[d])
			return false;
	return l->tie < WEFT_APE_TIES && l->channels >= 1 && l->channels <= WEFT_APE_CHANNELS;
}

uint32_t weft_ape_lattice_hops(const struct weft_ape_lattice *l)
{
	return l->size[0] + l->size[1] + l->size[2];
}

uint32_t weft_ape_lattice_index(const struct weft_ape_lattice *l, struct weft_ape_coord c)
{
	return c.at[0] + l->size[0] * (c.at[1] + (uint32_t)l->size[1] * c.at[2]);
}

struct weft_ape_coord weft_ape_lattice_coord(const struct weft_ape_lattice *l, uint32_t index)
{
	return (struct weft_ape_coord){{index % l->size[0], index / l->size[0] % l->size[1],
					index / l->size[0] / l->size[1]}};
}

bool weft_ape_lattice_neighbour(const struct weft_ape_lattice *l, struct weft_ape_coord me,
				unsigned int cable, struct weft_ape_coord *other)
{
	unsigned int d = cable / 2, size = l->size[d], at = me.at[d];
	bool minus = cable % 2;

	if (size == 1 || (l->line[d] && at == (minus ? 0 : size - 1)))
		return false;
	*other = me;
	other->at[d] = (at + (minus ? size - 1 : 1)) % size;
	return true;
}

static unsigned int dimension(const struct weft_ape_lattice *l, unsigned int i)
{
	unsigned int seen = 0;

	for (unsigned int d = 0; d < WEFT_APE_DIMENSIONS; d++)
		seen |= 1u << (l->order[d] & 3);
	return seen == 7 ? l->order[i] : i;
}

static bool goes_minus(const struct weft_ape_lattice *l, unsigned int d, unsigned int at,
		       unsigned int ahead, uint8_t enabled)
{
	unsigned int half = l->size[d] / 2;

	if (ahead != half)
		return ahead > half;
	if (!(enabled >> weft_ape_cable(d, false) & 1))
		return true;
	if (l->size[d] % 2 || l->tie == WEFT_APE_TIE_PLUS)
		return false;
	return l->tie == WEFT_APE_TIE_MINUS || at % 2;
}

/* The hop in dimension d. A packet that came by a cable of that dimension keeps the virtual channel with which it began there. */
static void along(const struct weft_ape_lattice *l, unsigned int d, unsigned int at,
		  unsigned int to, unsigned int from, unsigned int vc, uint8_t enabled,
		  struct weft_ape_hop *hop)
{
	unsigned int size = l->size[d], ahead = (to + size - at) % size;
	bool minus = l->line[d] ? to < at : goes_minus(l, d, at, ahead, enabled);
	unsigned int hops = minus ? size - ahead : ahead;
	bool wraps = minus ? hops > at : at + hops >= size;

	hop->cable = weft_ape_cable(d, minus);
	hop->last = hops == 1;
	hop->vc = from / 2 == d && from < WEFT_APE_CABLES ? vc : wraps;
	if (l->channels == 1)
		hop->vc = 0;
}

enum weft_ape_way weft_ape_route(const struct weft_ape_lattice *l, struct weft_ape_coord me,
				 struct weft_ape_coord to, unsigned int from, unsigned int vc,
				 uint8_t enabled, struct weft_ape_hop *hop)
{
	if (!weft_ape_lattice_has(l, to))
		return WEFT_APE_NOWHERE;
	for (unsigned int i = 0; i < WEFT_APE_DIMENSIONS; i++) {
		unsigned int d = dimension(l, i);

		if (me.at[d] == to.at[d])
			continue;
		along(l, d, me.at[d], to.at[d], from, vc, enabled, hop);
		return WEFT_APE_ON;
	}
	return WEFT_APE_HERE;
}
