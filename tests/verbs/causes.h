/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What can be wrong with a request of queue pair 0 of a rig, for test_errors.c: each cause with the
 * operations that it can befall. errors.tsv says what then happens.
 */
#ifndef WEFT_TESTS_VERBS_CAUSES_H
#define WEFT_TESTS_VERBS_CAUSES_H

#include "rig.h"

enum verb { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CMP_SWAP, FETCH_ADD, RECV, VERBS };

#define CAUSES_BYTES 4096 /* bytes of memory at each side */

/* Keys of a region over all the memory of one side. In this order: one with all rights; one with a generation
 * that the region never had; 0; that of a region that may not be written; of one that peers may not use; of
 * one of another domain; of one that was deregistered. */
enum key { GOOD, GARBLED, ZERO, READ_ONLY, LOCAL, FOREIGN, STALE, KEYS };

struct cause {
	const char *name;
	unsigned int verbs; /* a bit for each operation that the cause can befall */
	/* receive: the key in the receive that the peer has posted */
	enum key here, there, receive;
	int from, to, receive_at; /* offsets in the memory of the side concerned */
	uint32_t length;	  /* of the request; 0 stands for 8 */
	/* bytes of the peer's receives; 0 stands for 64, NO_ROOM for none */
	int room;
	bool split; /* the bytes are in two elements, and `here` is of the second */
	bool no_receive;
	bool no_right; /* the peer's qp_access_flags lack the bit that the operation needs */
	/* a bit for each queue pair that has no resources for READ and atomics */
	uint8_t no_reads;
	/* a bit for each queue pair that waits for ever for a peer that does not answer */
	uint8_t forever;
	uint8_t rnr_retry;		 /* as in struct rig_wish */
	void (*before)(struct rig *rig); /* called right before the requests are posted */
	void (*after)(struct rig *rig);	 /* called right after */
};
#define NO_ROOM (-1)

extern const struct cause causes[];
extern const size_t ncauses;

extern const char *const verb_name[VERBS];
enum ibv_wr_opcode opcode_of(enum verb verb);
/* The bit of qp_access_flags that the peer must have for the operation; 0: it needs none. */
unsigned int right_of(enum verb verb);

/* Causes that no other test can share: each has a test of its own in test_errors.c. */
#define CAUSE_NO_ADDRESS   "address of no member"
#define CAUSE_PSN	   "sq_psn that is not the peer's rq_psn"
#define CAUSE_UNMAPPED	   "memory unmapped under a region in place"
#define CAUSE_FULL_QUEUE   "completion queue full"
#define CAUSE_SHARED_QUEUE "receives from a shared queue; queue pair goes to ERR"

#endif
