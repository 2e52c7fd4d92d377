/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Visits: looking at memory of another member outside the execution of a request. A line of this
 * process names it meanwhile, so that giving back what it had waits for us, as revokers do.
 */
#include "pool/internal.h"
#include "pool/step.h"
#include "pool/format_line.h"
#include "pool/format_member.h"

void weft_pool_visit(struct weft_pool *pool, uint16_t member)
{
	struct weft_attachment *a = weft_attachment(pool);
	_Atomic uint64_t *busy;

	weft_pool_use(pool, member);
	pthread_mutex_lock(&a->visit_mutex);
	if (!a->visitor.line)
		weft_pool_caller_get(pool, &a->visitor);
	if (a->visitor.shared)
		weft_pool_share_lock(pool);
	busy = &a->visitor.line->busy;
	/* the line is idle: all below the sequence is 0 */
	atomic_fetch_add_explicit(busy, (1u << WEFT_BUSY_BITS) + weft_busy_at(member, 0),
				  memory_order_relaxed);
	/* the barrier before giving back stands in for ours (life.c) */
	weft_fence_frequent();
	WEFT_STEP(visit_begun);
}

void weft_pool_depart(struct weft_pool *pool)
{
	struct weft_attachment *a = weft_attachment(pool);
	_Atomic uint64_t *busy = &a->visitor.line->busy;
	uint64_t now = atomic_load_explicit(busy, memory_order_relaxed);

	WEFT_STEP(visit_ending);
	/* release: pairs with the acquire in goes_on (bell.c) */
	atomic_store_explicit(busy, now >> WEFT_BUSY_BITS << WEFT_BUSY_BITS, memory_order_release);
	if (a->visitor.shared)
		weft_pool_share_unlock(pool);
	pthread_mutex_unlock(&a->visit_mutex);
}

bool weft_pool_visit_holds(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
			   uint32_t *pid, uint64_t *witness)
{
	const struct weft_pool_member *m = weft_pool_member(pool, member);

	/* acquire: pairs with the release in weft_member_join (member.c); of one that leaves, the barrier
	 * before giving back lets us see it, or it our visit */
	if (!m || atomic_load_explicit(&m->incarnation, memory_order_acquire) != incarnation ||
	    atomic_load_explicit(&m->leaves, memory_order_relaxed))
		return false;
	*witness = m->witness;
	*pid = m->witness && weft_is_near(pool, member) && m->pid_ns == pool->self->pid_ns ? m->pid
											   : 0;
	return true;
}
