/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A page at an address drawn by lot. A peer that reaches into this process by its number touches it in the
 * same system call, and first: after an exec another program has the number, and nothing at that address.
 */
#ifndef WEFT_POOL_WITNESS_H
#define WEFT_POOL_WITNESS_H

#include <stdint.h>

/* Its address, or 0: there is none, and no process may reach into this one. One thread at a time. */
uint64_t weft_witness(void);

#endif
