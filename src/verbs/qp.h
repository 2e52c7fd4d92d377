/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs (qp.c, qp_ex.c). */
#ifndef WEFT_VERBS_QP_H
#define WEFT_VERBS_QP_H

#include <stdbool.h>

#include "nic/cq.h"
#include "nic/qp.h"
#include "verbs/async.h"
#include "verbs/verbs.h"

struct weft_receiver_opener;
struct weft_verbs_xrcd;
struct weft_wqe;

struct weft_verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		uint8_t room
			[384]; /* later headers have a longer one: what we do not know reads as NULL */
	};
	struct weft_qp nic;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	_Atomic uint32_t groups;      /* that it listens to */
	struct weft_verbs_xrcd *xrcd; /* XRC_RECV; and in place of its completion queue: */
	struct weft_cq no_cq;
	/* handles of one queue pair of XRC_RECV (receiver.c, whose mutex guards them): its maker, which all
	 * point to and which stays as long as they do, and in its lists those that are open */
	struct weft_verbs_qp *real, *handles, *next_handle, *next_receiver;
	struct weft_receiver_opener *openers; /* other processes */
	struct {
		bool is; /* another process has made it: nothing stands in `nic` */
		uint16_t member;
		uint32_t events_seen;
	} opened;
	uint32_t async_read; /* guarded by the context's list of events; final once forgotten */

	/* of extended ones (qp_ex.c): requests that are built but not posted; guarded by nic.lock */
	bool extended, built_own;
	int built_error;
	uint32_t built;
	struct weft_wqe *wqe; /* the last one */
};

static inline struct weft_verbs_qp *weft_qp(struct ibv_qp *qp)
{
	return (struct weft_verbs_qp *)qp;
}

/* The one behind a handle. */
static inline struct weft_verbs_qp *weft_qp_real(struct ibv_qp *qp)
{
	return weft_qp(qp)->real ? weft_qp(qp)->real : weft_qp(qp);
}

static inline struct weft_acks weft_qp_acks(struct ibv_qp *qp)
{
	return (struct weft_acks){&qp->mutex, &qp->cond, &qp->events_completed,
				  &weft_qp(qp)->async_read};
}

/* qp.c: an errno. Its mutex is held. */
int weft_verbs_modify(struct weft_verbs_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      struct weft_caller *caller);

/* Programs read the state from the handle, and UCX counts on it: it changes only where the mask of a verb that
 * succeeds has IBV_QP_STATE, to what stands in attr, not when the queue pair fails by itself. */
static inline void weft_verbs_tell_state(struct ibv_qp *handle, const struct ibv_qp_attr *attr,
					 int mask)
{
	if (mask & IBV_QP_STATE)
		handle->state = attr->qp_state;
}

/* qp.c: of one whose handle is gone. */
void weft_verbs_end_queues(struct weft_verbs_qp *qp);
/* mcast.c: it listens to no group any more. */
void weft_mcast_leave(struct weft_verbs_qp *qp);
/* post.c: says why that request cannot be posted. An errno. */
int weft_verbs_refuse_send(const char *verb, const struct weft_qp *qp, uint32_t opcode,
			   uint32_t num_sge);

#endif
