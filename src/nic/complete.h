/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The frequent half of completing one's own requests; the rest is in cq.c. */
#ifndef WEFT_NIC_COMPLETE_H
#define WEFT_NIC_COMPLETE_H

#include "nic/nic.h"

/* The queue is armed or full; its lock is held. */
void weft_cq_put_slow(struct weft_cq *cq, const struct weft_cqe *cqe);

static inline void weft_cq_put(struct weft_cq *cq, const struct weft_cqe *cqe)
{
	uint64_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	if (__builtin_expect(cq->armed || tail - atomic_load_explicit(&cq->head, memory_order_relaxed) ==
							  cq->size,
			     0)) {
		weft_cq_put_slow(cq, cqe);
		return;
	}
	cq->cqe[tail & cq->mask] = *cqe;
	/* release: pairs with the look without lock in weft_cq_poll */
	atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
}

/* A completion of one's own. The queue's lock is not held. */
static inline void weft_cq_push(struct weft_cq *cq, const struct weft_cqe *cqe, uint32_t thread)
{
	weft_lock(cq->nic, &cq->lock, thread);
	weft_cq_put(cq, cqe);
	weft_unlock(&cq->lock, thread);
}

#endif
