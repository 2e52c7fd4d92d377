/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One end of a reliable connection, by the public libibverbs alone: what the test programs and the
 * benchmarks share. Any failure prints what failed and ends the process with status 1: a test
 * program has nothing to mend. Context: one thread an end.
 */
#ifndef WEFT_TEST_END_H
#define WEFT_TEST_END_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define END_DEPTH 256 /* work requests of either queue */

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory; /* page-aligned, zeroed, registered with all rights */
};

/* What a peer must know; plain bytes, to be sent through a pipe. */
struct end_address {
	union ibv_gid gid;
	uint64_t memory;
	uint32_t rkey;
	uint32_t qpn;
};

/* Opens the first device and makes all objects; the queue pair is in INIT. signal_all: every
 * send request gives a completion. */
void end_open(struct end *end, size_t memory_bytes, bool signal_all);
struct end_address end_address(const struct end *end);
void end_connect(struct end *end, const struct end_address *peer); /* to RTS */
void end_close(struct end *end);

/* Further queue pairs on the same queue and memory: made in INIT, connected to RTS. */
struct ibv_qp *end_add_qp(struct end *end, uint32_t depth, bool signal_all);
void end_connect_qp(struct ibv_qp *qp, const struct end_address *peer);

/* From now on pidfd_getfd is refused, as Docker's default profile does. */
void end_refuse_pidfd_getfd(void);

/* Polls until one completion; it must be a success. */
void end_complete(struct end *end);

/* Prints what, and errno, and ends the process. */
_Noreturn void end_fail(const char *what);

/* The same if !ok. */
static inline void end_require(bool ok, const char *what)
{
	if (!ok)
		end_fail(what);
}

#endif
