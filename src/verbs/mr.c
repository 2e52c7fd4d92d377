/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory regions: the range moves into the pool (region.h), and gets a key (nic/mr.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/verbs.h"

#define ACCESS_KNOWN                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB)
#define ACCESS_OPTIONAL                                                                           \
	(((IB_UVERBS_ACCESS_OPTIONAL_LAST << 1) - 1) & ~(IB_UVERBS_ACCESS_OPTIONAL_FIRST - 1))
#define ACCESS_MOVES                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                \
	 IBV_ACCESS_REMOTE_ATOMIC)

static int check(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	access &= ~(unsigned int)ACCESS_OPTIONAL; /* a wish, never an error (ibv_reg_mr(3)) */
	if (!weft_handle_is(pd, WEFT_HANDLE_PD) || access & ~(unsigned int)ACCESS_KNOWN)
		return EINVAL;
	/* what others may write, the owner may (11.2.8.2) */
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (!length || (uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova)
		return EINVAL;
	/* a card's tables map pages, so what is aligned for one is for the other */
	if ((iova ^ (uintptr_t)addr) & (WEFT_PAGE - 1) && !(access & IBV_ACCESS_ZERO_BASED))
		return EINVAL;
	return 0;
}

static unsigned int how(unsigned int access)
{
	return (access & ACCESS_MOVES ? WEFT_REGION_MOVE : 0) |
	       (access & IBV_ACCESS_LOCAL_WRITE ? WEFT_REGION_WRITE : 0);
}

static int make(struct weft_verbs_mr *mr, uint32_t pd, unsigned int access, uint64_t iova)
{
	struct weft_mr_piece *pieces = (struct weft_mr_piece *)mr->region.pieces;

	_Static_assert(sizeof(*pieces) == sizeof(*mr->region.pieces), "pieces are the same to both");
	return weft_mr_create(&weft_process.nic, &mr->nic, pd, (uint8_t)access, iova,
			      (uintptr_t)mr->mr.addr, mr->mr.length, pieces, mr->region.npieces);
}

static struct ibv_mr *register_region(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      unsigned int access)
{
	struct weft_verbs_mr *mr;
	int err = check(pd, addr, length, iova, access);

	if (err)
		goto fail;
	err = ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		goto fail;
	mr->mr = (struct ibv_mr){ pd->context, pd, addr, length, 0, 0, 0 };
	err = -weft_region_acquire(addr, length, how(access), &mr->region);
	if (err)
		goto free_object;
	err = -make(mr, weft_pd(pd)->number, access,
		    access & IBV_ACCESS_ZERO_BASED ? 0 : iova);
	if (err)
		goto release_region;
	err = -weft_handle_add(mr, WEFT_HANDLE_MR);
	if (err)
		goto destroy_key;
	mr->mr.lkey = mr->mr.rkey = mr->mr.handle = mr->nic.key;
	weft_pd(pd)->users++;
	return &mr->mr;
destroy_key:
	weft_mr_destroy(&mr->nic, weft_mr_revoke(&mr->nic));
release_region:
	weft_region_release(&mr->region);
free_object:
	free(mr);
fail:
	/* no room for a key is what hardware calls out of resources */
	errno = err == ENOSPC ? ENOMEM : err;
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
	struct weft_verbs_mr *mr = weft_mr(ibmr);
	bool quiet;

	if (!weft_handle_is(ibmr, WEFT_HANDLE_MR))
		return EINVAL;
	weft_handle_remove(ibmr);
	quiet = weft_mr_revoke(&mr->nic);
	if (!quiet)
		weft_region_quarantine(&mr->region);
	weft_region_release(&mr->region);
	weft_mr_destroy(&mr->nic, quiet);
	weft_pd(ibmr->pd)->users--;
	free(mr);
	return 0;
}
