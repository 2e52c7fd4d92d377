/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory regions: the range migrates into the pool (region.h), and gets a key (nic/mr.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/mr.h"
#include "nic/nic.h"
#include "pool/step.h"
#include "pool/sizes.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/inline.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "process/device.h"
#include "process/process.h"
#include "verbs/verbs.h"

#define ACCESS_KNOWN                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB)
#define ACCESS_OPTIONAL                                                                            \
	(((IB_UVERBS_ACCESS_OPTIONAL_LAST << 1) - 1) & ~(IB_UVERBS_ACCESS_OPTIONAL_FIRST - 1))
#define FLUSHES                                                                                    \
	(1 << 8 | 1 << 9) /* IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT, from rdma-core 46 on */
#define ACCESS_MIGRATES                                                                            \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

bool weft_verbs_known_access(const char *verb, unsigned int access)
{
	/* the optional ones are a wish, never an error (ibv_reg_mr(3)) */
	if (!(access & ~(unsigned int)(ACCESS_KNOWN | ACCESS_OPTIONAL | FLUSHES)))
		return true;
	weft_broken(verb, ACCESS_BITS, access);
	return false;
}

bool weft_verbs_good_access(const char *verb, unsigned int access)
{
	if (!weft_verbs_known_access(verb, access))
		return false;
	if (access & FLUSHES) {
		weft_broken(verb, ACCESS_FLUSH, access);
		return false;
	}
	/* what others may write, the owner may (11.2.8.2) */
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE)) {
		weft_broken(verb, ACCESS_LOCAL, access);
		return false;
	}
	return true;
}

static int check_range(const char *verb, struct ibv_pd *pd, void *addr, size_t length,
		       uint64_t iova, unsigned int access)
{
	if (weft_explain_no_domain(verb, pd))
		return EINVAL;
	if (!weft_verbs_good_access(verb, access))
		return EINVAL;
	if (!length || (uintptr_t)addr + length < (uintptr_t)addr)
		return weft_broken(verb, MEMORY_RANGE, weft_value("addr"), (uintptr_t)addr, length);
	if (iova + length < iova)
		return weft_broken(verb, MEMORY_RANGE, weft_value("iova"), iova, length);
	/* a network card's tables map pages, so that both have the same offset in a page */
	if ((iova ^ (uintptr_t)addr) & (WEFT_PAGE - 1) && !(access & IBV_ACCESS_ZERO_BASED))
		return weft_broken(verb, MEMORY_PAGES, (uintptr_t)addr, iova);
	return 0;
}

/* What a registration failed with. */
static int explain(const char *verb, int err, const void *addr, size_t length)
{
	if (err == ENOPKG)
		return weft_broken(verb, MEMORY_PLUGIN, (uintptr_t)addr, length,
				   weft_value(weft_device_missing()));
	return err == EFAULT ? weft_broken(verb, MEMORY, (uintptr_t)addr, length)
			     : weft_explain_errno(verb, err);
}

/* What is mapped at the addresses of a region on demand may change: the pool would have what was there. */
static unsigned int region_flags(unsigned int access)
{
	return (access & ACCESS_MIGRATES ? WEFT_REGION_MIGRATE : 0) |
	       (access & IBV_ACCESS_ON_DEMAND ? WEFT_REGION_STAY : 0) |
	       (access & IBV_ACCESS_LOCAL_WRITE ? WEFT_REGION_WRITE : 0);
}

/* *room: for the piece of memory of a device. */
static struct weft_mr_drawing drawing_of(const struct weft_verbs_mr *mr, struct weft_mr_piece *room)
{
	struct weft_mr_drawing d = {weft_pd(mr->mr.pd)->number,
				    (uint8_t)mr->access,
				    mr->iova,
				    (uintptr_t)mr->mr.addr,
				    mr->mr.length,
				    (const struct weft_mr_piece *)mr->region.pieces,
				    mr->region.npieces};

