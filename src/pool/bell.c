/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Waking and waiting. The frequent side uses compiler barriers only; the rare side (revoke, arm,
 * sleep) pays for both with membarrier, which makes every running thread of every member pass a
 * full barrier. Threads that are not running have passed one.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pool/internal.h"

#define PATIENCE_NS 1000000000ll
#define SPINS	    256u

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void weft_pool_barrier(struct weft_pool *pool)
{
	atomic_thread_fence(memory_order_seq_cst);
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

_Static_assert(WEFT_RING_REASONS <= sizeof(((struct weft_pool_member *)0)->due) / sizeof(uint32_t),
	       "each reason has its word");

void weft_pool_ring(struct weft_pool *pool, uint16_t member, enum weft_ring_reason reason)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);

	if (!m)
		return;
	atomic_store_explicit(&m->due[reason], 1, memory_order_release);
	atomic_store_explicit(&m->rung, 1, memory_order_release);
	/* pairs with the barrier between `asleep` and the last look at `rung` in weft_pool_sleep */
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&m->asleep, memory_order_relaxed))
		futex(&m->rung, FUTEX_WAKE, 1, NULL);
}

void weft_pool_sleep(struct weft_pool *pool, int64_t timeout_ns)
{
	struct weft_pool_member *self = pool->self;
	struct timespec timeout = { timeout_ns / 1000000000, timeout_ns % 1000000000 };

	atomic_store_explicit(&self->asleep, 1, memory_order_relaxed);
	weft_pool_barrier(pool);
	if (!atomic_load_explicit(&self->rung, memory_order_acquire))
		futex(&self->rung, FUTEX_WAIT, 0, timeout_ns < 0 ? NULL : &timeout);
	atomic_store_explicit(&self->asleep, 0, memory_order_relaxed);
	/* cleared before the reasons are looked at */
	atomic_store_explicit(&self->rung, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

bool weft_pool_rung(struct weft_pool *pool, enum weft_ring_reason reason)
{
	_Atomic uint32_t *due = &pool->self->due[reason];

	if (!atomic_load_explicit(due, memory_order_acquire))
		return false;
	/* cleared before the work is looked at: whoever adds some later rings again */
	atomic_store_explicit(due, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Does a line of `holder` name `member`? Our own threads always count: whatever peer they work at,
 * they also read and fill memory of ours. */
static bool concerns(uint64_t busy, uint16_t member, uint16_t holder)
{
	return holder == member ? busy & 0xffff : (busy & 0xffff) == member + 1u;
}

static int wait_line(struct weft_pool *pool, struct weft_pool_line *line, uint16_t member,
		     int64_t deadline_ns, uint16_t holder, uint64_t incarnation)
{
	/* acquire: pairs with the release that ends an execution */
	uint64_t busy = atomic_load_explicit(&line->busy, memory_order_acquire), now;

	if (!concerns(busy, member, holder))
		return 0;
	for (unsigned int spins = 1;; spins++) {
		now = atomic_load_explicit(&line->busy, memory_order_acquire);
		if (now != busy)
			return 0;
		if (spins % SPINS)
			continue;
		if (!weft_pool_alive(pool, holder, incarnation))
			return 0;
		if (now_ns() > deadline_ns)
			return -ETIMEDOUT;
		sched_yield();
	}
}

int weft_bell_wait_idle(struct weft_pool *pool, uint16_t member, int64_t timeout_ns)
{
	int64_t deadline_ns = now_ns() + timeout_ns;
	int err = 0;

	for (uint16_t i = 0; i < weft_members_high(pool); i++) {
		struct weft_pool_member *m = weft_pool_member(pool, i);
		uint64_t incarnation;
		uint32_t lines;

		if (!m)
			return -ENOMEM;
		incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
		if (!incarnation || (i == member && i != pool->me))
			continue;
		lines = atomic_load_explicit(&m->lines, memory_order_acquire);
		for (uint32_t k = 0; k < lines && k < WEFT_MEMBER_LINES; k++)
			if (wait_line(pool, &m->line[k], member, deadline_ns, i, incarnation))
				err = -ETIMEDOUT;
	}
	return err;
}

int weft_pool_quiesce(struct weft_pool *pool)
{
	weft_pool_barrier(pool);
	return weft_bell_wait_idle(pool, pool->me, PATIENCE_NS);
}
