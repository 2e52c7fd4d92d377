/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A requester, connected to an owner (owner.h) whose helper has to carry out its requests. */
#ifndef WEFT_TESTS_PLACE_LATE_H
#define WEFT_TESTS_PLACE_LATE_H

#include "owner.h"

#define MS 1000000ull
#define AT_ONCE                                                                                    \
	(300 * MS) /* of a verb, on a machine with other work: one that waits, waits a second */
#define STANDS (20 * MS)

/* What completes is in the rig's first queue. */
extern struct rig rig;
extern struct owner owner;
extern struct ibv_mr *late_local; /* twice the owner's bytes */

/* cmocka fixtures. */
int late_setup(void **state);
int late_teardown(void **state);

uint8_t *late_near(uint32_t at);
void late_fill(uint8_t *at, uint32_t bytes, uint32_t seed);
uint64_t late_took_ns(uint64_t begun_ns);

/* Of those bytes there are here, at all of the owner's memory; wr_id 7. Operands of atomics, and what lies
 * elsewhere, are the caller's to change. */
struct ibv_send_wr late_request(struct ibv_sge *sge, enum ibv_wr_opcode opcode, uint32_t bytes);
/* By that end; it is begun at once, whatever it needs. */
void late_begin(int end, struct ibv_send_wr *wr);
void late_post(int end, enum ibv_wr_opcode opcode, uint32_t bytes);
/* Polls so long, each time at once, and finds nothing. */
void late_stands(uint64_t ns);

#endif
