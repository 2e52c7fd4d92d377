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
#define NAP_LEAST_NS  20000u /* and the timer's slack, 50 µs */
#define NAP_LONG_NS   100000u
#define NAP_FEW_NS    320000u  /* at most, where few requests are under way */
#define NAP_MOST_NS   2500000u /* where many are */
#define SHARE	      8u       /* of what is under way ends in a nap */
#define MANY	      16u

static bool was_preempted(struct weft_idle *idle)
{
	struct rusage usage;
	long before = idle->preemptions;

	if (getrusage(RUSAGE_THREAD, &usage))
		return false;
	idle->preemptions = usage.ru_nivcsw;
	return usage.ru_nivcsw != before;
}

/* How long a request takes now, as the last ones took; 0: not known. */
static uint64_t each_takes_ns(struct weft_idle *idle, uint64_t ended, bool any, uint64_t now_ns)
{
	if (ended == idle->ended && any)
		return idle->each_ns;
	idle->each_ns = any ? (now_ns - idle->counted_ns) / (ended - idle->ended) : 0;
	idle->ended = ended;
	idle->counted_ns = now_ns;
	return idle->each_ns;
}

/*
 * How long to sleep; 0: a yield is better. While many requests are under way nothing waits for those that have ended: until some
 * more have, or as long again as was waited in vain. With few only if they take long. Each awakening costs what has the core
 * meanwhile, maybe the card, 30 µs.
 */
static uint64_t nap_ns(struct weft_idle *idle, uint64_t now_ns)
{
	const struct weft_nic *nic = &weft_process_nic;
	uint64_t under_way = atomic_load_explicit(&nic->under_way, memory_order_relaxed),
		 ended = atomic_load_explicit(&nic->ended, memory_order_relaxed),
		 nap = each_takes_ns(idle, ended, under_way, now_ns) * under_way / SHARE,
		 most = under_way >= MANY ? NAP_MOST_NS : NAP_FEW_NS,
		 waited = now_ns - idle->counted_ns;

	if (under_way >= MANY && nap < waited)
		nap = waited;
	if (nap < NAP_LONG_NS)
		return under_way >= MANY ? NAP_LEAST_NS : 0;
	return nap < most ? nap : most;
}

/* The scheduler may have the card in another group than ours (a session each, or a container), which yielding does not reach. Many
 * requests take it longer than a nap. With few it would cost more than it brings: a thread that has slept is
 * owed time, and then the card has to wait for it. */
static void let_others_run(struct weft_idle *idle, uint64_t now_ns)
{
	struct timespec nap = {0, 0};

	if (atomic_load_explicit(&weft_process_nic.nhanded, memory_order_relaxed))
		nap.tv_nsec = (long)nap_ns(idle, now_ns);
	if (nap.tv_nsec)
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
		let_others_run(idle, now_ns);
		now_ns = weft_clock_now_ns();
	}
	idle->looked_ns = now_ns;
	idle->polls_left = idle->yields ? POLLS_CROWDED : POLLS_ALONE;
}
