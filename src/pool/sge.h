/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* An element of a scatter or gather list, as the verbs have it. */
#ifndef WEFT_POOL_SGE_H
#define WEFT_POOL_SGE_H

#include <stdint.h>

struct weft_pool_sge {
	uint64_t addr;
	uint32_t len_bytes;
	uint32_t lkey;
};

#endif
