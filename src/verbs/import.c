/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Contexts imported by the descriptor of another one, of this or another process, and what those have
 * made, by its handles. The descriptor is a file that says which context it is, for the process it is passed
 * to. An import is a handle of its own: what it stands for ends with the process that made it.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "nic/place.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "process/process.h"
#include "verbs/verbs.h"
#include "pool/format_region.h"
#include "pool/sizes.h"

#define MAGIC 0x5458455446455722ull

struct export
{
	uint64_t magic, family;
	uint64_t pool[2];
	uint64_t incarnation, member; /* of the process */
	uint64_t imported;	      /* whether any process has ever imported it */
};

/* 0; EBADF; EINVAL: it is something else. */
static int read_export(int fd, struct export *e)
{
	ssize_t n = pread(fd, e, sizeof(*e), 0);

	if (n < 0 && errno == EBADF)
		return weft_broken("ibv_import_device", DESCRIPTOR, (uint64_t)fd);
	return n == sizeof(*e) && e->magic == MAGIC
		       ? 0
		       : weft_broken("ibv_import_device", EXPORT, (uint64_t)fd);
}

int weft_context_export(int fd, uint64_t family)
{
	const struct weft_pool *pool = weft_process.pool;
	struct export e = {.magic = MAGIC,
			   .family = family,
			   .incarnation = pool->incarnation,
			   .member = pool->me};

	weft_pool_identity(e.pool);
	return pwrite(fd, &e, sizeof(e), 0) == sizeof(e) ? 0 : -ENOSPC;
}

bool weft_context_was_imported(const struct ibv_context *context)
{
	struct export e;

	/* a program that has closed the descriptor may have passed it on before */
	return pread(context->cmd_fd, &e, sizeof(e), 0) != sizeof(e) || e.magic != MAGIC ||
	       e.imported;
}

bool weft_same_family(const struct ibv_context *a, const struct ibv_context *b)
{
	const struct weft_context *x = weft_context_find(a), *y = weft_context_find(b);

	return x && y && x->family == y->family;
}

/* Asked before a pool is opened, and perhaps made. */
static int check_pool(int fd, const struct export *e)
{
	uint64_t ours[2];

	return weft_pool_identity(ours) || ours[0] != e->pool[0] || ours[1] != e->pool[1]
		       ? weft_broken("ibv_import_device", FOREIGN, (uint64_t)fd)
		       : 0;
}

/* We are in its pool. */
static int check_member(int fd, const struct export *e)
{
	struct weft_pool *pool = weft_process.pool;

	return e->member < WEFT_MEMBERS &&
			       weft_pool_alive(pool, (uint16_t)e->member, e->incarnation)
		       ? 0
		       : weft_broken("ibv_import_device", GONE, (uint64_t)fd);
}

static int mark_imported(int fd)
{
	const uint64_t yes = 1;

	return pwrite(fd, &yes, sizeof(yes), offsetof(struct export, imported)) == sizeof(yes)
		       ? 0
		       : weft_explain_errno("ibv_import_device", errno);
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *context = NULL;
	struct export e;
	int err = read_export(cmd_fd, &e);

	if (!err)
		err = check_pool(cmd_fd, &e);
	if (!err) {
		context = weft_context_import(e.family);
		if (!context)
			return NULL;
		err = check_member(cmd_fd, &e);
	}
	if (!err)
		err = mark_imported(cmd_fd);
	if (!err) {
		context->cmd_fd = cmd_fd;
		return context;
	}
	if (context)
		ibv_close_device(context);
	errno = err;
	return NULL;
}

/* ---- Protection domains ---- */

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct weft_pool_object domain;

	if (weft_explain_closed("ibv_import_pd", context)) {
		errno = EINVAL;
		return NULL;
	}
	if (!weft_object_find(WEFT_OBJECT_DOMAIN, weft_context_find(context)->family, handle,
			      &domain)) {
		errno = weft_broken("ibv_import_pd", NO_DOMAIN, handle);
		return NULL;
	}
	return weft_verbs_pd_import(context, &domain, handle);
}

/* ---- Regions ---- */

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct weft_pool_mr entry;
	struct weft_verbs_mr *mr;

	if (weft_explain_no_domain("ibv_import_mr", pd) || weft_verbs_pd_use("ibv_import_mr", pd)) {
		errno = EINVAL;
		return NULL;
	}
	if (!weft_mr_read(weft_process.pool, handle, &entry) || entry.pd != weft_pd(pd)->number) {
		weft_verbs_pd_leave(pd);
		errno = weft_broken("ibv_import_mr", NO_REGION, handle);
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr || weft_handle_add(mr, WEFT_HANDLE_MR)) {
		free(mr);
		weft_verbs_pd_leave(pd);
		errno = weft_explain_errno("ibv_import_mr", ENOMEM);
		return NULL;
	}
	/* its address is the exporter's to tell */
	mr->mr = (struct ibv_mr){pd->context, pd, NULL, entry.len_bytes, handle, handle, handle};
	mr->imported = true;
	return &mr->mr;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!weft_handle_is(mr, WEFT_HANDLE_MR) || !weft_mr(mr)->imported)
		return;
	weft_rehome_share();
	weft_handle_remove(mr);
	weft_rehome_unshare();
	weft_verbs_pd_leave(mr->pd);
	free(weft_mr(mr));
}
