/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory on demand. Every region is: nothing is pinned. What remains are the region over all memory,
 * whose bytes are reached in place; the region over none; and advice.
 */
#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "nic/place.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/verbs.h"

static void leave_implicit(struct weft_verbs_mr *mr, bool quiet)
{
	weft_region_hold(false);
}

struct ibv_mr *weft_verbs_implicit_mr(struct ibv_pd *pd, unsigned int access)
{
	struct weft_mr_source all = { .len_bytes = SIZE_MAX, .access = access, .leave = leave_implicit };
	struct ibv_mr *mr;

	weft_region_hold(true);
	mr = weft_verbs_special_mr(pd, &all);
	if (!mr)
		weft_region_hold(false);
	return mr;
}

struct ibv_mr *weft_verbs_alloc_null_mr(struct ibv_pd *pd)
{
	struct weft_mr_piece none = { 0, SIZE_MAX, WEFT_NOWHERE };
	struct weft_mr_source source = { .len_bytes = SIZE_MAX,
					 .access = IBV_ACCESS_LOCAL_WRITE,
					 .pieces = &none,
					 .npieces = 1 };

	if (!weft_handle_is(pd, WEFT_HANDLE_PD)) {
		errno = EINVAL;
		return NULL;
	}
	return weft_verbs_special_mr(pd, &source);
}

/* ---- Advice ---- */

/* The entry of a key of ours that the domain may use so. An errno. */
static int find(const struct ibv_pd *pd, const struct ibv_sge *sge, bool write,
		const struct weft_pool_mr **mr)
{
	struct weft_pool *pool = weft_process.pool;
	uint64_t start;

	if (weft_mr_prepare(pool, sge->lkey))
		return ENOENT;
	*mr = &pool->mr_seen[sge->lkey >> WEFT_KEY_BITS].mr;
	if ((*mr)->owner != pool->me || (*mr)->pd != ((const struct weft_verbs_pd *)pd)->number ||
	    (write && !((*mr)->access & WEFT_ACCESS_LOCAL_WRITE)))
		return EPERM;
	start = sge->addr - (*mr)->iova;
	return start > (*mr)->len_bytes || sge->length > (*mr)->len_bytes - start ? EFAULT : 0;
}

static int prefetch(const struct weft_pool_mr *mr, const struct ibv_sge *sge, bool write)
{
	uint64_t start = mr->va + (sge->addr - mr->iova), end = start + sge->length;

	if (mr->off == WEFT_NOWHERE)
		return 0;
	start &= ~(WEFT_PAGE - 1);
	if (!sge->length ||
	    !madvise((void *)(uintptr_t)start, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL ? 0 : EFAULT; /* before Linux 5.14: advice that cannot be taken */
}

int weft_verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *list, uint32_t n)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const struct weft_pool_mr *mr = NULL;
	int err = 0;

	if ((unsigned int)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if (!weft_handle_is(pd, WEFT_HANDLE_PD) || flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n ||
	    !list)
		return EINVAL;
	for (uint32_t i = 0; i < n && !err; i++)
		err = find(pd, &list[i], write, &mr);
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return err;
	for (uint32_t i = 0; i < n && !err; i++) {
		err = find(pd, &list[i], write, &mr);
		if (!err)
			err = prefetch(mr, &list[i], write);
	}
	return err;
}
