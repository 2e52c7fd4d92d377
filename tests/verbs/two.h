/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A domain of two processes: an exporter makes it and registers memory, the test imports both and makes a
 * queue pair in it. That one's peer is a queue pair in a domain of the test's own.
 */
#ifndef WEFT_TESTS_VERBS_TWO_H
#define WEFT_TESTS_VERBS_TWO_H

#include "rig.h"

#include "exporter.h"

#define TWO_BYTES (64u << 10)

/* The rig's queue pair 0 is not used: `qp` takes its place, in the imported domain; queue pair 1 is in the
 * test's own domain. */
struct two {
	struct exporter exporter;
	struct exported *there;
	struct rig rig;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *theirs; /* the exporter's region, as the test has imported it */
	struct ibv_mr *own;    /* in the rig's domain, TWO_BYTES long */
};

/* Makes all of it, connected; nothing of Weft may be open yet. in_place: the exporter's memory cannot
 * migrate. */
void two_begin(struct two *t, bool in_place);
/* Whatever the test itself has ended must be NULL: the region, the queue pair; an exporter that it has killed
 * has pid 0. */
void two_end(struct two *t);

/* From whatever states the queue pairs are in. */
void two_connect(struct two *t);
void two_import_region(struct two *t, unsigned int access);
struct ibv_qp *two_make_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type);

#endif
