/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/door.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_IN_S 1000000000

/* Of Linux 5.16; older headers lack them. */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define WORD_32_BITS 2u

struct waited_word {
	uint64_t value, address;
	uint32_t flags, reserved;
};

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

void weft_door_sleep_beside(struct weft_door *door, uint32_t seen, _Atomic uint32_t *other,
			    uint64_t until_ns)
{
	const struct waited_word words[2] = {
		{.value = seen, .address = (uintptr_t)&door->knocks, .flags = WORD_32_BITS},
		{.value = 0, .address = (uintptr_t)other, .flags = WORD_32_BITS},
	};
	struct timespec until = {(time_t)(until_ns / NS_IN_S), (long)(until_ns % NS_IN_S)};

	syscall(SYS_futex_waitv, words, 2, 0, until_ns == UINT64_MAX ? NULL : &until,
		CLOCK_MONOTONIC);
}

bool weft_door_can_sleep_beside(void)
{
	/* no word at all: refused by one that knows the call */
	return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, CLOCK_MONOTONIC) < 0 && errno == EINVAL;
}
