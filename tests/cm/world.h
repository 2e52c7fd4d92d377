/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A librdmacm without a pool: all of src/cm but the device, in virtual time. The test is the rest of the
 * world: it sees each datagram, and sends what it likes.
 */
#ifndef WEFT_TESTS_CM_WORLD_H
#define WEFT_TESTS_CM_WORLD_H

#include "cm/agent.h"

#define WORLD_US    1u /* the member that this process is; the others are its peers */
#define WORLD_PEER  2u
#define WORLD_PEERS 4u /* members below this exist */

struct world {
	uint64_t now_ns;
	bool full;		/* no datagram can be posted */
	bool dead[WORLD_PEERS]; /* indexed by member */
	/* for each member number, how many members have had it before; none of those lives */
	uint64_t before[WORLD_PEERS];
	int found;	/* what looking for a listener answers; 0: WORLD_PEER listens */
	uint32_t ports; /* how many are bound */
};

extern struct world world;

/* Called before each case: everything is empty again. All identifiers must have been destroyed. */
void world_reset(void);
/* Lets time pass, with all that happens meanwhile. */
void world_pass(uint64_t ns);
/* A datagram of that member arrives, and is handled. */
void world_arrive(uint16_t from, const uint8_t wire[WEFT_MAD_BYTES]);
/* Takes the oldest datagram that this process has posted. False: there is none. */
bool world_posted(uint16_t *to, uint8_t wire[WEFT_MAD_BYTES]);

#endif
