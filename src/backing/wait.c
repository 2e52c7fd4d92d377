/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sleep by futexes in the shared memory, and the rare half of the fence by membarrier, which makes
 * every running thread of every member pass a full barrier. Threads that are not running have
 * passed one.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backing/private.h"

#define BRIEF_NS    1000000u /* most waits are over by then */
#define NAP_MOST_NS 1000000u

static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void weft_wait_sleep(struct weft_backed *b, _Atomic uint32_t *word, uint32_t value,
		     int64_t timeout_ns)
{
	struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};

	futex(word, FUTEX_WAIT, value, timeout_ns < 0 ? NULL : &timeout);
}

void weft_wait_wake(struct weft_backed *b, _Atomic uint32_t *word)
{
	futex(word, FUTEX_WAKE, 1, NULL);
}

int weft_wait_join(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) ? -errno : 0;
}

void weft_wait_barrier(struct weft_backed *b)
{
	atomic_thread_fence(memory_order_seq_cst);
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void weft_pause(uint64_t waited_ns)
{
	uint64_t nap_ns = waited_ns / 16;
	struct timespec nap = {.tv_nsec = (long)(nap_ns < NAP_MOST_NS ? nap_ns : NAP_MOST_NS)};

	if (waited_ns < BRIEF_NS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}
