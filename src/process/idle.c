/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Threads that spin on an empty queue starve each other where there are more of them than cores,
 * the one they wait for among them. A spinner that finds itself preempted yields for a while; one
 * that has its core for itself never makes a system call.
 */
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nic/nic.h"
#include "pool/clock.h"
#include "process/process.h"

#define GAP_NS	      200000u /* between two looks of a thread that spins, only when it did not run */
#define YIELDS	      4096u
#define POLLS_ALONE   256u /* between two looks */
#define POLLS_CROWDED 8u
#define NAP_NS	      20000 /* and the timer's slack, 50 µs */
#define NAP_LEAST     16u

static bool was_preempted(struct weft_idle *idle)
{
	struct rusage usage;
	long before = idle->preemptions;

	if (getrusage(RUSAGE_THREAD, &usage))
		return false;
	idle->preemptions = usage.ru_nivcsw;
	return usage.ru_nivcsw != before;
}

/* The scheduler may have the card in another group than ours (a session each, or a container), which yielding does not reach. Many
 * requests take it longer than such a nap. With few it would cost more than it brings: a thread that has slept is
 * owed time, and then the card has to wait for it. */
static void let_others_run(void)
{
	static const struct timespec nap = {0, NAP_NS};

	const struct weft_nic *nic = &weft_process_nic;

	if (atomic_load_explicit(&nic->nhanded, memory_order_relaxed) &&
	    atomic_load_explicit(&nic->under_way, memory_order_relaxed) >= NAP_LEAST)
		syscall(SYS_nanosleep, &nap, NULL); /* and no point of cancellation */
	else
		sched_yield();
}

void weft_idle_slept(void)
{
	weft_thread.idle.yields = 0;
	weft_thread.idle.polls_left = POLLS_ALONE;
}

void weft_idle_look(void)
{
	struct weft_idle *idle = &weft_thread.idle;
	uint64_t now_ns = weft_clock_now_ns();

	/* a program that sleeps between its polls has gaps, too, but was not preempted */
	if (now_ns - idle->looked_ns > GAP_NS && was_preempted(idle))
		idle->yields = YIELDS;
	if (idle->yields) {
		idle->yields--;
		let_others_run();
		now_ns = weft_clock_now_ns();
	}
	idle->looked_ns = now_ns;
	idle->polls_left = idle->yields ? POLLS_CROWDED : POLLS_ALONE;
}
