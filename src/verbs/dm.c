/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Device memory: an extent of the pool that no program's address shows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/mr.h"
#include "nic/qp.h"
#include "verbs/attr.h"
#include "verbs/dm.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/mr.h"
#include "process/process.h"
#include "verbs/verbs.h"

static struct weft_verbs_dm *dm_of(struct ibv_dm *dm)
{
	return (struct weft_verbs_dm *)dm;
}

/* In words of four bytes, as network cards do. */
static int check_copy(const char *verb, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	if (weft_explain_stale(verb, dm, WEFT_HANDLE_DM))
		return EINVAL;
	if (offset % 4 || length % 4 || offset > dm_of(dm)->len_bytes ||
	    length > dm_of(dm)->len_bytes - offset)
		return weft_broken(verb, DM_RANGE, offset, length, dm_of(dm)->len_bytes);
	return 0;
}

/* Memory of another process ends with that, but not while we visit it. */
static int copy_dm(const char *verb, struct weft_verbs_dm *dm, void *to, const void *from,
		   size_t length)
{
	int err = 0;

	if (!dm->original.id) {
		memcpy(to, from, length);
		return 0;
	}
	weft_pool_visit(weft_process.pool, dm->original.owner);
	if (weft_object_lasts(&dm->original))
		memcpy(to, from, length);
	else
		err = weft_broken(verb, DM_ENDED, dm->dm.handle);
	weft_pool_depart(weft_process.pool);
	return err;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	int err = check_copy("ibv_memcpy_to_dm", dm, offset, length);

	return err ? err
		   : copy_dm("ibv_memcpy_to_dm", dm_of(dm), dm_of(dm)->at + offset, from, length);
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	int err = check_copy("ibv_memcpy_from_dm", dm, offset, length);

	return err ? err
		   : copy_dm("ibv_memcpy_from_dm", dm_of(dm), to, dm_of(dm)->at + offset, length);
}

static struct weft_verbs_dm *make_dm(struct ibv_context *context)
{
	struct weft_verbs_dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	dm->dm = (struct ibv_dm){context, copy_to, copy_from, 0, 0};
	if (!weft_handle_add(dm, WEFT_HANDLE_DM))
		return dm;
	free(dm);
	return NULL;
}

static int check_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr)
{
	const char *verb = "ibv_alloc_dm";

	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (!attr)
		return weft_broken(verb, MISSING, weft_value("attr"));
	if (attr->comp_mask)
		return weft_broken(verb, UNKNOWN_BITS, weft_value("comp_mask"), attr->comp_mask);
	if (!attr->length || attr->length > WEFT_MAX_DM)
		return weft_broken(verb, RANGE, weft_value("length"), attr->length, 1, WEFT_MAX_DM);
	if (attr->log_align_req > 12)
		return weft_broken(verb, RANGE, weft_value("log_align_req"), attr->log_align_req, 0,
				   12);
	return 0;
}

struct ibv_dm *weft_verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct weft_pool *pool = weft_process.pool;
	int err = check_dm(context, attr);
	struct weft_pool_object about = {.kind = WEFT_OBJECT_DM};
	struct weft_verbs_dm *dm;

	if (err) {
		errno = err;
		return NULL;
	}
	about.family = weft_context_find(context)->family;
	about.len_bytes = attr->length;
	if (weft_pool_extent_alloc(pool, attr->length, &about.off))
		goto fail;
	dm = make_dm(context);
	if (!dm)
		goto free_extent;
	if (weft_object_make(&dm->object, &about))
		goto free_object;
	dm->dm.handle = dm->object.number;
	dm->off = about.off;
	dm->len_bytes = attr->length;
	dm->at = weft_pool_window(pool, about.off, attr->length);
	return &dm->dm;
free_object:
	weft_handle_remove(dm);
	free(dm);
free_extent:
	weft_pool_extent_free(pool, about.off, attr->length);
fail:
	errno = weft_explain_errno("ibv_alloc_dm", ENOMEM);
	return NULL;
}

static void free_dm(struct weft_verbs_dm *dm)
{
	bool quiet = weft_object_end(&dm->object);

	if (!dm->reached && quiet) {
		weft_pool_extent_free(weft_process.pool, dm->off, dm->len_bytes);
		return;
	}
	weft_pool_retire(weft_process.pool, WEFT_RETIRE_EXTENT, dm->off, dm->len_bytes);
	weft_helper_watch();
}

