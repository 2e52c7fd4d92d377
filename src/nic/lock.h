/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Locks of the nic: private to a process, held for one request.
 *
 * Most queues are used by one thread. A lock belongs to the first thread that takes it by name, and
 * costs that thread two plain stores; others pay for both with a barrier on all threads. A lock
 * that others take often belongs to no thread again, and costs each one atomic exchange.
 */
#ifndef WEFT_NIC_LOCK_H
#define WEFT_NIC_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "backing/fence.h"

struct weft_nic;

/*
 * word     | writer                             | transition              | order
 * `owner`  | the thread that has taken `held`   | 0 to its own name       | relaxed: guarded by `held`
 *          | a visitor that has `held`, as the  | a thread to SHARED, for | relaxed: likewise; `wanted` stays 1
 *          | 33rd one                           | ever                    |
 * `inside` | owner                              | 0 to 1                  | relaxed, then a fence of the compiler, then `wanted`
 *          |                                    |                         | is read, with acquire
 *          | owner                              | 1 to 0                  | release, at the end; or as it found `wanted` 1, and
 *          |                                    |                         | goes by the common way
 * `held`   | any thread, by exchange            | 0 to 1                  | acquire: the common way
 *          | the thread that has it             | 1 to 0                  | release, at the end
 * `wanted` | a visitor: another thread than the | 0 to 1                  | relaxed, then a barrier on all threads, then a wait
 *          | owner that has `held`              |                         | until `inside` is 0, with acquire
 *          | the thread that has `held`, unless | 1 to 0                  | release, at the end, before `held`
 *          | the lock is SHARED                 |                         |
 *
 * Order: each side stores before it reads the other's, and the visitor's barrier fences for both. So not both
 * read 0.
 *
 * Stale values. A thread that reads an old `owner`, its own name, goes by the owner's way once more: `wanted` stays 1
 * when the lock becomes SHARED, which turns it away. A thread that reads 0 though there is an owner cannot have
 * `held` at that time, as only that guards the change. An old `wanted` of 1 costs the owner one exchange.
 */
struct weft_lock {
	_Atomic uint32_t owner; /* a thread; 0: none yet, WEFT_LOCK_SHARED: none any more */
	_Atomic uint8_t inside; /* the owner has it, or tries to, by its own way */
	_Atomic uint8_t wanted; /* another thread has the lock, or wants it */
	_Atomic uint8_t held;	/* by the common way */
	uint8_t visits;		/* of others; guarded by the lock */
};

#define WEFT_LOCK_SHARED UINT32_MAX

/* thread: 0 where no lock is to be owned; that may be in the owner's own thread. */
void weft_lock_slow(const struct weft_nic *nic, struct weft_lock *lock, uint32_t thread);
void weft_unlock_slow(struct weft_lock *lock);
/* True: taken, as by thread 0. */
bool weft_trylock(const struct weft_nic *nic, struct weft_lock *lock);

/* Returns the way by which it was taken, for weft_unlock. */
static inline bool weft_lock(const struct weft_nic *nic, struct weft_lock *lock, uint32_t thread)
{
	if (__builtin_expect(thread && atomic_load_explicit(&lock->owner, memory_order_relaxed) ==
					       thread,
			     1)) {
		atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
		/* the visitor's barrier, between `wanted` and its look at `inside`, stands in for ours */
		weft_fence_frequent();
		/* acquire: pairs with the release in weft_unlock_slow */
		if (__builtin_expect(!atomic_load_explicit(&lock->wanted, memory_order_acquire), 1))
			return true;
		atomic_store_explicit(&lock->inside, 0, memory_order_release);
	}
	weft_lock_slow(nic, lock, thread);
	return false;
}

/* own: as weft_lock returned it; false where thread was 0. */
static inline void weft_unlock(struct weft_lock *lock, bool own)
{
	if (__builtin_expect(own, 1))
		/* release: pairs with the acquire of the visitor that waits for it */
		atomic_store_explicit(&lock->inside, 0, memory_order_release);
	else
		weft_unlock_slow(lock);
}

#endif
