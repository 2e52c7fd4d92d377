/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Protection domains. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/explain.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	static _Atomic uint32_t last;
	struct weft_verbs_pd *pd;

	if (weft_explain_closed("ibv_alloc_pd", context)) {
		errno = EINVAL;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd || weft_handle_add(pd, WEFT_HANDLE_PD)) {
		free(pd);
		errno = weft_explain_errno("ibv_alloc_pd", ENOMEM);
		return NULL;
	}
	pd->number = ++last;
	pd->pd.context = context;
	pd->pd.handle = pd->number;
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (weft_explain_stale("ibv_dealloc_pd", pd, WEFT_HANDLE_PD))
		return EINVAL;
	if (weft_pd(pd)->users)
		return weft_broken("ibv_dealloc_pd", IN_USE, weft_pd(pd)->users,
				   weft_value("protection domain"));
	weft_handle_remove(pd);
	if (weft_pd(pd)->behind)
		weft_pd(pd)->behind->users--;
	if (weft_pd(pd)->td)
		weft_pd(pd)->td->users--;
	free(pd);
	return 0;
}

struct ibv_pd *weft_verbs_pd_behind(struct ibv_context *context, struct weft_verbs_pd *behind)
{
	struct weft_verbs_pd *pd = calloc(1, sizeof(*pd));

	if (!pd || weft_handle_add(pd, WEFT_HANDLE_PD)) {
		free(pd);
		errno = weft_explain_errno("ibv_alloc_parent_domain", ENOMEM);
		return NULL;
	}
	pd->number = behind->number;
	pd->behind = behind;
	behind->users++;
	pd->pd.context = context;
	pd->pd.handle = pd->number;
	return &pd->pd;
}