	_Static_assert(sizeof(struct weft_mr_piece) == sizeof(*mr->region.pieces),
		       "pieces are the same to both");
	if (mr->device) {
		*room = (struct weft_mr_piece){d.va, d.len_bytes, weft_device_off(mr->device)};
		d.pieces = room;
		d.npieces = 1;
	}
	return d;
}

/* The host's memory, or a device's. 0 or -errno; -ENOPKG: neither, as far as can be told without a plugin. */
static int acquire_memory(struct weft_verbs_mr *mr, void *addr, size_t length, unsigned int access)
{
	int on_device = weft_device_begin(weft_process.pool, (uintptr_t)addr, length, &mr->device),
	    err;

	if (!on_device)
		weft_verbs_look_before_inline();
	/* -EIO: the driver has not begun, or has ended, and then there is no memory of devices */
	if (on_device != -ENOENT && on_device != -ENOPKG && on_device != -EIO)
		return on_device;
	err = weft_region_acquire(addr, length, region_flags(access), &mr->region);
	return err == -EFAULT && on_device == -ENOPKG ? -ENOPKG : err;
}

static bool is_pooled(const struct weft_region *region)
{
	for (unsigned int i = 0; i < region->npieces; i++)
		if (region->pieces[i].off != WEFT_IN_PLACE)
			return true;
	return false;
}

static void release_memory(struct weft_verbs_mr *mr, bool quiet)
{
	if (mr->device) {
		weft_device_end(weft_process.pool, mr->device, quiet);
		return;
	}
	if (!quiet)
		weft_region_quarantine(&mr->region);
	/* a driver that has come since may have pinned it, and is asked by its plugin */
	if (is_pooled(&mr->region))
		weft_device_any();
	weft_region_release(&mr->region);
}

/* The range and rights have been checked. */
static int acquire_range(struct weft_verbs_mr *mr, struct ibv_pd *pd, void *addr, size_t length,
			 uint64_t iova, unsigned int access)
{
	int err = acquire_memory(mr, addr, length, access);

	if (err)
		return err;
	mr->mr = (struct ibv_mr){pd->context, pd, addr, length, 0, 0, 0};
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access;
	WEFT_STEP(verbs_region_acquired);
	return 0;
}

static void use_key(struct weft_verbs_mr *mr)
{
	WEFT_STEP(verbs_key_made);
	mr->mr.lkey = mr->mr.rkey = mr->mr.handle = mr->nic.key;
}

static int open_region(struct weft_verbs_mr *mr, struct ibv_pd *pd, void *addr, size_t length,
		       uint64_t iova, unsigned int access)
{
	struct weft_mr_drawing drawing;
	struct weft_mr_piece room;
	int err = acquire_range(mr, pd, addr, length, iova, access);

	if (err)
		return err;
	drawing = drawing_of(mr, &room);
	err = weft_mr_create(&weft_process_nic, &mr->nic, &drawing);
	if (err) {
		release_memory(mr, true);
		return err == -ENOSPC ? -ENOMEM : err; /* out of resources, says hardware */
	}
	use_key(mr);
	return 0;
}

/* Whether no executor can reach it any more. */
static bool close_region(struct weft_verbs_mr *mr)
{
	bool quiet = weft_mr_revoke(&mr->nic);

	WEFT_STEP(verbs_key_revoked);
	release_memory(mr, quiet);
	WEFT_STEP(verbs_region_released);
	weft_mr_destroy(&mr->nic, quiet);
	if (mr->leave)
		mr->leave(mr, quiet);
	return quiet;
}

static struct ibv_mr *register_region(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      unsigned int access)
{
	struct weft_verbs_mr *mr;
	int err = check_range("ibv_reg_mr", pd, addr, length, iova, access);

