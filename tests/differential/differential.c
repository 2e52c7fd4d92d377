/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * differential GROUP SEED CASES [QUIET_MS]: performs random verbs on the first device, and prints a line for
 * each case: what it did, which the seed alone decides, and its outcome. QUIET_MS says how long a datagram
 * may take; 0 where the thread that posts it carries it out. tests/differential/README.md says what the lines
 * are for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

#define MAX_KINDS    12
#define MUST_COME_MS 1000

static const struct group {
	const char *name;
	struct {
		void (*run)(struct world *world);
		uint32_t weight;
	} kinds[MAX_KINDS];
} groups[] = {
	{"connected",
	 {{case_traffic, 40},
	  {case_modify, 25},
	  {case_region, 10},
	  {case_change_region, 2},
	  {case_queue_pair, 8},
	  {case_completion_queue, 5},
	  {case_post_in_state, 10},
	  {case_silent_peer, 2},
	  {case_armed, 3},
	  {case_overrun, 1},
	  {case_in_use, 1}}},
	{"unreliable",
	 {{case_unreliable_traffic, 50},
	  {case_modify_unreliable, 25},
	  {case_unreliable_post_in_state, 15}}},
	{"shared",
	 {{case_srq, 30}, {case_srq_full, 10}, {case_srq_low, 2}, {case_srq_traffic, 60}}},
	{"extended",
	 {{case_cq_ex, 15},
	  {case_qp_ex, 15},
	  {case_extended_traffic, 40},
	  {case_extended_datagrams, 30}}},
	{"window", {{case_window, 60}, {case_alloc_window, 1}}},
	{"datagram",
	 {{case_datagrams, 50},
	  {case_modify_datagram, 20},
	  {case_datagram_in_state, 12},
	  {case_address, 10},
	  {case_answer, 8}}},
};

static void run_case(struct world *world, const struct group *group)
{
	uint32_t total = 0, drawn;

	for (size_t i = 0; i < MAX_KINDS; i++)
		total += group->kinds[i].weight;
	drawn = pick(world, total);
	for (size_t i = 0; i < MAX_KINDS; drawn -= group->kinds[i++].weight) {
		if (drawn < group->kinds[i].weight) {
			group->kinds[i].run(world);
			return;
		}
	}
}

static const struct group *find_group(const char *name)
{
	for (size_t i = 0; i < COUNT(groups); i++) {
		if (strcmp(groups[i].name, name) == 0)
			return &groups[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct group *group = argc < 4 ? NULL : find_group(argv[1]);
	struct world world = {0};
	uint64_t seed;
	long cases;

	if (!group) {
		fputs("usage: differential GROUP SEED CASES [QUIET_MS]\n", stderr);
		return 2;
	}
	seed = strtoull(argv[2], NULL, 0);
	cases = strtol(argv[3], NULL, 0);
	world.quiet_ms = argc > 4 ? atoi(argv[4]) : 0;
	world.event_ms = world.quiet_ms ? world.quiet_ms : MUST_COME_MS;
	world_open(&world);
	for (long i = 0; i < cases; i++) {
		world.chance = seed * 1000003 + (uint64_t)i; /* each case has a seed of its own */
		what("%llu.%ld ", (unsigned long long)seed, i);
		run_case(&world, group);
		line_end();
	}
	world_close(&world);
	return 0;
}
