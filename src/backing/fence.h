/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The fence between the many that pass a place often and the few that must know whether one is
 * there. It has two halves. The frequent one keeps only the compiler from exchanging a store and
 * the load after it, and costs no instruction. The rare one, `barrier` of struct weft_backing,
 * makes every running thread of every member pass a full fence, so that each of them did its store
 * before, or does its load after. Freestanding.
 */
#ifndef WEFT_BACKING_FENCE_H
#define WEFT_BACKING_FENCE_H

#include "backing/atomic.h"

static inline void weft_fence_frequent(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

#endif
