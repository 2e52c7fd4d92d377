/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Between the two ends of a request (requester.c, responder.c) in the model. */
#ifndef WEFT_TESTS_MODEL_REQUEST_H
#define WEFT_TESTS_MODEL_REQUEST_H

#include "model.h"

enum outcome { DONE, FAILED, NO_RECEIVE, NO_ANSWER };

/* What became of a request; nak: the responder refused, and its owner hears `event`. */
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

/* Whether it brings bytes here. */
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

/* Do the keys hold for the elements that the first `bytes` use? */
bool model_all_hold(struct model *m, const struct qp *qp, const struct sge *sge, int n,
		    uint64_t bytes, uint32_t access);

/* What `peer` makes of a request of `qp` in which nothing is wrong on its own side. */
struct verdict model_respond(struct model *m, struct qp *qp, struct qp *peer,
			     const struct request *r);

#endif
