/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Device memory (dm.c). */
#ifndef WEFT_VERBS_DM_H
#define WEFT_VERBS_DM_H

#include <stdbool.h>

#include "process/object.h"
#include "verbs/verbs.h"

struct weft_verbs_dm {
	struct ibv_dm dm;
	struct weft_object object;	  /* for others */
	struct weft_pool_object original; /* that of another process, imported: its id; else 0 */
	uint64_t off, len_bytes;
	uint8_t *at;
	_Atomic uint32_t users;	      /* regions, and imports */
	atomic_bool reached;	      /* by an executor that stood still when its region ended */
	struct weft_verbs_dm *behind; /* of an imported one */
};

#endif
