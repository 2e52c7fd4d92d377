/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Rehoming: regions leave the pages of the pool to which an executor that stands still may yet write
 * (docs/decisions/0014). Others wait meanwhile (weft_nic_hold), and lose nothing.
 */
#include <pthread.h>

#include "migrate/region.h"
#include "process/process.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

void weft_rehome_share(void)
{
	pthread_rwlock_rdlock(&lock);
}

void weft_rehome_unshare(void)
{
	pthread_rwlock_unlock(&lock);
	/* pages that could not leave the pool now: the helper tries again */
	if (weft_region_is_away())
		weft_helper_watch();
}

void weft_rehome_forget(void)
{
	pthread_rwlock_init(&lock, NULL);
}

void weft_rehome(void)
{
	weft_helper_watch();
	pthread_rwlock_wrlock(&lock);
	if (weft_region_any_exposed())
		weft_process.api->rehome();
	pthread_rwlock_unlock(&lock);
}

void weft_rehome_from_qp(uint32_t index)
{
	uint64_t suspects_at = weft_pool_suspects_at(weft_process.pool, index);

	if (!suspects_at)
		return;
	weft_region_expose(suspects_at);
	weft_rehome();
}
