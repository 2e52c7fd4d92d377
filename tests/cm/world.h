/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A librdmacm without a pool: all of src/cm but the device, in virtual time. The test is the rest
 * of the world: it sees each datagram and sends what it likes.
 */
#ifndef WEFT_TESTS_CM_WORLD_H
#define WEFT_TESTS_CM_WORLD_H

#include "cm/agent.h"

#define WORLD_US    1u /* the member that we are; others are peers */
#define WORLD_PEER  2u
#define WORLD_PEERS 4u /* members below this exist */

struct world {
	uint64_t now_ns;
	bool full;		/* nothing can be posted */
	bool dead[WORLD_PEERS]; /* by member */
	/* by member: how many had its number before; nobody of these lives */
	uint64_t before[WORLD_PEERS];
	int found;	/* what looking for a listener's port answers; 0: WORLD_PEER's */
	uint32_t ports; /* bound */
};

extern struct world world;

/* Before each case; all is empty again. Identifiers must have been destroyed. */
void world_reset(void);
/* Lets time pass, with all that it brings. */
void world_pass(uint64_t ns);
/* A datagram of that member's, and what it brings. */
void world_arrive(uint16_t from, const uint8_t wire[WEFT_MAD_BYTES]);
/* The oldest datagram that we have posted; false when there is none. */
bool world_posted(uint16_t *to, uint8_t wire[WEFT_MAD_BYTES]);

#endif
