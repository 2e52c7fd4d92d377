/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a process has seen of the table of regions (struct weft_pool). */
#ifndef WEFT_POOL_SEEN_H
#define WEFT_POOL_SEEN_H

#include "pool/format_region.h"

/* A checked copy of a region's entry, as good as that while it has the same id. Its extents were
 * touched. */
struct weft_seen_mr {
	_Alignas(WEFT_LINE) _Atomic uint64_t id;
	uint64_t allowed;
	/* the bytes that lie together in the pool, as keys name them and as this process sees them */
	uint64_t run, run_bytes;
	uint8_t *at;
	_Alignas(WEFT_LINE) struct weft_pool_mr mr;
};

#endif
