/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Thread domains and parent domains. A thread domain promises that one thread uses what is made in it,
 * which costs nothing here without a promise (nic/lock.h). Allocators are not asked: queues live in
 * the pool, or are ours.
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs/objects.h"
#include "verbs/verbs.h"

#define PARENT_MASK                                                                               \
	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)

struct ibv_td *weft_verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init)
{
	struct weft_verbs_td *td;

	if (!weft_context_find(context) || !init || init->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td || weft_handle_add(td, WEFT_HANDLE_TD)) {
		free(td);
		errno = ENOMEM;
		return NULL;
	}
	td->td.context = context;
	return &td->td;
}

int weft_verbs_dealloc_td(struct ibv_td *td)
{
	struct weft_verbs_td *object = (struct weft_verbs_td *)td;

	if (!weft_handle_is(td, WEFT_HANDLE_TD))
		return EINVAL;
	if (object->users)
		return EBUSY;
	weft_handle_remove(td);
	free(object);
	return 0;
}

static bool good_parent(struct ibv_context *context, const struct ibv_parent_domain_init_attr *init)
{
	bool allocates = init->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;

	if (init->comp_mask & ~(uint32_t)PARENT_MASK || (allocates && (!init->alloc || !init->free)))
		return false;
	if (!weft_handle_is(init->pd, WEFT_HANDLE_PD) || init->pd->context != context)
		return false;
	return !init->td ||
	       (weft_handle_is(init->td, WEFT_HANDLE_TD) && init->td->context == context);
}

struct ibv_pd *weft_verbs_alloc_parent_domain(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *init)
{
	struct ibv_pd *pd;

	if (!weft_context_find(context) || !init || !good_parent(context, init)) {
		errno = EINVAL;
		return NULL;
	}
	pd = weft_verbs_pd_behind(context, weft_pd(init->pd));
	if (pd && init->td) {
		weft_pd(pd)->td = (struct weft_verbs_td *)init->td;
		weft_pd(pd)->td->users++;
	}
	return pd;
}
