/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The memory through which the conductor (drive.c) gives orders to its workers: processes, forked once, that
 * carry out steps by libibverbs (worker.c, calls.c). The conductor writes an order and then `asked`, the
 * worker its report and then `answered`; each sleeps on the word that the other writes.
 */
#ifndef WEFT_TESTS_MODEL_BOARD_H
#define WEFT_TESTS_MODEL_BOARD_H

#include <stdatomic.h>

#include "model.h"

enum order_kind {
	ORDER_BEGIN = 1, /* take over the arena's bytes from the board */
	ORDER_STEP = 2,
	ORDER_CHECK = 4,
	ORDER_SETTLE = 8, /* wait until nothing is under way */
};

/* The state that a queue pair must be in. */
struct expected_qp {
	bool live;
	bool waited; /* some request of the queue pair waits, or waited in this step */
	uint8_t state;
	struct step_modify attr;
};

struct order {
	unsigned int kinds; /* bits of order_kind, carried out in that order */
	struct step step;
	/* how many completions, events of completion queues and asynchronous events must come */
	unsigned int completions, cq_events[CQS], async;
	struct expected_qp qp[QPS];
	bool asleep; /* leave requests that wait to the library: do not poll meanwhile */
};

struct report {
	int error, done;
	struct ibv_qp_cap cap; /* as ibv_create_qp has granted it */
	unsigned int n;	       /* how many entries of wc or async are used */
	struct ibv_wc wc[POLLS];
	struct async async[64];
	unsigned int cq_events[CQS];
	char trouble[256]; /* what a check has found wrong; "": nothing */
};

struct desk {
	_Alignas(64) _Atomic uint32_t asked;
	_Alignas(64) _Atomic uint32_t answered;
	struct order order;
	struct report report;
};

/* The keys of a region and the number of a queue pair stay after its end, so that steps can use stale
 * ones. */
struct board {
	struct {
		uint32_t lkey, rkey;
		int64_t base; /* the address by which these keys name the arena's first byte */
	} region[PROCESSES][REGIONS];
	uint32_t qpn[PROCESSES][QPS];
	uint8_t memory[PROCESSES][ARENA_BYTES]; /* each process's arena, as the model has it */
	struct desk desk[PROCESSES];
	uint8_t *arena;	      /* at the same address in each worker, and private to it */
	uint64_t patience_ns; /* how long a worker waits for something that must come */
	bool lie;	      /* reports some completions wrongly, to show that the test can fail */
	uint64_t kinds;	      /* the seed by which workers choose kinds of memory */
};

/* The life of a worker, in a forked child: never returns. */
_Noreturn void worker_run(struct board *board, int process);

/* A worker's objects. */
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
	void *memory; /* of worker_memory */
};

/* calls.c: carries out one step, by the verb that it names. */
void worker_call(struct worker *w, const struct order *o, struct report *r);

void worker_nonblocking(int fd);
/* A turn of a loop that waits: gives the processor away. False: the patience since *begun_ns is over (0: it
 * begins now). */
bool worker_wait(const struct worker *w, uint64_t *begun_ns);

void board_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t most_ns);
void board_wake(_Atomic uint32_t *word);

#endif
