/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * differential SEED CASES: performs random verbs on the first device, and prints a line for each
 * case: what it did, which the seed alone decides, and what came of it.
 * tests/differential/README.md says what is done with the lines.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"

static const struct {
	void (*run)(struct world *world);
	uint32_t weight;
} kinds[] = {
	{case_traffic, 40},	  {case_modify, 25},	 {case_region, 10},
	{case_change_region, 2},  {case_queue_pair, 8},	 {case_completion_queue, 5},
	{case_post_in_state, 10}, {case_silent_peer, 2}, {case_armed, 3},
	{case_overrun, 1},	  {case_in_use, 1},
};

static void run_case(struct world *world)
{
	uint32_t total = 0, drawn;

	for (size_t i = 0; i < COUNT(kinds); i++)
		total += kinds[i].weight;
	drawn = pick(world, total);
	for (size_t i = 0; i < COUNT(kinds); drawn -= kinds[i++].weight) {
		if (drawn < kinds[i].weight) {
			kinds[i].run(world);
			return;
		}
	}
}

int main(int argc, char **argv)
{
	struct world world = {0};
	uint64_t seed;
	long cases;

	if (argc != 3) {
		fputs("usage: differential SEED CASES\n", stderr);
		return 2;
	}
	seed = strtoull(argv[1], NULL, 0);
	cases = strtol(argv[2], NULL, 0);
	world_open(&world);
	for (long i = 0; i < cases; i++) {
		world.chance = seed * 1000003 + (uint64_t)i; /* each case by itself */
		what("%llu.%ld ", (unsigned long long)seed, i);
		run_case(&world);
		line_end();
	}
	world_close(&world);
	return 0;
}
