/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Atomics, for what is built freestanding: the compiler's own header of C11, in one place, so that where that
 * is not to be had another stands here. Each acquire and release names its partner where it is used. */
#ifndef WEFT_BACKING_ATOMIC_H
#define WEFT_BACKING_ATOMIC_H

#include <stdatomic.h>

/* A store that orders nothing by itself. A plain assignment would be an exchange, which memory that several hosts share
 * may not have (tools/check-atomics.py). */
#define weft_store(word, value) atomic_store_explicit(word, value, memory_order_relaxed)

/*
 * Gates: in the product they are nothing. With WEFT_GATES each exchange, fetch and compare, and each store that is an exchange,
 * ends the process if another host has the word, and the pool no atomic instructions between hosts (pool/gate.c). A macro
 * that names itself means the compiler's own there.
 */
#ifdef WEFT_GATES
void weft_gate(const void *word) __attribute__((weak)); /* not where there is no pool */

#define weft_gated(word)                                                                           \
	__extension__({                                                                            \
		__auto_type gated_ = (word);                                                       \
		if (weft_gate)                                                                     \
			weft_gate(gated_);                                                         \
		gated_;                                                                            \
	})
#define __atomic_exchange(word, ...) __atomic_exchange(weft_gated(word), __VA_ARGS__)
#define __atomic_compare_exchange(word, ...)                                                       \
	__atomic_compare_exchange(weft_gated(word), __VA_ARGS__)
#define __atomic_fetch_add(word, ...) __atomic_fetch_add(weft_gated(word), __VA_ARGS__)
#define __atomic_fetch_sub(word, ...) __atomic_fetch_sub(weft_gated(word), __VA_ARGS__)
#define __atomic_fetch_or(word, ...)  __atomic_fetch_or(weft_gated(word), __VA_ARGS__)
#define __atomic_fetch_and(word, ...) __atomic_fetch_and(weft_gated(word), __VA_ARGS__)
#define __atomic_fetch_xor(word, ...) __atomic_fetch_xor(weft_gated(word), __VA_ARGS__)
#define __atomic_store(word, from, order)                                                          \
	__atomic_store((order) == __ATOMIC_SEQ_CST ? weft_gated(word) : (word), from, order)
#endif

#endif
