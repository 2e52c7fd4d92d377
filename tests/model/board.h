/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The memory through which the conductor (drive.c) orders its workers about: processes, forked
 * once, that carry out steps by libibverbs (worker.c, calls.c). The conductor writes an order and
 * then `asked`, the worker its report and then `answered`; each sleeps on the other's word.
 */
#ifndef WEFT_TESTS_MODEL_BOARD_H
#define WEFT_TESTS_MODEL_BOARD_H

#include <stdatomic.h>

#include "model.h"

enum order_kind {
	ORDER_BEGIN = 1, /* memory is as the board has it */
	ORDER_STEP = 2,
	ORDER_CHECK = 4,
};

/* How a queue pair must be. */
struct expected_qp {
	bool live;
	bool waited; /* some request of it waited, or does */
	uint8_t state;
	struct step_modify attr;
};

struct order {
	unsigned int kinds; /* carried out in their order */
	struct step step;
	/* completions, events of completion queues, asynchronous events: how many must come */
	unsigned int completions, cq_events[CQS], async;
	struct expected_qp qp[QPS];
	bool asleep; /* leave what waits to the library: do not poll meanwhile */
};

struct report {
	int error, done;
	struct ibv_qp_cap cap; /* of a queue pair that was made */
	unsigned int n;	       /* of wc or async */
	struct ibv_wc wc[POLLS];
	struct async async[64];
	unsigned int cq_events[CQS];
	char trouble[256]; /* what a check found; "" for nothing */
};

struct desk {
	_Alignas(64) _Atomic uint32_t asked;
	_Alignas(64) _Atomic uint32_t answered;
	struct order order;
	struct report report;
};

/* The names of a region or queue pair stay after its end, so that stale ones can be used. */
struct board {
	struct {
		uint32_t lkey, rkey;
		int64_t base; /* what address 0 of the arena is called with these keys */
	} region[PROCESSES][REGIONS];
	uint32_t qpn[PROCESSES][QPS];
	uint8_t memory[PROCESSES][ARENA_BYTES]; /* as the model has it */
	struct desk desk[PROCESSES];
	uint8_t *arena;	      /* the same address in each worker, private to it */
	uint64_t patience_ns; /* of a worker, for what must come */
	bool lie; /* report some completions wrongly, so that the test can be seen to fail */
};

/* In a forked child: never returns. */
_Noreturn void worker_run(struct board *board, int process);

/* What a worker has. */
struct worker {
	struct board *board;
	int me;
	struct ibv_context *context;
	union ibv_gid gid;
	struct ibv_pd *pd[PDS];
	struct ibv_mr *mr[REGIONS];
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[CQS];
	unsigned int unacknowledged[CQS];
	struct ibv_qp *qp[QPS];
};

/* calls.c: one step, by the verb of that name. */
void worker_call(struct worker *w, const struct order *o, struct report *r);

void worker_nonblocking(int fd);
/* For waiting: false when the patience since *begun_ns (0: now) is over. Gives the core away. */
bool worker_wait(const struct worker *w, uint64_t *begun_ns);

void board_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t most_ns);
void board_wake(_Atomic uint32_t *word);

#endif
