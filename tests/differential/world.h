/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the cases of the differential test share: chance, one line of output for each case, the
 * device with its memory, and two queue pairs. By the public libibverbs alone. What must not fail
 * ends the process. Context: one thread.
 *
 * A line is `WHAT => OUTCOME`. WHAT follows from the seed alone; OUTCOME holds no number, address
 * or time that another device may choose otherwise.
 */
#ifndef WEFT_TESTS_DIFFERENTIAL_WORLD_H
#define WEFT_TESTS_DIFFERENTIAL_WORLD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SLOT_BYTES   16384 /* one request's part of a buffer */
#define SLOTS	     4
#define BUFFER_BYTES (SLOT_BYTES * SLOTS)
#define FIRST_RECV   101	 /* wr_id: those from here on are receives */
#define QKEY	     0x11111111u /* of queue pair 1 */
#define ALL_RIGHTS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* Queue pair 0 asks with memory LOCAL, queue pair 1 answers with memory TARGET and RECEIVE. */
enum buffer { LOCAL, TARGET, RECEIVE, BUFFERS };

struct world {
	uint64_t chance;
	bool simple; /* requests have one element at most, and nothing inline */
	struct ibv_context *context;
	struct ibv_device_attr device;
	uint32_t mtu; /* bytes */
	int quiet_ms; /* what has not come so long after the rest will not come */
	int event_ms; /* the same for an event */
	union ibv_gid gid;
	uint8_t gid_index;
	struct ibv_pd *pd;
	struct ibv_pd *other_pd;
	uint8_t *memory[BUFFERS];
	struct ibv_mr *all[BUFFERS];	 /* with all rights */
	struct ibv_mr *none[BUFFERS];	 /* with none */
	struct ibv_mr *foreign[BUFFERS]; /* with all rights, of the other domain */
	uint32_t dead_key;		 /* of a region that is no more */
};

void world_open(struct world *world);
void world_close(struct world *world);
/* Other bytes in each place of each buffer. */
void world_fill(struct world *world);
/* A digest of all buffers. */
uint32_t world_digest(const struct world *world);

/* Below n. */
uint32_t pick(struct world *world, uint32_t n);
bool one_in(struct world *world, uint32_t n);
/* A size near 0, in the middle, or near the device's limit; told as such. */
int pick_size(struct world *world, const char *label, int limit);

/* What is printed before `=>`, after it, and the end of the line. */
__attribute__((format(printf, 1, 2))) void what(const char *format, ...);
__attribute__((format(printf, 1, 2))) void outcome(const char *format, ...);
void line_end(void);
/* A call's result that is 0 or an errno, by name. */
void outcome_errno(const char *call, int error);
/* The bits of a set by their names, joined by |, or 0. */
void what_bits(const char *label, uint32_t bits, const char *const *names, size_t count);
const char *state_name(enum ibv_qp_state state);
/* Ends the process unless ok. */
void need(bool ok, const char *call);

/* How the queue pairs differ from the usual. */
struct wish {
	enum ibv_qp_type type;
	struct ibv_srq *srq; /* of queue pair 1 */
	bool extended;	     /* queue pairs and completion queues */
	uint64_t fields;     /* that these tell */
	bool aborts;	     /* what was put together is not posted */
	uint32_t qkey;	     /* of queue pair 0 */
	unsigned int access; /* of queue pair 1 */
	uint8_t rnr_retry;
	uint8_t retry_cnt;
	uint8_t timeout;
	bool sig_all;
};

struct pair {
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_cq_ex *cq_ex[2];
	struct ibv_qp_ex *qp_ex; /* queue pair 0 */
	uint64_t fields;
	bool aborts;
	struct ibv_srq *srq;
	uint32_t limit;	      /* that it is armed with */
	int asker;	      /* whose requests are waited for */
	uint32_t receives[2]; /* posted and not yet completed */
	uint32_t arrived[2];  /* bit n: the receive FIRST_RECV + n has a message */
};

extern const struct wish usual;

void pair_open(struct world *world, struct pair *pair, const struct wish *wish);
void pair_close(struct pair *pair);
/* From RESET through each step to the state; SQD and ERR, too. */
void pair_move(struct world *world, struct pair *pair, int end, enum ibv_qp_state to,
	       const struct wish *wish);
/* The attributes of the usual move to a state, and their mask. */
struct ibv_qp_attr usual_attr(struct world *world, const struct pair *pair, int end,
			      enum ibv_qp_state to, const struct wish *wish);
int usual_mask(enum ibv_qp_type type, enum ibv_qp_state to);
enum ibv_qp_state qp_state(struct ibv_qp *qp);

/*
 * Tells all completions of both sides. Waits until the request `last` of the asking queue pair has
 * completed (0: there is none), until the other is in ERR, if the status says that it must be, and
 * until the receives of queue pairs in ERR are flushed; where the service does not say what has
 * arrived, until nothing comes any more. Then the states and the events. Returns whether all
 * statuses were SUCCESS.
 */
bool tell_completions(struct world *world, struct pair *pair, uint64_t last);
/* The asynchronous events up to now, sorted; those that are due may take so long to come. */
void tell_events(struct world *world, const struct pair *pair, size_t due, int patience_ms);

#endif
