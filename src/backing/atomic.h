/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Atomics, for what is built freestanding: the compiler's own header of C11, in one place, so that where that
 * is not to be had another stands here. Each acquire and release names its partner where it is used. */
#ifndef WEFT_BACKING_ATOMIC_H
#define WEFT_BACKING_ATOMIC_H

#include <stdatomic.h>

/* A store that orders nothing by itself. A plain assignment would be an exchange, which memory that several hosts share
 * may not have (tools/check-atomics.py). */
#define weft_store(word, value) atomic_store_explicit(word, value, memory_order_relaxed)

#endif
