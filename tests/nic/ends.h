/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Two connected queue pairs of the world, of RC, each with a region: requests go from near to far. */
#ifndef WEFT_TESTS_NIC_ENDS_H
#define WEFT_TESTS_NIC_ENDS_H

#include "world.h"

#define ENDS_BYTES 4000u /* of a request */
#define ENDS_PD	   7u

struct end {
	struct weft_qp qp;
	struct weft_mr mr; /* its nic is NULL when it has ended */
	uint64_t off;
	uint8_t *memory; /* more than ENDS_BYTES; all 'n' or 'f' */
};

/* How they are connected; 0: the usual. */
extern struct ends_wish {
	enum weft_qp_type type;
	uint32_t near_sq_psn, far_rq_psn, far_sq_psn, near_rq_psn;
} ends_wish;

extern struct end ends_near, ends_far;
extern struct weft_cq ends_far_cq; /* near completes into the world's */

/* In RTS, by the nic's transports. */
void ends_open(void);
void ends_close(void);

/* 8192 bytes of that value, and a region over them with all rights. */
void ends_region(struct end *e, uint8_t fill);
void ends_revoke(struct end *e);

void ends_move(struct end *e, enum weft_qp_state to, const struct end *peer);
void ends_connect(struct end *e, const struct end *peer); /* from RESET */

/* wr_id 9, into far's region; in three elements. */
void ends_receive(void);
/* wr_id 1, at far's region, with the bytes of that region; likewise. */
void ends_post(enum weft_opcode opcode, const struct end *from);

#endif
