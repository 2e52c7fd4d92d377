/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Two connected queue pairs of the world, each with a region: requests go from near to far. */
#ifndef WEFT_TESTS_NIC_ENDS_H
#define WEFT_TESTS_NIC_ENDS_H

#include "nic/mr.h"
#include "nic/srq.h"
#include "world.h"

#define ENDS_BYTES 4000u /* of a request */
#define ENDS_PD	   7u
#define ENDS_DEPTH 8u /* of each queue */

/* Where atomics are, behind what the others touch: the word at far, the answers at near. */
#define ENDS_WORDS 4608u

struct end {
	struct weft_qp qp; /* its nic is NULL when it is destroyed */
	struct weft_mr mr; /* likewise when it has ended */
	uint64_t off;
	uint8_t *memory; /* more than ENDS_BYTES; all 'n' or 'f' */
};

/* How they are connected; 0: the usual. */
extern struct ends_wish {
	enum weft_qp_type type; /* of near; far's is what fits */
	uint32_t near_sq_psn, far_rq_psn, far_sq_psn, near_rq_psn;
	uint8_t rnr_retry;
	bool patient;  /* no timeout */
	bool no_reads; /* max_rd_atomic is 0 */
	bool in_place; /* only the machine reaches far's region (asked.h) */
	bool shared;   /* far receives from a queue of which others may take, too */
} ends_wish;

extern struct end ends_near, ends_far;
extern struct weft_cq ends_far_cq; /* near completes into the world's */
extern struct weft_srq ends_srq;
extern uint32_t ends_srq_number; /* with XRC */

/* In RTS, by the nic's transports. */
void ends_open(void);
void ends_close(void);

/* 8192 bytes of that value, and a region over them with all rights. */
void ends_region(struct end *e, uint8_t fill);
void ends_revoke(struct end *e);

void ends_move(struct end *e, enum weft_qp_state to, const struct end *peer);
void ends_connect(struct end *e, const struct end *peer); /* from RESET */
void ends_destroy(struct end *e);
void ends_destroy_srq(void);

/* Into far's region; in three elements, or in one of so many bytes. */
void ends_receive_into(uint64_t wr_id, uint32_t bytes);
/* wr_id 9, with room for any request. */
void ends_receive(void);

struct ends_request {
	enum weft_opcode opcode;
	uint64_t wr_id;
	uint8_t flags;
	bool empty;
	uint32_t imm;
	uint64_t compare_add, swap;
};

/* At far's region, with the bytes of that region, in three elements; an atomic at the word of far, and
 * its answer to near's, by wr_id. */
void ends_submit(const struct ends_request *request, const struct end *from);
/* The same, signaled, with wr_id 1. */
void ends_post(enum weft_opcode opcode, const struct end *from);

#endif
