/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A requester, connected to an owner (owner.h), whose helper has to carry out the requests on its memory. */
#ifndef WEFT_TESTS_PLACE_LATE_H
#define WEFT_TESTS_PLACE_LATE_H

#include "owner.h"

#define MS 1000000ull
/* more than a verb takes on a machine with other work; one that waits for a helper waits a second */
#define AT_ONCE (700 * MS)
#define STANDS	(20 * MS)

/* Its requests complete into the rig's first queue. */
extern struct rig rig;
extern struct owner owner;
extern struct ibv_mr *late_local; /* a region here, twice as long as the owner's memory */

/* cmocka fixtures. */
int late_setup(void **state);
int late_teardown(void **state);

uint8_t *late_near(uint32_t at);
void late_fill(uint8_t *at, uint32_t bytes, uint32_t seed);
uint64_t late_took_ns(uint64_t begun_ns);

/* A request of so many of the bytes here, on all of the owner's memory, with wr_id 7. The operands of an
 * atomic, and other addresses, are for the caller to set. */
struct ibv_send_wr late_request(struct ibv_sge *sge, enum ibv_wr_opcode opcode, uint32_t bytes);
/* Posts it at that end, which must return at once, whatever the request needs. */
void late_begin(int end, struct ibv_send_wr *wr);
void late_post(int end, enum ibv_wr_opcode opcode, uint32_t bytes);
/* Polls for so long: each poll must return at once, and find nothing. */
void late_stands(uint64_t ns);

#endif
