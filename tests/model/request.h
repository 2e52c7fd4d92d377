/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the two ends of a request (requester.c, responder.c) have in common in the model. */
#ifndef WEFT_TESTS_MODEL_REQUEST_H
#define WEFT_TESTS_MODEL_REQUEST_H

#include "model.h"

enum outcome { DONE, FAILED, NO_RECEIVE, NO_ANSWER };

/* The end of a request. nak: the responder has refused it, and its program gets `event`. */
struct verdict {
	enum outcome outcome;
	enum ibv_wc_status status;
	bool nak;
	enum ibv_event_type event;
};

static inline bool is_atomic(const struct request *r)
{
	return r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool is_send(const struct request *r)
{
	return r->opcode == IBV_WR_SEND || r->opcode == IBV_WR_SEND_WITH_IMM;
}

/* Whether the request's answer brings bytes to the requester. */
static inline bool is_reading(const struct request *r)
{
	return r->opcode == IBV_WR_RDMA_READ || is_atomic(r);
}

static inline uint64_t bytes_of(const struct sge *sge, int n)
{
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += sge[i].length;
	return bytes;
}

/* Whether the keys are valid for those elements that the first `bytes` bytes use. */
bool model_all_hold(struct model *m, const struct qp *qp, const struct sge *sge, int n,
		    uint64_t bytes, uint32_t access);

/* How `peer` answers a request of `qp` that is free of errors on the requester's side. */
struct verdict model_respond(struct model *m, struct qp *qp, struct qp *peer,
			     const struct request *r);

#endif
