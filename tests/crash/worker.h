/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One process under test, for its own files. */
#ifndef WEFT_TESTS_CRASH_WORKER_H
#define WEFT_TESTS_CRASH_WORKER_H

#include "world.h"

#define DEPTH	    16u
#define TEXT_BYTES  1024u /* a message, at most */
#define SLOT_BYTES  16384u
#define CONST_BYTES 65536u
#define ALL                                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* The memory that other processes reach. Each writes only into the part that has its number. */
struct shared {
	uint64_t constant[CONST_BYTES / 8];
	struct {
		uint8_t announced[SLOT_BYTES]; /* written by WRITEs with immediate */
		uint8_t scratch[SLOT_BYTES];   /* written, and read back by the writer */
		uint64_t counter[8];
	} from[PROCESSES];
	uint8_t received[PROCESSES][DEPTH][TEXT_BYTES];
	uint8_t local[2 * SLOT_BYTES]; /* the source of requests, and the target of READs */
	uint64_t guard[512];
};

/* The same in static memory, which does not migrate and is not aligned. */
struct in_place {
	uint64_t constant[64];
	uint8_t scratch[PROCESSES][512];
	uint64_t guest[PROCESSES][4];
};

enum request {
	REQUEST_SEND,
	REQUEST_ANNOUNCE,
	REQUEST_WRITE, /* a WRITE, and a READ of the same bytes */
	REQUEST_READ,
	REQUEST_REACH,	    /* a READ of memory in place */
	REQUEST_REACH_BACK, /* a WRITE to memory in place, and a READ of the same bytes */
	REQUEST_COUNT,	    /* a fetch-and-add and a compare-and-swap */
	REQUESTS,
};

struct link {
	struct ibv_qp *qp;
	uint32_t peer;
	bool open;
	bool lost; /* it has had an error */
	uint32_t sends_due, receives_due;
	uint32_t sent, got; /* how many messages */
	/* how many WRITEs with immediate this worker has made, and has looked at */
	uint32_t announced, looked;
	uint64_t counted; /* what this worker has counted at the peer */
	/* the request under way */
	enum request request;
	uint32_t bytes, at;
	uint64_t old[2];
};

struct worker {
	struct world *world;
	struct process *process;
	uint32_t me;
	uint64_t seed;
	uint32_t idle; /* how many polls in a row found nothing */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct shared *shared;
	struct ibv_mr *mr[2];
	struct link link[PROCESSES];
};

extern struct in_place in_place;

static inline bool is_of_our_host(const struct worker *w, const struct process *peer)
{
	return peer->host == w->process->host;
}

/* Where a worker is stopped in the middle of an execution, a queue pair that is reset or destroyed meanwhile
 * ends its connection (docs/decisions/0014); and a host that stands still may be silent to others. */
static inline bool may_lose(const struct worker *w, const struct link *l)
{
	const struct process *peer = &w->world->process[l->peer];

	if (w->world->stands && !is_of_our_host(w, peer))
		return w->process->host + 1 == w->world->stands ||
		       peer->host + 1 == w->world->stands;
	return w->process->kind == SLEEPER && (!w->me || !l->peer);
}

/* traffic.c */
void traffic_fill(struct worker *w);  /* fills the memory before any peer may reach it */
void traffic_check(struct worker *w); /* and checks it in the end */
void traffic_receive(struct worker *w, struct link *l, uint32_t slot);
/* Carries out some requests of one kind with a peer, and checks their effects. */
void traffic_run(struct worker *w, struct link *l);
/* Makes one WRITE, to learn whether the peer lives. */
void traffic_probe(struct worker *w, struct link *l);
/* Handles completions; returns whether there were any. */
bool traffic_poll(struct worker *w);
/* Waits for completions, perhaps asleep. */
void traffic_wait(struct worker *w);

/* churn.c: what processes do beside their traffic. */
void churn_begin(struct worker *w);
void churn_run(struct worker *w);
void churn_memory(struct worker *w);
void churn_end(struct worker *w);
/* takes a queue pair's connection away from a worker that may be stopped */
void churn_take(struct worker *w);
void churn_serve(struct worker *w); /* serves requests for connections */

/* guest.c: plays the guest in the domain of another process. */
void guest_run(struct worker *w);

/* worker.c: makes a queue pair, and brings one to RTS. */
void worker_connect(struct worker *w, struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn);
struct ibv_qp *worker_queue_pair(struct worker *w);

#endif
