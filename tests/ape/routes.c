/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* routes X Y Z LINES ORDER TIE: each pair's way, a line each: from, to, and for each hop the cable,
 * the channel and whether it is the last one in its dimension. LINES is a mask; ORDER as 210. */
#include <stdio.h>
#include <stdlib.h>

#include "wire/ape/route.h"

static void walk(const struct weft_ape_lattice *l, uint32_t from, uint32_t to)
{
	struct weft_ape_coord at = weft_ape_lattice_coord(l, from);
	struct weft_ape_coord end = weft_ape_lattice_coord(l, to);
	unsigned int came = WEFT_APE_CABLES, vc = 0;
	struct weft_ape_hop hop;

	printf("%u %u", from, to);
	while (weft_ape_route(l, at, end, came, vc, 0x3f, &hop) == WEFT_APE_ON) {
		printf(" %u.%u%s", hop.cable, hop.vc, hop.last ? "!" : "");
		if (!weft_ape_lattice_neighbour(l, at, hop.cable, &at))
			exit(1);
		came = hop.cable ^ 1u;
		vc = hop.vc;
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	struct weft_ape_lattice l = {.channels = 2};
	int lines, order;

	if (argc < 7)
		return 2;
	for (int d = 0; d < 3; d++)
		l.size[d] = (uint8_t)strtoul(argv[1 + d], NULL, 10);
	lines = (int)strtol(argv[4], NULL, 10);
	order = (int)strtol(argv[5], NULL, 10);
	l.tie = (enum weft_ape_tie)strtol(argv[6], NULL, 10);
	for (int d = 0; d < 3; d++, order /= 10) {
		l.line[d] = lines >> d & 1;
		l.order[d] = (uint8_t)(order % 10);
	}
	if (!weft_ape_lattice_holds(&l))
		return 3;
	uint32_t nodes = (uint32_t)l.size[0] * l.size[1] * l.size[2];

	for (uint32_t from = 0; from < nodes; from++)
		for (uint32_t to = 0; to < nodes; to++)
			walk(&l, from, to);
	return 0;
}
