/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a card does for reliable connections, in so few words that it can be read against the
 * InfiniBand specification (volume 1, release 1.4; clauses named in the .c files):
 *
 *   objects.c      what there is, and what may not go because something uses it
 *   states.c       queue pairs move between states
 *   requester.c    requests are posted, checked and carried out in order
 *   responder.c    what the other side makes of them
 *   completions.c  completions, and the events that announce them
 *
 * Time does not pass in it: a wait ends at once when its patience is short, and never when it is
 * not. Everything that a step sets off is done when model_apply returns.
 */
#ifndef WEFT_TESTS_MODEL_MODEL_H
#define WEFT_TESTS_MODEL_MODEL_H

#include "step.h"

/* serial: of an object, never used twice; 0: there is none. */

struct region {
	uint32_t serial;
	uint8_t pd, kind;
	uint32_t access;
	int64_t start, length;
};

struct sge {
	uint32_t region; /* serial; 0: no such key */
	int64_t at;
	uint32_t length;
};

struct receive {
	uint64_t wr_id;
	uint8_t num_sge;
	struct sge sge[SGES];
};

struct request {
	uint64_t wr_id;
	uint32_t opcode, flags, imm;
	uint8_t num_sge;
	struct sge sge[SGES], remote;
	uint64_t compare_add, swap;
	uint8_t bytes[INLINE_ROOM];
};

/* A queue of requests: positions below `done` are carried out, below `free` may be used anew. */
struct queue {
	uint64_t posted, done, freed;
};

struct qp {
	uint32_t serial;
	struct name name;
	enum ibv_qp_state state;
	uint8_t pd, send_cq, recv_cq;
	bool signal_all;
	struct ibv_qp_cap cap;
	struct step_modify attr;
	uint32_t dest; /* serial of the destination */
	struct queue sq, rq;
	uint64_t begun; /* requests before it go on in SQD */
	struct request request[DEPTH];
	struct receive receive[DEPTH];
};

struct completion {
	uint32_t qp; /* serial */
	bool of_receive;
	uint64_t position;
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len, imm;
	bool with_imm;
};

enum armed { NOT_ARMED, ARMED_SOLICITED, ARMED_ANY };

struct cq {
	uint32_t serial;
	bool channel;
	enum armed armed;
	unsigned int events; /* not yet read */
	unsigned int n;
	struct completion completion[2 * DEPTH * QPS];
};

struct async {
	uint8_t qp; /* slot */
	enum ibv_event_type type;
};

struct process {
	uint32_t pd[PDS]; /* serials */
	struct region region[REGIONS];
	bool channel;
	struct cq cq[CQS];
	struct qp qp[QPS];
	struct async async[64]; /* not yet read */
	unsigned int nasync;
};

struct model {
	int processes;
	struct process process[PROCESSES];
	uint8_t (*memory)[ARENA_BYTES];
	uint32_t serial;
	bool carried; /* a card has begun what was posted, where the nic itself begins one when it can be carried out */
	/* Set by model_apply: processes in which something may have changed. */
	unsigned int touched;
};

/* What a call returns. */
struct answer {
	int error;
	int done; /* requests before the refused one; completions polled */
};

/* No objects. memory: of each process, kept as it must be from then on. */
void model_init(struct model *m, int processes, uint8_t (*memory)[ARENA_BYTES]);
/* Whether the objects are there that the step names, and those that it makes are not; and whether
 * the specification says what happens. */
bool model_possible(struct model *m, const struct step *s);
/* A possible step. POLL_CQ and the GETs take nothing away: see below. */
struct answer model_apply(struct model *m, const struct step *s);

/* A queue pair was made with so much, at least what was wanted. False: with less, or with more than
 * the model holds. */
bool model_grant(struct model *m, const struct step *create, const struct ibv_qp_cap *cap);

/* The oldest completion of its queue with that wr_id, which is taken away; false: there is none. */
bool model_poll(struct model *m, struct name cq, uint64_t wr_id, struct completion *completion);
/* The oldest event about that queue pair, taken away. */
bool model_get_async(struct model *m, struct name qp, enum ibv_event_type *type);

/* Whether a request waits for its peer. */
bool model_waits(const struct qp *qp);

/* ---- Between the files of the model ---- */

static inline struct process *process_of(struct model *m, const struct qp *qp)
{
	return &m->process[qp->name.process];
}

static inline struct region *region_by_serial(struct process *p, uint32_t serial)
{
	for (int i = 0; serial && i < REGIONS; i++)
		if (p->region[i].serial == serial)
			return &p->region[i];
	return NULL;
}

struct qp *model_qp(struct model *m, uint32_t serial);

struct answer model_objects(struct model *m, const struct step *s);
struct answer model_modify(struct model *m, struct qp *qp, const struct step_modify *modify);
struct answer model_post_recv(struct model *m, struct qp *qp, const struct step *s);
struct answer model_post_send(struct model *m, struct qp *qp, const struct step *s);

/* RESET: forgets all. ERR: flushes all. */
void model_reset(struct model *m, struct qp *qp);
void model_fail(struct model *m, struct qp *qp);
/* Completes all that is outstanding with WR_FLUSH_ERR, in order. */
void model_flush(struct model *m, struct qp *qp);
/* Carries out all that can be, everywhere. */
void model_run(struct model *m);

void model_complete(struct model *m, struct qp *qp, const struct completion *c, bool solicited);
void model_forget(struct model *m, const struct qp *qp);
void model_arm(struct cq *cq, bool solicited_only);
void model_raise(struct model *m, struct qp *qp, enum ibv_event_type type);

#endif
