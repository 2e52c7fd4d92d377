/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/lock.h"
#include "nic/nic.h"

#define SPINS	    200u
#define MOST_VISITS 32u

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	weft_fence_frequent();
#endif
}

/* Owners keep these locks for one request; a long wait means that the owner is not running. */
static void wait_while(const struct weft_nic *nic, const _Atomic uint8_t *flag)
{
	for (unsigned int i = 1; atomic_load_explicit(flag, memory_order_acquire); i++) {
		relax();
		if (i % SPINS == 0)
			weft_nic_yield(nic);
	}
}

static bool take_common(struct weft_lock *lock)
{
	return !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

static bool is_owned_by_other(const struct weft_nic *nic, const struct weft_lock *lock,
			      uint32_t thread)
{
	uint32_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

	return owner && owner != WEFT_LOCK_SHARED &&
	       owner != (thread ? thread : weft_nic_self(nic));
}

/* The common way is taken. After this the owner is not inside, and stays out. */
static void announce(const struct weft_nic *nic, struct weft_lock *lock)
{
	atomic_store_explicit(&lock->wanted, 1, memory_order_relaxed);
	nic->pool->calls->barrier(nic->pool);
}

/* `wanted` stays for ever then: the owner of old may still believe itself to be one. */
static void count_visit(struct weft_lock *lock)
{
	if (++lock->visits > MOST_VISITS)
		atomic_store_explicit(&lock->owner, WEFT_LOCK_SHARED, memory_order_relaxed);
}

void weft_lock_slow(const struct weft_nic *nic, struct weft_lock *lock, uint32_t thread)
{
	while (!take_common(lock))
		wait_while(nic, &lock->held);
	if (is_owned_by_other(nic, lock, thread)) {
		announce(nic, lock);
		wait_while(nic, &lock->inside);
		count_visit(lock);
	} else if (thread && !atomic_load_explicit(&lock->owner, memory_order_relaxed)) {
		atomic_store_explicit(&lock->owner, thread, memory_order_relaxed);
	}
}

bool weft_trylock(const struct weft_nic *nic, struct weft_lock *lock)
{
	bool visits;

	if (!take_common(lock))
		return false;
	visits = is_owned_by_other(nic, lock, 0);
	if (visits)
		announce(nic, lock);
	if (atomic_load_explicit(&lock->inside, memory_order_acquire)) {
		weft_unlock_slow(lock);
		return false;
	}
	if (visits)
		count_visit(lock);
	return true;
}

void weft_unlock_slow(struct weft_lock *lock)
{
	/* release: pairs with the acquire of the owner in weft_lock */
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != WEFT_LOCK_SHARED)
		atomic_store_explicit(&lock->wanted, 0, memory_order_release);
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}
