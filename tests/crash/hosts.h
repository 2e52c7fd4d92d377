/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Rounds on a pool of several hosts: which process is of which, and what becomes of whole hosts. */
#ifndef WEFT_TESTS_CRASH_HOSTS_H
#define WEFT_TESTS_CRASH_HOSTS_H

#include <stddef.h>

#include "world.h"

/* Makes the pool anew, for two to four hosts; none is there. */
bool hosts_make(struct world *world, uint32_t hosts, uint32_t silence_ms, bool atomics);
void hosts_end(struct world *world);
/* How many processes a round has: two to four of each host; few: two. */
uint32_t hosts_seats(const struct world *world, uint64_t *seed, bool few);
/* Says of which host each process is; some rounds kill one host as a whole, and some stop it for a while. */
void hosts_plan(struct world *world, uint64_t *seed, bool calm);
/* A host of the pool; 0 if it has one. */
uint32_t hosts_draw(const struct world *world, uint64_t *seed);
/* None of its processes lives. */
void hosts_delete_home(const struct world *world, uint32_t host);
/* An agent for each host recovers what its dead have left, and answers the others. False: something is left, which
 * `what` says. */
bool hosts_clean_up(struct world *world, char *what, size_t bytes);

#endif
