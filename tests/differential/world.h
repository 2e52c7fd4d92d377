/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the cases of the differential test share: chance, one line of output for each case, the device with
 * its memory, and two queue pairs. By the public libibverbs alone. A call that must not fail, and does, ends
 * the process. Context: one thread.
 */
#ifndef WEFT_TESTS_DIFFERENTIAL_WORLD_H
#define WEFT_TESTS_DIFFERENTIAL_WORLD_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SLOT_BYTES   16384 /* bytes of a buffer for one request */
#define SLOTS	     4
#define BUFFER_BYTES (SLOT_BYTES * SLOTS)
#define FIRST_RECV   101	 /* wr_ids from here on are of receives */
#define QKEY	     0x11111111u /* of queue pair 1 */
#define ALL_RIGHTS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* Queue pair 0 is the requester, with memory LOCAL; queue pair 1 is the responder, with memory TARGET and
 * RECEIVE. */
enum buffer { LOCAL, TARGET, RECEIVE, BUFFERS };

struct world {
	uint64_t chance;
	bool simple; /* requests have at most one element, and none inline */
	struct ibv_context *context;
	struct ibv_device_attr device;
	uint32_t mtu; /* bytes */
	/* what has not come so long after the last completion does not come any more */
	int quiet_ms;
	int event_ms; /* the same for an event */
	union ibv_gid gid;
	uint8_t gid_index;
	struct ibv_pd *pd;
	struct ibv_pd *other_pd;
	uint8_t *memory[BUFFERS];
	struct ibv_mr *all[BUFFERS];	 /* regions with all rights */
	struct ibv_mr *none[BUFFERS];	 /* regions without rights */
	struct ibv_mr *foreign[BUFFERS]; /* regions with all rights, in the other domain */
	uint32_t dead_key;		 /* the key of a region that was deregistered */
};

void world_open(struct world *world);
void world_close(struct world *world);
/* Fills all buffers, with other bytes in each place. */
void world_fill(struct world *world);
/* A digest of all buffers. */
uint32_t world_digest(const struct world *world);

/* Draws a number below n. */
uint32_t pick(struct world *world, uint32_t n);
bool one_in(struct world *world, uint32_t n);
/* Draws a size near 0, in the middle, or near the device's limit, and tells it. */
int pick_size(struct world *world, const char *label, int limit);

/* Add to what is printed before `=>`, and after it; line_end prints the line. */
__attribute__((format(printf, 1, 2))) void what(const char *format, ...);
__attribute__((format(printf, 1, 2))) void outcome(const char *format, ...);
void line_end(void);
/* Tells by name the result of a call that is 0 or an errno. */
void outcome_errno(const char *call, int error);
/* Tells the bits of a set by their names, joined by |, or 0. */
void what_bits(const char *label, uint32_t bits, const char *const *names, size_t count);
const char *state_name(enum ibv_qp_state state);
/* Ends the process, unless ok. */
void need(bool ok, const char *call);

/* How the queue pairs differ from the usual ones. */
struct wish {
	enum ibv_qp_type type;
	struct ibv_srq *srq; /* queue pair 1's */
	bool extended;	     /* queue pairs and completion queues are extended */
	uint64_t fields;     /* IBV_WC_EX_ bits of the completion queues */
	bool aborts;	     /* requests that were built are aborted, and not posted */
	uint32_t qkey;	     /* queue pair 0's */
	unsigned int access; /* queue pair 1's IBV_ACCESS_ bits */
	uint8_t rnr_retry;
	uint8_t retry_cnt;
	uint8_t timeout;
	bool sig_all;
};

struct pair {
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_cq_ex *cq_ex[2];
	struct ibv_qp_ex *qp_ex; /* queue pair 0's */
	uint64_t fields;
	bool aborts;
	struct ibv_srq *srq;
	uint32_t limit;	      /* the limit that the shared queue is armed with */
	int asker;	      /* the end whose requests are waited for */
	uint32_t receives[2]; /* how many were posted and have not completed */
	uint32_t arrived[2];  /* bit n: the receive FIRST_RECV + n has a message */
};

extern const struct wish usual;

void pair_open(struct world *world, struct pair *pair, const struct wish *wish);
void pair_close(struct pair *pair);
/* Takes a queue pair from RESET through all states to that one; or to SQD or ERR. */
void pair_modify(struct world *world, struct pair *pair, int end, enum ibv_qp_state to,
		 const struct wish *wish);
/* The attributes for the usual transition to a state, and their mask. */
struct ibv_qp_attr usual_attr(struct world *world, const struct pair *pair, int end,
			      enum ibv_qp_state to, const struct wish *wish);
int usual_mask(enum ibv_qp_type type, enum ibv_qp_state to);
enum ibv_qp_state qp_state(struct ibv_qp *qp);

/*
 * Tells all completions of both sides. Waits until request `last` of the asking queue pair has completed (0:
 * there is none), until the other queue pair is in ERR, if the status says that it must be, and until the
 * receives of queue pairs in ERR are flushed; where the service does not say what has arrived, until nothing
 * comes any more. Then tells the states and the events. Returns whether all statuses were SUCCESS.
 */
bool tell_completions(struct world *world, struct pair *pair, uint64_t last);
/* Tells the asynchronous events up to now, sorted. Those that are due may take so long to come. */
void tell_events(struct world *world, const struct pair *pair, size_t due, int patience_ms);

#endif
