/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared receive queues, and domains of XRC (srq.c, xrc.c). */
#ifndef WEFT_VERBS_SRQ_H
#define WEFT_VERBS_SRQ_H

#include "nic/srq.h"
#include "verbs/async.h"
#include "verbs/verbs.h"

struct weft_verbs_cq;

struct weft_verbs_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t number;
	_Atomic uint32_t users; /* queue pairs and receive queues */
	struct weft_verbs_xrcd *next;
};

static inline struct weft_verbs_xrcd *weft_xrcd(struct ibv_xrcd *xrcd)
{
	return (struct weft_verbs_xrcd *)xrcd;
}

struct weft_verbs_srq {
	struct ibv_srq srq;
	/* of XRC; else NULL */
	struct weft_verbs_xrcd *xrcd;
	struct weft_verbs_cq *cq;
	uint32_t number;
	struct weft_srq nic;
	_Atomic uint32_t users; /* queue pairs */
	uint32_t async_read;	/* guarded by the context's list of events; final once forgotten */
};

static inline struct weft_verbs_srq *weft_srq(struct ibv_srq *srq)
{
	return (struct weft_verbs_srq *)srq;
}

static inline struct weft_acks weft_srq_acks(struct ibv_srq *srq)
{
	return (struct weft_acks){&srq->mutex, &srq->cond, &srq->events_completed,
				  &weft_srq(srq)->async_read};
}

#endif
