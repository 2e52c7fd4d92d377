/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Address handles (ah.c). */
#ifndef WEFT_VERBS_AH_H
#define WEFT_VERBS_AH_H

#include "nic/ah.h"
#include "verbs/verbs.h"

struct weft_verbs_ah {
	struct ibv_ah ah;
	struct weft_ah nic;
};

static inline struct weft_verbs_ah *weft_ah(struct ibv_ah *ah)
{
	return (struct weft_verbs_ah *)ah;
}

#endif
