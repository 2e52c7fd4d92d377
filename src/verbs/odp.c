/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory on demand. Every region is: nothing is pinned. What remains are the region over all memory,
 * whose bytes are reached in place; the region over none; and advice.
 */
#include <errno.h>
#include <limits.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "nic/mr.h"
#include "nic/place.h"
#include "verbs/explain.h"
#include "verbs/mr.h"
#include "verbs/pd.h"
#include "process/process.h"
#include "verbs/verbs.h"
#include "pool/format_region.h"
#include "pool/seen.h"
#include "pool/sizes.h"

static void leave_implicit(struct weft_verbs_mr *mr, bool quiet)
{
	weft_region_hold(false);
}

struct ibv_mr *weft_verbs_implicit_mr(struct ibv_pd *pd, unsigned int access)
{
	struct weft_mr_source all = {.verb = "ibv_reg_mr",
				     .len_bytes = SIZE_MAX,
				     .access = access,
				     .leave = leave_implicit};
	struct ibv_mr *mr;

	weft_region_hold(true);
	mr = weft_verbs_special_mr(pd, &all);
	if (!mr)
		weft_region_hold(false);
	return mr;
}

struct ibv_mr *weft_verbs_alloc_null_mr(struct ibv_pd *pd)
{
	struct weft_mr_piece none = {0, SIZE_MAX, WEFT_NOWHERE};
	struct weft_mr_source source = {.verb = "ibv_alloc_null_mr",
					.len_bytes = SIZE_MAX,
					.access = IBV_ACCESS_LOCAL_WRITE,
					.pieces = &none,
					.npieces = 1,
					.loose = true}; /* a network card has a key for it anyway */

	if (weft_explain_no_domain("ibv_alloc_null_mr", pd)) {
		errno = EINVAL;
		return NULL;
	}
	return weft_verbs_special_mr(pd, &source);
}

/* ---- Advice ---- */

/* The entry of a key of ours that the domain may use so. An errno. */
static int find_entry(const struct ibv_pd *pd, const struct ibv_sge *sge, bool write,
		      const struct weft_pool_mr **mr)
{
	struct weft_pool *pool = weft_process.pool;
	uint64_t start;

	if (weft_mr_prepare(pool, sge->lkey))
		return weft_broken("ibv_advise_mr", ADVICE_KEY, sge->lkey);
	*mr = &pool->mr_seen[sge->lkey >> WEFT_KEY_BITS].mr;
	if ((*mr)->owner != pool->me || (*mr)->pd != ((const struct weft_verbs_pd *)pd)->number ||
	    (write && !((*mr)->access & WEFT_ACCESS_LOCAL_WRITE)))
		return weft_broken("ibv_advise_mr", ADVICE_RIGHT, sge->lkey);
	start = sge->addr - (*mr)->iova;
	if (start > (*mr)->len_bytes || sge->length > (*mr)->len_bytes - start)
		return weft_broken("ibv_advise_mr", ADVICE_RANGE, sge->addr, sge->length,
				   sge->lkey);
	return 0;
}

static int prefetch(const struct weft_pool_mr *mr, const struct ibv_sge *sge, bool write)
{
	uint64_t start = mr->va + (sge->addr - mr->iova), end = start + sge->length;

	if (mr->off == WEFT_NOWHERE || weft_mr_on_device(mr))
		return 0;
	start &= ~(WEFT_PAGE - 1);
	if (!sge->length || !madvise((void *)(uintptr_t)start, end - start,
				     write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	if (errno == EINVAL)
		return 0; /* before Linux 5.14: advice that cannot be taken */
	return weft_broken("ibv_advise_mr", ADVICE_RANGE, sge->addr, sge->length, sge->lkey);
}

int weft_verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *list, uint32_t n)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const struct weft_pool_mr *mr = NULL;
	const char *verb = "ibv_advise_mr";
	int err = 0;

	if ((unsigned int)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return weft_broken(verb, NOT_OFFERED, weft_value("advice"), advice);
	if (weft_explain_no_domain(verb, pd))
		return EINVAL;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return weft_broken(verb, UNKNOWN_BITS, weft_value("flags"), flags);
	if (!n)
		return weft_broken(verb, RANGE, weft_value("num_sge"), 0, 1, INT_MAX);
	if (!list)
		return weft_broken(verb, MISSING, weft_value("sg_list"), weft_value(list));
	for (uint32_t i = 0; i < n && !err; i++)
		err = find_entry(pd, &list[i], write, &mr);
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return err;
	for (uint32_t i = 0; i < n && !err; i++) {
		err = find_entry(pd, &list[i], write, &mr);
		if (!err)
			err = prefetch(mr, &list[i], write);
	}
	return err;
}
