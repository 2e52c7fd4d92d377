/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory windows (mw.c). */
#ifndef WEFT_VERBS_MW_H
#define WEFT_VERBS_MW_H

#include "nic/mw.h"
#include "verbs/verbs.h"

struct weft_wqe;

struct weft_verbs_mw {
	struct ibv_mw mw;
	struct weft_mw nic;
};

static inline struct weft_verbs_mw *weft_mw(struct ibv_mw *mw)
{
	return (struct weft_verbs_mw *)mw;
}

/* mw.c: a request that binds a window. An errno. */
int weft_verbs_bind(const char *verb, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *info, struct weft_wqe *wqe);

#endif
