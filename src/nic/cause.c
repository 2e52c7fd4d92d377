/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/cause.h"
#include "nic/place.h"
#include "pool/format_queue.h"
#include "pool/format_region.h"
#include "pool/sizes.h"

enum weft_wc_status weft_cause_status(enum weft_cause cause)
{
#define STATUS(name, status, clause, words) [WEFT_CAUSE_##name] = WEFT_WC_##status,
	static const uint8_t status_of[] = {WEFT_CAUSES(STATUS)};
#undef STATUS

	return status_of[cause];
}

enum weft_key_fault weft_cause_of_key(struct weft_pool *pool, uint32_t key, uint64_t domain,
				      uint64_t addr, uint64_t len_bytes, uint8_t access,
				      struct weft_pool_mr *entry)
{
	uint32_t index = key >> WEFT_KEY_BITS;
	uint64_t start;

	if (!index || pool->calls->see_mr(pool, index))
		return WEFT_KEY_UNKNOWN;
	__builtin_memcpy((void *)entry, (void *)&pool->mrs[index], sizeof(*entry));
	if (entry->key != key)
		return WEFT_KEY_UNKNOWN;
	if (!weft_allows_any(entry->allowed, domain, 0))
		return WEFT_KEY_DOMAIN;
	if (!weft_allows_any(entry->allowed, domain, access))
		return WEFT_KEY_RIGHT;
	start = addr - entry->iova;
	return start > entry->len_bytes || len_bytes > entry->len_bytes - start ? WEFT_KEY_RANGE
										: WEFT_KEY_HOLDS;
}

const struct weft_pool_sge *weft_cause_in_list(struct weft_pool *pool,
					       const struct weft_pool_sge *sge, unsigned int n,
					       uint64_t domain, uint8_t access)
{
	struct weft_pool_mr entry;

	for (unsigned int i = 0; i < n; i++)
		if (sge[i].len_bytes &&
		    weft_cause_of_key(pool, sge[i].lkey, domain, sge[i].addr, sge[i].len_bytes,
				      access, &entry) != WEFT_KEY_HOLDS)
			return &sge[i];
	return NULL;
}

uint32_t weft_cause_lkey(struct weft_pool *pool, const struct weft_pool_recv *recv, unsigned int n,
			 uint64_t domain)
{
	const struct weft_pool_sge *sge =
		weft_cause_in_list(pool, recv->sge, n, domain, WEFT_ACCESS_LOCAL_WRITE);

	return sge ? sge->lkey : recv->sge[0].lkey;
}
