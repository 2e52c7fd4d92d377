/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Protection domains. Their numbers are unique in the pool, so that processes can share them (import.c). */
#include <errno.h>
#include <stdlib.h>

#include "nic/qp.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/pd.h"
#include "verbs/verbs.h"

static struct weft_verbs_pd *make_pd(const char *verb, struct ibv_context *context)
{
	struct weft_verbs_pd *pd = calloc(1, sizeof(*pd));

	if (!pd || weft_handle_add(pd, WEFT_HANDLE_PD)) {
		free(pd);
		errno = weft_explain_errno(verb, ENOMEM);
		return NULL;
	}
	pd->pd.context = context;
	pd->users = &pd->own_users;
	return pd;
}

static void unmake(struct weft_verbs_pd *pd)
{
	weft_handle_remove(pd);
	free(pd);
}

static void give_number(struct weft_verbs_pd *pd, uint32_t number)
{
	pd->number = pd->pd.handle = number;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct weft_verbs_pd *pd;
	int err;

	if (weft_explain_closed("ibv_alloc_pd", context)) {
		errno = EINVAL;
		return NULL;
	}
	pd = make_pd("ibv_alloc_pd", context);
	if (!pd)
		return NULL;
	err = weft_object_make(&pd->object, &(struct weft_pool_object){
						    .kind = WEFT_OBJECT_DOMAIN,
						    .family = weft_context_find(context)->family});
	if (err) {
		unmake(pd);
		errno = weft_explain_errno("ibv_alloc_pd", -err);
		return NULL;
	}
	give_number(pd, pd->object.number);
	return &pd->pd;
}

/* No other process uses a domain of a context that was never imported: the pool is not searched then. */
static bool end_domain(struct weft_verbs_pd *pd, bool force)
{
	if (!force && weft_context_was_imported(pd->pd.context))
		return weft_object_end_domain(&pd->object);
	weft_object_drop(&pd->object);
	return true;
}

/* force: even if other processes use it. */
static int dealloc(const char *verb, struct ibv_pd *ibpd, bool force)
{
	struct weft_verbs_pd *pd = weft_pd(ibpd);

	if (*pd->users)
		return weft_broken(verb, IN_USE, *pd->users, weft_value("protection domain"));
	if (pd->imported)
		weft_object_drop(&pd->object);
	else if (!pd->behind && !end_domain(pd, force))
		return weft_broken(verb, IN_USE_ELSEWHERE, pd->number);
	if (pd->behind)
		weft_verbs_pd_leave(&pd->behind->pd);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	unmake(pd);
	return 0;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (weft_handle_inherited(pd))
		return 0;
	return weft_explain_stale("ibv_dealloc_pd", pd, WEFT_HANDLE_PD)
		       ? EINVAL
		       : dealloc("ibv_dealloc_pd", pd, false);
}

/* Programs do so before they destroy what they made in it: it then ends with the context. */
void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (weft_handle_is(pd, WEFT_HANDLE_PD) && weft_pd(pd)->imported)
		dealloc("ibv_unimport_pd", pd, false);
}

void weft_verbs_end_pd(struct ibv_pd *pd)
{
	dealloc("ibv_close_device", pd, true);
}

void weft_verbs_pd_leave(struct ibv_pd *pd)
{
	atomic_fetch_sub(weft_pd(pd)->users, 1);
}

int weft_verbs_pd_use(const char *verb, struct ibv_pd *ibpd)
{
	struct weft_verbs_pd *pd = weft_pd(ibpd);

	atomic_fetch_add(pd->users, 1);
	if (!pd->imported || weft_object_keep(&pd->domain))
		return 0;
	weft_verbs_pd_leave(ibpd);
	return weft_broken(verb, DOMAIN_ENDED, ibpd->handle);
}

bool weft_verbs_pd_ended(const struct weft_verbs_pd *pd)
{
	while (pd->behind)
		pd = pd->behind;
	return pd->imported && !weft_object_lasts(&pd->domain);
}

struct ibv_pd *weft_verbs_pd_behind(struct ibv_context *context, struct weft_verbs_pd *behind)
{
	const char *verb = "ibv_alloc_parent_domain";
	struct weft_verbs_pd *pd;
	int err = weft_verbs_pd_use(verb, &behind->pd);

	if (err) {
		errno = err;
		return NULL;
	}
	pd = make_pd(verb, context);
	if (!pd) {
		weft_verbs_pd_leave(&behind->pd);
		return NULL;
	}
	give_number(pd, behind->number);
	pd->behind = behind;
	return &pd->pd;
}

struct ibv_pd *weft_verbs_pd_import(struct ibv_context *context,
				    const struct weft_pool_object *domain, uint32_t number)
{
	struct weft_verbs_pd *pd = make_pd("ibv_import_pd", context);
	int err;

	if (!pd)
		return NULL;
	err = weft_object_make(&pd->object, &(struct weft_pool_object){.kind = WEFT_OBJECT_IMPORT,
								       .domain = number});
	if (err) {
		unmake(pd);
		errno = weft_explain_errno("ibv_import_pd", -err);
		return NULL;
	}
	give_number(pd, number);
	pd->imported = true;
	pd->domain = *domain;
	pd->users = weft_object_users(&pd->object);
	return &pd->pd;
}
