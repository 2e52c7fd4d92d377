/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is given inline is read by the CPU as it is posted, under no key: memory of a GPU is refused there, and not read. A process
 * that has registered none does not look: the operations that may be inline are then a number in memory instead of in the
 * instruction, and where there is some, none, so that each takes the way on which it is looked at.
 */
#ifndef WEFT_VERBS_INLINE_H
#define WEFT_VERBS_INLINE_H

#include <stdatomic.h>

#include "nic/types.h"

#define WEFT_OPS_INLINE                                                                            \
	(1u << WEFT_OP_WRITE | 1u << WEFT_OP_WRITE_IMM | 1u << WEFT_OP_SEND |                      \
	 1u << WEFT_OP_SEND_IMM | 1u << WEFT_OP_SEND_INV | 1u << WEFT_OP_ATOMIC_WRITE)

extern _Atomic uint32_t weft_verbs_inline_ops;

/* False: it must be looked at first. Relaxed: a thread that posts from memory has seen its registration end. */
static inline bool weft_verbs_inlines(uint32_t opcode)
{
	return atomic_load_explicit(&weft_verbs_inline_ops, memory_order_relaxed) >> opcode & 1;
}

/* From now on in this process: there is memory that no CPU reads. */
void weft_verbs_look_before_inline(void);

#endif
