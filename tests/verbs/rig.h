/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the tests of verbs share: a context with two queue pairs that can be connected, by the public
 * libibverbs alone. A call that fails here fails the running test. Context: the test's own thread.
 */
#ifndef WEFT_TESTS_VERBS_RIG_H
#define WEFT_TESTS_VERBS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <cmocka.h>

#define RIG_DEPTH  64
#define RIG_SGE	   32
#define RIG_INLINE 1024
#define RIG_ALL                                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define RIG_INIT_MASK	 (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RIG_RTR_MASK	 0x129181 /* the bits that programs commonly set */
#define RIG_RTS_MASK	 0x12e01
#define RIG_UC_RTR_MASK	 0x101181
#define RIG_UC_RTS_MASK	 0x10001 /* also those of UD */
#define RIG_UD_INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RIG_QKEY	 0x11111111

#define COUNT(array)	 (sizeof(array) / sizeof((array)[0]))

/* Queue pair i has both its completions in cq[i]; the completion queues share the channel. */
struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
};

/* How the queue pairs differ from the usual ones. */
struct rig_wish {
	uint32_t depth; /* of all queues; 0: RIG_DEPTH */
	bool signal_all;
	enum ibv_qp_type type; /* 0: RC */
	/* IBV_ACCESS_ bits of queue pair 1; 0: RIG_ALL; IBV_ACCESS_LOCAL_WRITE: no remote access */
	unsigned int access;
	uint8_t timeout; /* of queue pair 0, as are the next two */
	uint8_t retry_cnt;
	uint8_t rnr_retry; /* 0 stands for 7, RIG_NO_RNR_RETRY for 0 */
	/* a bit for each queue pair: */
	uint8_t no_reads; /* it has no resources for READ and atomics, as requester or responder */
	uint8_t forever;  /* it waits for ever for a peer that does not answer */
};
#define RIG_NO_RNR_RETRY 255

/* rig_open makes everything, with the queue pairs in RESET; rig_connect takes them to RTS, connected to each
 * other. */
void rig_open(struct rig *rig);
void rig_connect(struct rig *rig, const struct rig_wish *wish);
void rig_reconnect(struct rig *rig,
		   const struct rig_wish *wish); /* from whatever states they are in */
void rig_close(struct rig *rig);

/* cmocka fixtures: a rig that is open, or connected as usual. */
int rig_setup(void **state);
int rig_setup_connected(void **state);
int rig_teardown(void **state);

struct ibv_context *rig_context(void);
/* The attributes for the usual transitions, which go with the masks above. */
struct ibv_qp_attr rig_attr(struct ibv_context *context, enum ibv_qp_state to, uint32_t dest_qpn);
int rig_mask(enum ibv_qp_type type, enum ibv_qp_state to);
struct ibv_qp_init_attr rig_init(struct ibv_cq *send_cq, struct ibv_cq *recv_cq);
/* Takes it from RESET through all states up to `to`; or from any state to RESET, SQD or ERR. */
void rig_modify(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t dest_qpn);

enum ibv_qp_state rig_state(struct ibv_qp *qp);
/* Waits until the queue pair is in that state. */
void rig_await_state(struct ibv_qp *qp, enum ibv_qp_state state);
/* Waits for the next completion. Those in error are counted. */
extern unsigned int rig_errors;
struct ibv_wc rig_next(struct ibv_cq *cq);
/* Waits for the next completion, which must have that status and wr_id. */
struct ibv_wc rig_expect(struct ibv_cq *cq, enum ibv_wc_status status, uint64_t wr_id);
/* Demands that no completion is there. */
void rig_none(struct ibv_cq *cq);

/* Waits for the next asynchronous event, which must be of that type and about that object, and acknowledges
 * it. */
void rig_event(struct ibv_context *context, enum ibv_event_type type, const void *element);

/* Post one signaled request of `len` bytes at `at`. They return an errno. */
int rig_receive(struct ibv_qp *qp, uint64_t wr_id, const struct ibv_mr *mr, void *at, uint32_t len);
int rig_send(struct ibv_qp *qp, uint64_t wr_id, const struct ibv_mr *mr, void *at, uint32_t len);
int rig_rdma(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id, const struct ibv_mr *mr,
	     void *at, uint32_t len, uint64_t remote, uint32_t rkey);

/* Zeroed pages of their own mapping, and a region over such pages with all rights. */
void *rig_pages(size_t bytes);
struct ibv_mr *rig_region(struct ibv_pd *pd, size_t bytes);
void rig_region_end(struct ibv_mr *mr);

/* What every call must answer to a pointer whose object is gone or never was. */
#define RIG_REFUSED(call) assert_int_equal((call), EINVAL)

/* From now on this process may not make the calls by which processes reach each other's memory, so that the
 * helper of the memory's owner must copy. Children inherit it. */
void rig_forbid_process_vm(void);

uint64_t rig_now_ns(void);

/* Waits until the word, which another process writes, is at least `least`; returns it. */
uint32_t rig_await(const _Atomic uint32_t *word, uint32_t least);

#endif
