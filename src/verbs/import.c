/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Contexts imported by the descriptor of another one, and what that has made, by its handles. The
 * descriptor is a file with the number of the context's family, for whoever it is passed to. Only
 * within a process: a region's memory, its queue pairs and its keys are those of one member.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/explain.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/verbs.h"

#define MAGIC 0x5458455446455721ull

struct export {
	uint64_t magic, incarnation, family;
};

int weft_context_export(int fd, uint64_t family)
{
	struct export e = { MAGIC, weft_process.pool->incarnation, family };

	return pwrite(fd, &e, sizeof(e), 0) == sizeof(e) ? 0 : -ENOSPC;
}

bool weft_same_family(const struct ibv_context *a, const struct ibv_context *b)
{
	const struct weft_context *x = weft_context_find(a), *y = weft_context_find(b);

	return x && y && x->family == y->family;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct export e;

	if (pread(cmd_fd, &e, sizeof(e), 0) != sizeof(e) || e.magic != MAGIC) {
		errno = weft_broken("ibv_import_device", EXPORT, (uint64_t)cmd_fd);
		return NULL;
	}
	if (!weft_process.contexts || e.incarnation != weft_process.pool->incarnation) {
		errno = weft_broken("ibv_import_device", FOREIGN, (uint64_t)cmd_fd);
		return NULL;
	}
	return weft_context_import(e.family, cmd_fd);
}

/* ---- Protection domains ---- */

static bool is_pd(const void *object, const void *arg)
{
	const struct weft_verbs_pd *pd = object;
	const struct ibv_pd *wanted = arg;

	return pd->pd.handle == wanted->handle && !pd->behind &&
	       weft_same_family(pd->pd.context, wanted->context);
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct ibv_pd wanted = { context, handle };
	struct weft_verbs_pd *behind;

	if (weft_explain_closed("ibv_import_pd", context)) {
		errno = EINVAL;
		return NULL;
	}
	behind = weft_handle_find(WEFT_HANDLE_PD, is_pd, &wanted);
	if (!behind) {
		errno = weft_broken("ibv_import_pd", NOTHING, weft_value("protection domain"), handle);
		return NULL;
	}
	return weft_verbs_pd_behind(context, behind);
}

/* Programs do so before they destroy what they made in it: it then ends with the context. */
void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (weft_handle_is(pd, WEFT_HANDLE_PD) && weft_pd(pd)->behind && !weft_pd(pd)->td)
		ibv_dealloc_pd(pd);
}

/* ---- Regions ---- */

static bool is_mr(const void *object, const void *arg)
{
	const struct ibv_mr *mr = object, *wanted = arg;

	return mr->handle == wanted->handle && !((const struct weft_verbs_mr *)object)->imported &&
	       weft_pd(mr->pd)->number == weft_pd(wanted->pd)->number &&
	       weft_same_family(mr->context, wanted->pd->context);
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct ibv_mr wanted = { .pd = pd, .handle = handle };
	struct weft_verbs_mr *mr;
	const struct ibv_mr *behind;

	if (weft_explain_stale("ibv_import_mr", pd, WEFT_HANDLE_PD)) {
		errno = EINVAL;
		return NULL;
	}
	behind = weft_handle_find(WEFT_HANDLE_MR, is_mr, &wanted);
	if (!behind) {
		errno = weft_broken("ibv_import_mr", NOTHING,
				    weft_value("region of that domain"), handle);
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr || weft_handle_add(mr, WEFT_HANDLE_MR)) {
		free(mr);
		errno = weft_explain_errno("ibv_import_mr", ENOMEM);
		return NULL;
	}
	/* its address is the exporter's to tell */
	mr->mr = (struct ibv_mr){ pd->context, pd, NULL, behind->length, handle, behind->lkey, behind->rkey };
	mr->imported = true;
	weft_pd(pd)->users++;
	return &mr->mr;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!weft_handle_is(mr, WEFT_HANDLE_MR) || !weft_mr(mr)->imported)
		return;
	weft_rehome_share();
	weft_handle_remove(mr);
	weft_rehome_unshare();
	weft_pd(mr->pd)->users--;
	free(weft_mr(mr));
}
