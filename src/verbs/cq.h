/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion queues (cq.c, cq_ex.c). */
#ifndef WEFT_VERBS_CQ_H
#define WEFT_VERBS_CQ_H

#include <stdbool.h>

#include "nic/cq.h"
#include "verbs/async.h"
#include "verbs/verbs.h"

struct weft_verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct weft_cq nic;
	_Atomic uint32_t users; /* queue pairs */
	/* guarded by the channel's mutex */
	uint32_t events_waiting, events_read;
	bool unheard,
		was_late; /* was_late: one of its producers may write a word too many (channel.c) */
	struct weft_verbs_cq *next, *next_on_channel;
	uint32_t async_read; /* guarded by the context's list of events; final once forgotten */

	/* of extended queues (cq_ex.c): the completion that is being read, by the thread that has the lock */
	bool single_threaded, polling_own;
	struct weft_lock polling;
	struct ibv_wc wc;
};

static inline struct weft_verbs_cq *weft_cq(struct ibv_cq *cq)
{
	return (struct weft_verbs_cq *)cq;
}

static inline struct weft_acks weft_cq_acks(struct ibv_cq *cq)
{
	return (struct weft_acks){&cq->mutex, &cq->cond, &cq->async_events_completed,
				  &weft_cq(cq)->async_read};
}

#endif
