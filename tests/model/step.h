/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The steps of a random sequence: each is one call of a verb by one process. Steps name objects by the
 * process and a slot, and memory by an offset in the arena, so that a sequence means the same whichever keys,
 * numbers and addresses a run gives out.
 */
#ifndef WEFT_TESTS_MODEL_STEP_H
#define WEFT_TESTS_MODEL_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>

/* How many slots each process has. */
#define PROCESSES    4
#define PDS	     2
#define REGIONS	     5
#define CQS	     2
#define QPS	     3

#define DEPTH	     8	 /* depth of the deepest queue */
#define SGES	     4	 /* one more than any queue pair allows */
#define INLINE_BYTES 64	 /* the most that is asked for */
#define INLINE_ROOM  256 /* the most that may be granted */
#define BATCH	     3	 /* requests in one call, at most */
#define POLLS	     32

/* Bytes of each process's arena, and of the slabs of which it is made. They are copied from the lower half of a slab to the upper
 * half of one only: what a card does when source and destination overlap is undefined. */
#define ARENA_BYTES 65536
#define SLAB_BYTES  16384 /* where there are several */
#define SLABS	    (ARENA_BYTES / SLAB_BYTES)

enum verb {
	ALLOC_PD,
	DEALLOC_PD,
	REG_MR,
	DEREG_MR,
	CREATE_CHANNEL,
	DESTROY_CHANNEL,
	CREATE_CQ,
	RESIZE_CQ,
	DESTROY_CQ,
	CREATE_QP,
	MODIFY_QP,
	DESTROY_QP,
	POST_RECV,
	POST_SEND,
	POLL_CQ,
	NOTIFY_CQ,
	GET_CQ_EVENTS,
	GET_ASYNC_EVENTS,
	STORE, /* no verb: the program stores into its own memory */
	VERBS,
};

struct name {
	uint8_t process, slot;
};

/* The key of the region that the slot has, or had last; that key with a generation that it never had; or
 * 0. */
enum key_kind { KEY_OF, KEY_GARBLED, KEY_ZERO };

struct key {
	struct name region;
	uint8_t kind;
};

struct step_sge {
	struct key key;
	int64_t at; /* offset in the arena of the key's process */
	uint32_t length;
};

struct step_receive {
	uint64_t wr_id;
	uint8_t num_sge;
	struct step_sge sge[SGES];
};

struct step_send {
	uint64_t wr_id;
	uint32_t opcode, flags;
	uint8_t num_sge;
	struct step_sge sge[SGES]; /* the keys of inline requests are ignored */
	struct step_sge remote;	   /* its length is ignored */
	uint32_t imm;
	uint64_t compare_add, swap;
};

enum region_kind { REGION_PLAIN, REGION_IOVA, REGION_ZERO_BASED };

struct step_region {
	uint8_t pd, kind;
	uint32_t access;
	uint32_t at, length;
};

struct step_qp {
	uint8_t pd, send_cq, recv_cq;
	bool signal_all;
	struct ibv_qp_cap cap;
};

struct step_modify {
	uint32_t mask;
	uint8_t to, current;
	uint8_t port, pkey, mtu, access;
	uint8_t min_rnr_timer, timeout, retry_cnt, rnr_retry;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	struct name dest;
};

struct step {
	uint8_t process, verb, slot;
	uint8_t count; /* of the requests in the call, or of the completions wanted */
	union {
		struct step_region region;
		struct {
			uint8_t channel;
			int32_t cqe;
		} cq;
		struct step_qp qp;
		struct step_modify modify;
		struct step_receive receive[BATCH];
		struct step_send send[BATCH];
		bool solicited_only;
		struct {
			uint32_t at, length, seed;
		} store;
	};
};

/* Prints one line, or a line for each request. */
void step_print(FILE *to, const struct step *step);
const char *step_verb(enum verb verb);
const char *step_state(int state);

/* The bytes that a STORE with that seed writes. */
void step_pattern(uint8_t *to, uint32_t length, uint32_t seed);

#endif