	if (!err && access & IBV_ACCESS_ON_DEMAND && !addr && length == SIZE_MAX)
		return weft_verbs_implicit_mr(pd, access);
	if (!err)
		err = weft_verbs_pd_use("ibv_reg_mr", pd);
	if (err) {
		errno = err;
		return NULL;
	}
	err = ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		goto fail;
	weft_rehome_share();
	err = -open_region(mr, pd, addr, length, iova, access);
	if (err)
		goto free_object;
	err = -weft_handle_add(mr, WEFT_HANDLE_MR);
	if (err)
		goto end_region;
	weft_rehome_unshare();
	return &mr->mr;
end_region:
	close_region(mr);
free_object:
	weft_rehome_unshare();
	free(mr);
fail:
	weft_verbs_pd_leave(pd);
	errno = explain("ibv_reg_mr", err, addr, length);
	return NULL;
}

void weft_verbs_rehome(void)
{
	struct weft_mr_drawing drawing;
	struct weft_mr_piece room;
	struct weft_verbs_mr **mr;
	size_t n = weft_handle_list(NULL, WEFT_HANDLE_MR, (void ***)&mr);

	/* none although some are exposed: memory is out, and all stays where it is */
	if (!n)
		return;
	weft_nic_hold(&weft_process_nic);
	weft_region_rehome();
	WEFT_STEP(rehome_replaced);
	for (size_t i = 0; i < n; i++) {
		if (!weft_region_follow(&mr[i]->region))
			continue;
		drawing = drawing_of(mr[i], &room);
		weft_mr_redraw(&mr[i]->nic, &drawing);
	}
	WEFT_STEP(rehome_redrawn);
	weft_nic_let_go(&weft_process_nic);
	free(mr);
}

struct ibv_mr *weft_verbs_special_mr(struct ibv_pd *pd, const struct weft_mr_source *source)
{
	struct weft_mr_drawing drawing = {
		weft_pd(pd)->number, (uint8_t)source->access, source->iova,   source->va,
		source->len_bytes,   source->pieces,	      source->npieces};
	int err = source->loose ? 0 : weft_verbs_pd_use(source->verb, pd);
	struct weft_verbs_mr *mr;

