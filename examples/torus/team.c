/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is the same for all kinds of teams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "team_parts.h"

unsigned int team_slots;

void team_count_slots(unsigned int slots)
{
	team_slots = slots + TEAM_SUM_SLOTS;
	if (team_slots <= TEAM_SLOTS)
		return;
	fprintf(stderr, "%u slots are too many\n", slots);
	exit(1);
}

unsigned int team_neighbour(const struct team *team, unsigned int dimension, int way)
{
	unsigned int at[3];

	memcpy(at, team->at, sizeof(at));
	at[dimension] =
		(at[dimension] + team->size[dimension] + (unsigned int)way) % team->size[dimension];
	return team_rank(team, at);
}

unsigned int team_rank(const struct team *team, const unsigned int at[3])
{
	return at[0] + team->size[0] * (at[1] + team->size[1] * at[2]);
}

void team_place(struct team *team, unsigned int rank)
{
	team->rank = rank;
	team->ranks = team->size[0] * team->size[1] * team->size[2];
	team->at[0] = rank % team->size[0];
	team->at[1] = rank / team->size[0] % team->size[1];
	team->at[2] = rank / team->size[0] / team->size[1];
}

/* Recursive doubling: after step i each rank has the sum of 2^(i + 1). a + b is b + a to the bit. */
double team_sum(struct team *team, double value)
{
	unsigned int slot = team_slots - TEAM_SUM_SLOTS;
	size_t bytes;

	for (unsigned int other = 1; other < team->ranks; other *= 2, slot++) {
		*(double *)team_message(team, slot) = value;
		team_send(team, slot, team->rank ^ other, slot, sizeof(value));
		value += *(const double *)team_receive(team, slot, &bytes);
	}
	return value;
}

double team_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
