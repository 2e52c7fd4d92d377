/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory of other members that has no address here. */
#ifndef WEFT_PROCESS_REACH_H
#define WEFT_PROCESS_REACH_H

#include "nic/machine.h"

/* reach.c: memory of other members that is in place; see struct weft_machine. */
int weft_reach(void *context, const struct weft_caller *caller, const struct weft_in_place *memory,
	       void *here, uint64_t len_bytes, bool write);
int weft_reach_atomic(void *context, const struct weft_caller *caller,
		      const struct weft_in_place *memory, bool add, uint64_t compare_add,
		      uint64_t swap, uint64_t *value);
/* The same by its owner's helper, even if the kernel would do it. */
int weft_reach_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
			 const struct weft_in_place *memory, void *here, uint64_t len_bytes,
			 bool write);
int weft_reach_atomic_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
				const struct weft_in_place *memory, bool add, uint64_t compare_add,
				uint64_t swap, uint64_t *value);
/* Whether the grant and the key still stand: 0, -ESRCH, -EACCES. */
int weft_reach_check(const struct weft_pool *pool, const struct weft_in_place *memory);
/* Between a bounce buffer and what is to go there: the host's memory, or that of a device of ours. 0 or -ENXIO. */
int weft_reach_fill(const struct weft_pool *pool, const struct weft_in_place *memory,
		    uint8_t *bounce, uint8_t *here, uint64_t len_bytes, bool write);

#endif
