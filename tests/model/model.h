/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a card does for reliable connections, so briefly that it can be read against the InfiniBand
 * specification (volume 1, release 1.4; the .c files name its clauses):
 */
#ifndef WEFT_TESTS_MODEL_MODEL_H
#define WEFT_TESTS_MODEL_MODEL_H

#include "step.h"

/* serial: a number of an object that is never used twice; 0: there is no object. */

struct region {
	uint32_t serial;
	uint8_t pd, kind;
	uint32_t access;
	int64_t start, length;
};

struct sge {
	uint32_t region; /* the region's serial; 0: there is no such key */
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

/* A queue of requests: those at positions below `done` are carried out, slots below `freed` may be used
 * anew. */
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
	uint64_t begun; /* in SQD requests at positions below this go on */
	struct request request[DEPTH];
	struct receive receive[DEPTH];
};

struct completion {
	uint32_t qp; /* the queue pair's serial */
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
	unsigned int events; /* how many were not read yet */
	unsigned int n;
	struct completion completion[2 * DEPTH * QPS];
};

struct async {
	uint8_t qp; /* the queue pair's slot */
	enum ibv_event_type type;
};

struct process {
	uint32_t pd[PDS]; /* their serials */
	struct region region[REGIONS];
	bool channel;
	struct cq cq[CQS];
	struct qp qp[QPS];
	struct async async[64]; /* those that were not read yet */
	unsigned int nasync;
};

struct model {
	int processes;
	struct process process[PROCESSES];
	uint8_t (*memory)[ARENA_BYTES];
	uint32_t serial;
	uint32_t slab_bytes; /* no region leaves one; ARENA_BYTES: there is one */
	/* a card carries requests: it begins them in order as they are posted, where the nic itself
	 * begins one when it can be carried out */
	bool carried;
	/* set by model_apply: a bit for each process in which something may have changed */
	unsigned int touched;
};

/* What a call returns. */
struct answer {
	int error;
	/* how many requests were posted before the refused one; how many completions must be
	 * polled */
	int done;
};

/* A model without objects. memory: each process's arena, which the model keeps as it must be from then on. */
void model_init(struct model *m, int processes, uint32_t slab_bytes,
		uint8_t (*memory)[ARENA_BYTES]);
/* Whether the objects that the step uses exist, and those that it makes do not; and whether the specification
 * defines what happens. */
bool model_possible(struct model *m, const struct step *s);
/* Carries out a step, which must be possible. POLL_CQ and the verbs that get events take nothing away: the
 * functions below do. */
struct answer model_apply(struct model *m, const struct step *s);

/* Notes what ibv_create_qp has granted. False: less than was wanted, or more than the model has room for. */
bool model_grant(struct model *m, const struct step *create, const struct ibv_qp_cap *cap);

/* Takes the oldest completion with that wr_id from its queue. False: there is none. */
bool model_poll(struct model *m, struct name cq, uint64_t wr_id, struct completion *completion);
/* Takes the oldest asynchronous event about that queue pair. False: there is none. */
bool model_get_async(struct model *m, struct name qp, enum ibv_event_type *type);

/* Whether a request waits for its peer. */
bool model_waits(const struct qp *qp);

/* ---- For the files of the model only ---- */

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

/* Transitions to RESET, which discards all requests, and to ERR, which flushes them. */
void model_reset(struct model *m, struct qp *qp);
void model_fail(struct model *m, struct qp *qp);
/* Completes all outstanding requests with WR_FLUSH_ERR, in order. */
void model_flush(struct model *m, struct qp *qp);
/* Carries out, at all processes, whatever can be. */
void model_run(struct model *m);

void model_complete(struct model *m, struct qp *qp, const struct completion *c, bool solicited);
void model_forget(struct model *m, const struct qp *qp);
void model_arm(struct cq *cq, bool solicited_only);
void model_raise(struct model *m, struct qp *qp, enum ibv_event_type type);

#endif
