/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/door.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_IN_S 1000000000

void weft_door_knock(struct weft_door *door)
{
	/* pairs with the fence in weft_door_lie_down */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&door->asleep, memory_order_relaxed) ||
	    !atomic_exchange_explicit(&door->asleep, 0, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&door->knocks, 1, memory_order_relaxed);
	syscall(SYS_futex, &door->knocks, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t weft_door_lie_down(struct weft_door *door)
{
	uint32_t seen = atomic_load_explicit(&door->knocks, memory_order_relaxed);

	atomic_store_explicit(&door->asleep, 1, memory_order_relaxed);
	/* pairs with the fence in weft_door_knock: the knocker sees this owner asleep, or the owner sees what was brought */
	atomic_thread_fence(memory_order_seq_cst);
	return seen;
}

void weft_door_sleep(struct weft_door *door, uint32_t seen, int64_t timeout_ns)
{
	struct timespec timeout = {timeout_ns / NS_IN_S, timeout_ns % NS_IN_S};

	syscall(SYS_futex, &door->knocks, FUTEX_WAIT, seen, timeout_ns < 0 ? NULL : &timeout, NULL,
		0);
}
