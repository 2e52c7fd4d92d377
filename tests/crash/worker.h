/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One process under test, as its own files see it. */
#ifndef WEFT_TESTS_CRASH_WORKER_H
#define WEFT_TESTS_CRASH_WORKER_H

#include "world.h"

#define DEPTH	    16u
#define TEXT_BYTES  1024u /* a message at most */
#define SLOT_BYTES  16384u
#define CONST_BYTES 65536u
#define ALL                                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* The memory that others reach. Each writes only into the part that bears its number. */
struct shared {
	uint64_t constant[CONST_BYTES / 8];
	struct {
		uint8_t announced[SLOT_BYTES]; /* by a WRITE with immediate */
		uint8_t scratch[SLOT_BYTES];   /* read back by the writer */
		uint64_t counter[8];
	} from[SEATS];
	uint8_t received[SEATS][DEPTH][TEXT_BYTES];
	uint8_t local[2 * SLOT_BYTES]; /* where requests come from, and what READs bring */
	uint64_t guard[512];
};

/* The same in static memory, which does not move. Not aligned either. */
struct in_place {
	uint64_t constant[64];
	uint8_t scratch[SEATS][512];
	uint64_t guest[SEATS][4];
};

enum request {
	REQUEST_SEND,
	REQUEST_ANNOUNCE,
	REQUEST_WRITE, /* and READ back */
	REQUEST_READ,
	REQUEST_REACH,	    /* READ of memory in place */
	REQUEST_REACH_BACK, /* WRITE there, and READ back */
	REQUEST_COUNT,	    /* both atomics */
	REQUESTS,
};

struct link {
	struct ibv_qp *qp;
	uint32_t peer;
	bool open;
	bool lost; /* it gave an error */
	uint32_t sends_due, receives_due;
	uint32_t sent, got;	    /* messages */
	uint32_t announced, looked; /* WRITEs with immediate: by us, by the peer */
	uint64_t counted;	    /* by us at the peer */
	/* what is in flight */
	enum request request;
	uint32_t bytes, at;
	uint64_t old[2];
};

struct worker {
	struct world *world;
	struct seat *seat;
	uint32_t me;
	uint64_t seed;
	uint32_t idle; /* polls in vain */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct shared *shared;
	struct ibv_mr *mr[2];
	struct link link[SEATS];
};

extern struct in_place in_place;

/* Where a worker is stopped in the middle of an execution, what is taken from it ends its connections
 * (docs/decisions/0014). */
static inline bool may_lose(const struct worker *w, const struct link *l)
{
	return w->seat->kind == SLEEPER && (!w->me || !l->peer);
}

/* traffic.c */
void traffic_fill(struct worker *w);  /* the memory before anybody may reach it */
void traffic_check(struct worker *w); /* and in the end */
void traffic_receive(struct worker *w, struct link *l, uint32_t slot);
/* Carries out some requests of one kind at a peer, and looks at what they did. */
void traffic_run(struct worker *w, struct link *l);
/* One WRITE, to learn whether the peer lives. */
void traffic_probe(struct worker *w, struct link *l);
/* Handles completions; whether there were any. */
bool traffic_poll(struct worker *w);
/* Waits for some, perhaps asleep. */
void traffic_wait(struct worker *w);

/* churn.c: what processes do beside. */
void churn_begin(struct worker *w);
void churn_run(struct worker *w);
void churn_memory(struct worker *w);
void churn_end(struct worker *w);
void churn_take(struct worker *w);  /* from a worker that may be stopped */
void churn_serve(struct worker *w); /* requests for connections */

/* guest.c: in the domain of another. */
void guest_run(struct worker *w);

/* worker.c: brings a queue pair to RTS. */
void worker_connect(struct worker *w, struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn);
struct ibv_qp *worker_queue_pair(struct worker *w);

#endif
