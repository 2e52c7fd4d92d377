/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Thread domains and parent domains. A thread domain promises that one thread uses what is made in it,
 * which costs nothing here without a promise (nic/lock.h). Allocators are not asked: queues live in
 * the pool, or are ours.
 */
#include <errno.h>
#include <stdlib.h>

#include "nic/qp.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/pd.h"
#include "verbs/verbs.h"

/* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC of rdma-core 65: in a confidential guest, memory may be
 * open to the host, as a network card's must be. What is allocated here is the program's own memory all the
 * same. */
#define ALLOW_UNPROTECTED (1 << 2)
#define PARENT_MASK                                                                                \
	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |         \
	 ALLOW_UNPROTECTED)

struct ibv_td *weft_verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init)
{
	struct weft_verbs_td *td;

	if (weft_explain_closed("ibv_alloc_td", context)) {
		errno = EINVAL;
		return NULL;
	}
	if (!init || init->comp_mask) {
		errno = init ? weft_broken("ibv_alloc_td", UNKNOWN_BITS, weft_value("comp_mask"),
					   init->comp_mask)
			     : weft_broken("ibv_alloc_td", MISSING, weft_value("init_attr"));
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td || weft_handle_add(td, WEFT_HANDLE_TD)) {
		free(td);
		errno = weft_explain_errno("ibv_alloc_td", ENOMEM);
		return NULL;
	}
	td->td.context = context;
	return &td->td;
}

int weft_verbs_dealloc_td(struct ibv_td *td)
{
	struct weft_verbs_td *object = (struct weft_verbs_td *)td;

	if (weft_handle_inherited(td))
		return 0;
	if (weft_explain_stale("ibv_dealloc_td", td, WEFT_HANDLE_TD))
		return EINVAL;
	if (object->users)
		return weft_broken("ibv_dealloc_td", IN_USE, object->users,
				   weft_value("thread domain"));
	weft_handle_remove(td);
	free(object);
	return 0;
}

static int check_parent(struct ibv_context *context, const struct ibv_parent_domain_init_attr *init)
{
	const char *verb = "ibv_alloc_parent_domain";

	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (!init)
		return weft_broken(verb, MISSING, weft_value("attr"));
	if (init->comp_mask & ~(uint32_t)PARENT_MASK)
		return weft_broken(verb, UNKNOWN_BITS, weft_value("comp_mask"), init->comp_mask);
	if (init->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
	    (!init->alloc || !init->free))
		return weft_broken(verb, MISSING, weft_value("alloc or free"));
	if (weft_explain_no_domain(verb, init->pd) ||
	    (init->td && weft_explain_stale(verb, init->td, WEFT_HANDLE_TD)))
		return EINVAL;
	if (init->pd->context != context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("pd"), weft_value(init->pd));
	if (init->td && init->td->context != context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("td"), weft_value(init->td));
	return 0;
}

struct ibv_pd *weft_verbs_alloc_parent_domain(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *init)
{
	int err = check_parent(context, init);
	struct ibv_pd *pd;

	if (err) {
		errno = err;
		return NULL;
	}
	pd = weft_verbs_pd_behind(context, weft_pd(init->pd));
	if (pd && init->td) {
		weft_pd(pd)->td = (struct weft_verbs_td *)init->td;
		weft_pd(pd)->td->users++;
	}
	return pd;
}
