/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A domain of two processes: an exporter makes it and registers memory, the test imports both and makes a
 * queue pair in it. Its peer is a queue pair of a domain of the test's own.
 */
#ifndef WEFT_TESTS_VERBS_TWO_H
#define WEFT_TESTS_VERBS_TWO_H

#include "rig.h"

#include "exporter.h"

#define TWO_BYTES (64u << 10)

/* Queue pair 0 is in the imported domain, 1 in our own. */
struct two {
	struct exporter exporter;
	struct exported *there;
	struct rig rig;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *theirs; /* imported */
	struct ibv_mr *own;    /* of the rig's domain, TWO_BYTES */
};

/* All of it, connected; nothing of Weft may be open. in_place: the exporter's memory cannot move. */
void two_begin(struct two *t, bool in_place);
/* What the test has ended itself is NULL: the region, the queue pair; the exporter's pid 0. */
void two_end(struct two *t);

/* From whatever state they are in. */
void two_connect(struct two *t);
void two_import_region(struct two *t, unsigned int access);
struct ibv_qp *two_make_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type);

#endif
