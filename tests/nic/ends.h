/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Two connected queue pairs of the world, each with a region: requests go from near to the peer. */
#ifndef WEFT_TESTS_NIC_ENDS_H
#define WEFT_TESTS_NIC_ENDS_H

#include "nic/mr.h"
#include "nic/srq.h"
#include "world.h"

#define ENDS_BYTES  4000u /* of a request */
#define ENDS_PD	    7u
#define ENDS_DEPTH  8u	   /* of each queue */
#define ENDS_RNR_NS 10000u /* after which a request that found no receive is sent again */

/* Offset of the words of atomics, behind the bytes of other requests: the operand at the peer, the results at
 * near. */
#define ENDS_WORDS 4608u

#define ENDS_ALL   8192u /* of an end's memory */

struct ends_memory;

struct end {
	struct weft_qp qp;		/* qp.nic is NULL when the queue pair is destroyed */
	struct weft_mr mr;		/* mr.nic is NULL when the region is deregistered */
	const struct ends_memory *kind; /* NULL: the test has memory of its own */
	void *device;			/* what `kind` has of it; the pool's: nothing */
	uint64_t off;			/* as a piece of a region says where it lies */
	/* ENDS_ALL bytes, at first all 'n' at near or 'p' at the peer; if it is a device's, only `kind` reads and writes them */
	uint8_t *memory;
};

/* Memory of a kind. Each function ends the test if it fails. */
struct ends_memory {
	void (*begin)(struct end *e); /* sets `device`, `off` and `memory` */
	void (*revoke)(
		struct end *e); /* its region has ended, and its bytes stay; NULL: nothing to do */
	void (*end)(struct end *e);
	void (*write)(const struct end *e, uint64_t at, const void *from, uint64_t bytes);
	void (*read)(const struct end *e, uint64_t at, void *to, uint64_t bytes);
};

/* What the memory of each end is, unless only the machine is to reach the peer's; at first the pool's. */
extern const struct ends_memory ends_pooled, *ends_near_kind, *ends_peer_kind;

/* How the two are connected; 0: in the usual way. */
extern struct ends_wish {
	enum weft_qp_type type; /* of near; the peer has the type that fits */
	uint32_t near_sq_psn, peer_rq_psn, peer_sq_psn, near_rq_psn;
	uint8_t rnr_retry;
	bool patient;  /* no timeout */
	bool no_reads; /* max_rd_atomic is 0 */
	bool in_place; /* only the machine reaches the peer's region (asked.h) */
	bool shared;   /* the peer receives from a shared receive queue */
	bool apart;    /* the two have the addresses of two nodes of a torus (nodes.h) */
} ends_wish;

/* Those addresses: near's, the peer's. */
extern const uint8_t ends_node_gid[2][16];

extern struct end ends_near, ends_peer;
extern struct weft_cq ends_peer_cq; /* near's completions are in world.cq */
extern struct weft_srq ends_srq;
extern uint32_t ends_srq_number; /* with XRC the number that requests name */

/* Both in RTS, by the first of the nic's transports that fits. */
void ends_open(void);
void ends_close(void);

/* ENDS_ALL bytes of that value, and a region over them with all rights. */
void ends_region(struct end *e, uint8_t fill);
void ends_revoke(struct end *e);
void ends_free(struct end *e); /* after ends_revoke */

void ends_modify(struct end *e, enum weft_qp_state to, const struct end *peer);
void ends_connect(struct end *e, const struct end *peer); /* from RESET */
void ends_destroy(struct end *e);
void ends_destroy_srq(void);

/* Posts a receive into the peer's region: of three elements, or of one element of so many bytes. */
void ends_receive_into(uint64_t wr_id, uint32_t bytes);
/* The same with wr_id 9 and room for any request. */
void ends_receive(void);

struct ends_request {
	enum weft_opcode opcode;
	uint64_t wr_id;
	uint8_t flags;
	bool empty;
	uint32_t imm;
	uint64_t compare_add, swap;
};

/* Posts a request to the peer's region, with bytes of from's region in three elements. An atomic is on the peer's word,
 * and its result goes to from's word number wr_id. */
void ends_submit(const struct ends_request *request, const struct end *from);
/* The same, signaled, with wr_id 1. */
void ends_post(enum weft_opcode opcode, const struct end *from);

#endif
