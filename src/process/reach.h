/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory of other members that has no address here. */
#ifndef WEFT_PROCESS_REACH_H
#define WEFT_PROCESS_REACH_H

#include <sys/types.h>

#include "nic/machine.h"

/* Memory of other members that is in place; see struct weft_machine. */
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
/* By the kernel, of the process that has that witness. 0, -EFAULT, -ENXIO: memory here; -ESRCH: it has gone, or is another
 * program now. */
int weft_reach_by_kernel(pid_t pid, uint64_t witness, uint64_t va, void *here, uint64_t len_bytes,
			 bool write);
/* Whether the grant and the key still stand: 0, -ESRCH, -EACCES. */
int weft_reach_check(const struct weft_pool *pool, const struct weft_in_place *memory);
/* Between a bounce buffer and what is to go there: the host's memory, or that of a device of ours. 0 or -ENXIO. */
int weft_reach_fill(struct weft_pool *pool, const struct weft_in_place *memory, uint8_t *bounce,
		    uint8_t *here, uint64_t len_bytes, bool write);

#endif
