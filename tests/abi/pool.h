/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TESTS_ABI_POOL_H
#define WEFT_TESTS_ABI_POOL_H

/* Fixtures of a group: a pool of this program's own, so that its tests neither see another one nor leave
 * anything in it. */
int make_pool(void **state);
int remove_pool(void **state);

#endif
