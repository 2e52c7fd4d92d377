/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What can be wrong with a request of queue pair 0 of a rig, for test_errors.c: each cause with the
 * verbs that it can befall. What then happens stands in errors.tsv.
 */
#ifndef WEFT_TESTS_VERBS_CAUSES_H
#define WEFT_TESTS_VERBS_CAUSES_H

#include "rig.h"

enum verb { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CMP_SWAP, FETCH_ADD, RECV, VERBS };

#define CAUSES_BYTES 4096 /* of the memory of each side */

/* Of a region over all the memory of a side: with all rights; with a generation that it never had;
 * 0; that may not be written; that peers may not use; of another domain; of one that has ended. */
enum key { GOOD, GARBLED, ZERO, READ_ONLY, LOCAL, FOREIGN, STALE, KEYS };

struct cause {
	const char *name;
	unsigned int verbs;	       /* bits */
	enum key here, there, receive; /* receive: of what the peer has posted */
	int from, to, receive_at;      /* in the memory of their side */
	uint32_t length;	       /* 0: 8 */
	int room;		       /* of the peer's receives; 0: 64; NO_ROOM */
	bool split; /* the bytes are in two elements, and `here` is of the second */
	bool no_receive;
	bool no_right;	   /* the peer's queue pair has all but the one that the verb needs */
	uint8_t no_reads;  /* bits of queue pairs with no resources for READ and atomics */
	uint8_t forever;   /* bits of queue pairs that wait for a silent peer for ever */
	uint8_t rnr_retry; /* as in struct rig_wish */
	void (*before)(struct rig *rig); /* done when all is ready for the requests */
	void (*after)(struct rig *rig);	 /* when they have been posted */
};
#define NO_ROOM (-1)

extern const struct cause causes[];
extern const size_t ncauses;

extern const char *const verb_name[VERBS];
enum ibv_wr_opcode opcode_of(enum verb verb);
/* What the peer's queue pair must have for it; 0: nothing. */
unsigned int right_of(enum verb verb);

/* Those that are not of the usual kind: test_errors.c plays them. */
#define CAUSE_NO_ADDRESS   "address of nobody"
#define CAUSE_PSN	   "sq_psn that is not the peer's rq_psn"
#define CAUSE_UNMAPPED	   "memory unmapped under a region in place"
#define CAUSE_FULL_QUEUE   "completion queue full"
#define CAUSE_SHARED_QUEUE "receives from a shared queue; queue pair goes to ERR"

#endif