int weft_verbs_free_dm(struct ibv_dm *ibdm)
{
	struct weft_verbs_dm *dm = dm_of(ibdm);

	if (weft_handle_inherited(ibdm))
		return 0;
	if (weft_explain_stale("ibv_free_dm", ibdm, WEFT_HANDLE_DM))
		return EINVAL;
	if (dm->users)
		return weft_broken("ibv_free_dm", IN_USE, dm->users, weft_value("device memory"));
	weft_handle_remove(dm);
	if (dm->behind)
		dm->behind->users--;
	else if (!dm->original.id)
		free_dm(dm);
	free(dm);
	return 0;
}

/* ---- Its regions ---- */

static void leave_dm(struct weft_verbs_mr *mr, bool quiet)
{
	struct weft_verbs_dm *dm = mr->of;

	if (!quiet)
		(dm->behind ? dm->behind : dm)->reached = true;
	dm->users--;
}

static int check_region(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			unsigned int access)
{
	const char *verb = "ibv_reg_dm_mr";

	if (weft_explain_no_domain(verb, pd) || weft_explain_stale(verb, dm, WEFT_HANDLE_DM) ||
	    !weft_verbs_good_access(verb, access))
		return EINVAL;
	if (pd->context != dm->context)
		return weft_broken(verb, OTHER_CONTEXT, weft_value("dm"), weft_value(dm));
	if (dm_of(dm)->original.id)
		return weft_broken(verb, DM_FAR, dm->handle);
	/* it has no address by which it could be seen */
	if (!(access & IBV_ACCESS_ZERO_BASED))
		return weft_broken(verb, DM_ADDRESS, access);
	if (offset > dm_of(dm)->len_bytes || length > dm_of(dm)->len_bytes - offset)
		return weft_broken(verb, DM_RANGE, offset, length, dm_of(dm)->len_bytes);
	return 0;
}

struct ibv_mr *weft_verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibdm, uint64_t offset,
				    size_t length, unsigned int access)
{
	struct weft_verbs_dm *dm = dm_of(ibdm);
	struct weft_mr_piece piece = {0, length, 0};
	struct weft_mr_source source = {.verb = "ibv_reg_dm_mr",
					.len_bytes = length,
					.access = access,
					.pieces = &piece,
					.npieces = length ? 1 : 0,
					.leave = leave_dm,
					.of = dm};
	int err = check_region(pd, ibdm, offset, length, access);
	struct ibv_mr *mr;

	if (err) {
		errno = err;
		return NULL;
	}
	piece.off = dm->off + offset;
	dm->users++;
	mr = weft_verbs_special_mr(pd, &source);
	if (!mr)
		dm->users--;
	return mr;
}

/* ---- Import: the same memory by another context of its family (import.c) ---- */

static bool is_handle(const void *object, const void *arg)
{
	const struct weft_verbs_dm *dm = object, *wanted = arg;

	return dm->dm.handle == wanted->dm.handle && !dm->behind && !dm->original.id &&
	       weft_same_family(dm->dm.context, wanted->dm.context);
}

/* The same memory, of this process or another. */
static bool stand_for(struct weft_verbs_dm *dm, struct weft_verbs_dm *behind,
		      const struct weft_pool_object *original)
{
	dm->behind = behind;
	dm->off = behind ? behind->off : original->off;
	dm->len_bytes = behind ? behind->len_bytes : original->len_bytes;
	dm->at =
		behind ? behind->at : weft_pool_populate(weft_process.pool, dm->off, dm->len_bytes);
	if (behind)
		behind->users++;
	else
		dm->original = *original;
	return dm->at;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct weft_verbs_dm wanted = {.dm = {.context = context, .handle = handle}};
	struct weft_verbs_dm *behind, *dm;
	struct weft_pool_object original;

	if (weft_explain_closed("ibv_import_dm", context)) {
		errno = EINVAL;
		return NULL;
	}
	behind = weft_handle_find(WEFT_HANDLE_DM, is_handle, &wanted);
	if (!behind && !weft_object_find(WEFT_OBJECT_DM, weft_context_find(context)->family, handle,
					 &original)) {
		errno = weft_broken("ibv_import_dm", NO_DM, handle);
		return NULL;
	}
	dm = make_dm(context);
	if (dm && stand_for(dm, behind, &original)) {
		dm->dm.handle = handle;
		return &dm->dm;
	}
	if (dm)
		weft_handle_remove(dm);
	free(dm);
	errno = weft_explain_errno("ibv_import_dm", ENOMEM);
	return NULL;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (weft_handle_is(dm, WEFT_HANDLE_DM) && (dm_of(dm)->behind || dm_of(dm)->original.id))
		weft_verbs_free_dm(dm);
}
