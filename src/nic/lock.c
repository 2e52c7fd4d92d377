/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/nic.h"

#define SPINS 200u

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Holders keep these locks for one request; a long wait means that the holder is not running. */
void weft_lock_slow(const struct weft_nic *nic, struct weft_lock *lock)
{
	for (;;) {
		for (unsigned int i = 0; i < SPINS; i++) {
			if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
			    weft_trylock(lock))
				return;
			relax();
		}
		nic->env->yield();
	}
}
