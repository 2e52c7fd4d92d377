/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two nodes of a torus in virtual time, between the two ends (ends.h): one card carries both, with an engine of RoCE v2 each
 * (card/wire.h), and what the engine of one sends goes as packets of verbs through network interfaces, routers and cables
 * to that of the other. The engines' time is the world's; the torus' is its own, and runs on until all has arrived.
 */
#ifndef WEFT_TESTS_NIC_NODES_H
#define WEFT_TESTS_NIC_NODES_H

#include <stdbool.h>
#include <stdint.h>

/* flips: in so many of a million beats of each cable. The world is attached, and ends_wish.apart is to be set. */
int nodes_begin(uint32_t flips);
void nodes_end(void);

/* Carries all that is posted until nothing rehomed. Held, it hears doorbells, and no engine has a turn. */
void nodes_carry(void);
void nodes_hold(bool held);

/* How many packets of verbs have come from cables, and how many went again as one before was damaged. */
uint64_t nodes_came(void);
uint64_t nodes_again(void);

#endif
