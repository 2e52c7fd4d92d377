/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Rehoming: regions leave the pages of the pool to which somebody that is stopped may still write
 * (docs/decisions/0014). Others wait meanwhile (weft_nic_hold), and lose nothing.
 */
#include <pthread.h>
#include <stdlib.h>

#include "pool/step.h"
#include "verbs/objects.h"
#include "verbs/process.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

void weft_rehome_share(void)
{
	pthread_rwlock_rdlock(&lock);
}

void weft_rehome_unshare(void)
{
	pthread_rwlock_unlock(&lock);
	/* pages that could not move back now: the engine tries again */
	if (weft_region_is_away())
		weft_engine_watch();
}

void weft_rehome_forget(void)
{
	pthread_rwlock_init(&lock, NULL);
}

/* The lock is held. */
static void rehome(void)
{
	struct weft_verbs_mr **mr;
	size_t n = weft_handle_list(NULL, WEFT_HANDLE_MR, (void ***)&mr);

	/* none although some are exposed: memory is out, and all stays where it is */
	if (!n)
		return;
	weft_nic_hold(&weft_process.nic);
	weft_region_rehome();
	WEFT_STEP(rehome_moved);
	for (size_t i = 0; i < n; i++)
		if (weft_region_follow(&mr[i]->region))
			weft_verbs_redraw_mr(mr[i]);
	WEFT_STEP(rehome_redrawn);
	weft_nic_let_go(&weft_process.nic);
	free(mr);
}

void weft_rehome(void)
{
	weft_engine_watch();
	pthread_rwlock_wrlock(&lock);
	if (weft_region_any_exposed())
		rehome();
	pthread_rwlock_unlock(&lock);
}

void weft_rehome_from_qp(uint32_t index)
{
	uint64_t stopped_at = weft_pool_stopped_at(weft_process.pool, index);

	if (!stopped_at)
		return;
	weft_region_expose(stopped_at);
	weft_rehome();
}
