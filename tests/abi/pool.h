/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TESTS_ABI_POOL_H
#define WEFT_TESTS_ABI_POOL_H

#include <sys/types.h>

/* Fixtures of a group: a pool of this program's own, so that its tests neither see another one nor leave
 * anything in it. */
int make_pool(void **state);
int remove_pool(void **state);

/* As fork(). The child is a peer of this process, on another host where the pool has several; none but it has used a device yet
 * where that counts. */
pid_t fork_peer(void);

#endif
