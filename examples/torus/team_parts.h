/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Between team.c and the kinds of teams. */
#ifndef WEFT_EXAMPLES_TEAM_PARTS_H
#define WEFT_EXAMPLES_TEAM_PARTS_H

#include "team.h"

#define TEAM_SUM_SLOTS 6u /* of 64 ranks; the last ones */

extern unsigned int team_slots; /* those of team_sum() among them */

unsigned int team_rank(const struct team *team, const unsigned int at[3]);
/* Sets team_slots, and ends the program if there are not so many. */
void team_count_slots(unsigned int slots);
/* Sets rank, ranks and at; the size is known. */
void team_place(struct team *team, unsigned int rank);

#endif