	if (err) {
		errno = err;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		goto fail;
	mr->mr = (struct ibv_mr){pd->context, pd, source->told, source->len_bytes, 0, 0, 0};
	mr->access = source->access;
	mr->special = true;
	mr->loose = source->loose;
	mr->of = source->of;
	if (weft_mr_create(&weft_process_nic, &mr->nic, &drawing))
		goto free_object;
	use_key(mr);
	if (weft_handle_add(mr, WEFT_HANDLE_MR))
		goto end_region;
	mr->leave =
		source->leave; /* set only now: until here the caller has cleaned up what the source has */
	return &mr->mr;
end_region:
	close_region(mr);
free_object:
	free(mr);
fail:
	if (!source->loose)
		weft_verbs_pd_leave(pd);
	errno = weft_explain_errno(source->verb, ENOMEM);
	return NULL;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return register_region(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return register_region(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return register_region(pd, addr, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	bool quiet;

	if (weft_handle_inherited(ibmr))
		return 0;
	if (weft_explain_stale("ibv_dereg_mr", ibmr, WEFT_HANDLE_MR))
		return EINVAL;
	if (weft_mr(ibmr)->imported) {
		ibv_unimport_mr(ibmr);
		return 0;
	}
	weft_rehome_share();
	if (!weft_mr_close(&weft_mr(ibmr)->nic)) {
		weft_rehome_unshare();
		return weft_broken("ibv_dereg_mr", WINDOW_BOUND, ibmr->rkey);
	}
	weft_handle_remove(ibmr);
	quiet = close_region(weft_mr(ibmr));
	if (!weft_mr(ibmr)->loose)
		weft_verbs_pd_leave(ibmr->pd);
	weft_rehome_unshare();
	if (!quiet)
		weft_rehome();
	free(weft_mr(ibmr));
	return 0;
}

/* The key stays: peers have it already. */
static int change_access(struct weft_verbs_mr *mr, struct ibv_pd *pd, unsigned int access,
			 bool *quiet)
{
	struct weft_verbs_mr old = *mr, fresh = {0};
	struct weft_mr_drawing drawing;
	struct weft_mr_piece room;
	int err = acquire_range(&fresh, pd, old.mr.addr, old.mr.length, old.iova, access);

	if (err)
		goto fail;
	/* from zero-based to not, it is seen at its address */
	if (old.access & IBV_ACCESS_ZERO_BASED && !(access & IBV_ACCESS_ZERO_BASED))
		fresh.iova = (uintptr_t)old.mr.addr;
	drawing = drawing_of(&fresh, &room);
	err = weft_mr_replace(&fresh.nic, &old.nic, &drawing, quiet);
	if (err)
		goto release;
	release_memory(&old, *quiet);
	use_key(&fresh);
	fresh.mr.handle = old.mr.handle;
	*mr = fresh;
	return 0;
release:
	release_memory(&fresh, true);
fail:
	errno = err == -EBUSY ? weft_broken("ibv_rereg_mr", WINDOW_BOUND, old.mr.rkey)
			      : explain("ibv_rereg_mr", -err, old.mr.addr, old.mr.length);
	return IBV_REREG_MR_ERR_CMD;
}

/* The new region is whole before the old one ends, so that whatever fails leaves that as it was. */
static int replace_memory(struct weft_verbs_mr *mr, struct ibv_pd *pd, void *addr, size_t length,
			  unsigned int access, bool *quiet)
{
	struct weft_verbs_mr old = *mr, fresh = {0};
	int err = open_region(&fresh, pd, addr, length, (uintptr_t)addr, access);

	if (err) {
		errno = explain("ibv_rereg_mr", -err, addr, length);
		return IBV_REREG_MR_ERR_CMD;
	}
	if (!weft_mr_close(&old.nic)) {
		close_region(&fresh);
		errno = weft_broken("ibv_rereg_mr", WINDOW_BOUND, old.mr.rkey);
		return IBV_REREG_MR_ERR_CMD;
	}
	fresh.mr.handle = old.mr.handle;
	*mr = fresh;
	WEFT_STEP(verbs_region_replaced);
	*quiet = close_region(&old);
	return 0;
}

static int replace(struct weft_verbs_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		   size_t length, unsigned int access, bool *quiet)
{
	bool translates = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	bool anew = translates || mr->access & IBV_ACCESS_ZERO_BASED;
	struct ibv_pd *old = mr->mr.pd;
	uint64_t iova;
	int err;

	pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : old;
	addr = translates ? addr : mr->mr.addr;
	length = translates ? length : mr->mr.length;
	iova = anew ? (uintptr_t)addr : mr->iova;
	access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->access;
	err = check_range("ibv_rereg_mr", pd, addr, length, iova, access);
	if (!err && pd->context != mr->mr.context)
		err = weft_broken("ibv_rereg_mr", OTHER_CONTEXT, weft_value("pd"), weft_value(pd));
	if (!err)
		err = weft_verbs_pd_use("ibv_rereg_mr", pd);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	err = translates ? replace_memory(mr, pd, addr, length, access, quiet)
			 : change_access(mr, pd, access, quiet);
	weft_verbs_pd_leave(err ? pd : old);
	return err;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	bool quiet = true;
	int err = IBV_REREG_MR_ERR_INPUT;

	if (weft_explain_stale("ibv_rereg_mr", mr, WEFT_HANDLE_MR)) {
		errno = EINVAL;
	} else if (weft_mr(mr)->special || weft_mr(mr)->imported) {
		errno = weft_broken("ibv_rereg_mr", REREG_KIND, mr->rkey);
	} else if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
		   (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) ||
		   (!addr && flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		errno = weft_broken("ibv_rereg_mr", REREG, (uint64_t)flags, (uintptr_t)addr,
				    (uint64_t)access);
	} else {
		weft_rehome_share();
		err = replace(weft_mr(mr), flags, pd, addr, length, (unsigned int)access, &quiet);
		weft_rehome_unshare();
		if (!quiet)
			weft_rehome();
	}
	return err;
}
