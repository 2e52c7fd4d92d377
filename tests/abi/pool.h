/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_TESTS_ABI_POOL_H
#define WEFT_TESTS_ABI_POOL_H

/* Group fixtures: a pool of this program's own, so that tests neither see nor leave another. */
int make_pool(void **state);
int remove_pool(void **state);

#endif
