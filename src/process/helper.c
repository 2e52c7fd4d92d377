/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The helper: one thread a process, asleep until there is deferred work: completions in armed
 * queues, peers that are not ready, memory that only we can reach. It blocks all signals but SIGSEGV.
 */
#include <pthread.h>
#include <signal.h>

#include "pool/clock.h"
#include "migrate/region.h"
#include "pool/step.h"
#include "nic/cq.h"
#include "nic/nic.h"
#include "nic/srq.h"
#include "process/client.h"
#include "process/device.h"
#include "process/gids.h"
#include "process/ask.h"
#include "process/process.h"

#define TICK_LEAST_NS 20000ll
#define TICK_MOST_NS  1000000ll
#define TICK_LINGER   100 /* ticks without work before it sleeps for good */
/* How often it looks for members that have died: a request that waits may wait for one of them. */
#define WATCH_NS	 500000000ull
#define WATCH_WAITING_NS 100000000ull
#define FOLLOW_NS	 1000000000ull
#define LOOK_NS		 500000000ull
#define LOOK_AGAIN_NS	 200000000ull

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static atomic_bool running; /* written under the mutex */
static atomic_bool stopping;
static atomic_bool ticking; /* it looks again by itself: no need to wake it */
static const struct weft_helper_client *_Atomic client;
static _Thread_local bool is_helper __attribute__((tls_model("initial-exec")));
static _Thread_local const struct weft_caller *helper_caller
	__attribute__((tls_model("initial-exec")));

const struct weft_caller *weft_helper_caller(void)
{
	return helper_caller;
}

/* While something needs tries it is tried again, ever more rarely; sleeping programs rely on it. What a card carries needs
 * none: the card wakes us for an error, which may come before its request is listed, or while a thread is at it. */
static int64_t next_tick(struct weft_caller *caller, int64_t tick, unsigned int *idle, bool called)
{
	const struct weft_nic *nic = &weft_process_nic;
	uint64_t due = UINT64_MAX;

	if (atomic_load_explicit(&nic->nwaiting, memory_order_relaxed))
		due = weft_nic_progress(&weft_process_nic, caller, weft_clock_now_ns());
	if (!atomic_load_explicit(&nic->ntrying, memory_order_relaxed)) {
		if (due <= TICK_MOST_NS ||
		    (called && atomic_load_explicit(&nic->nhanded, memory_order_relaxed))) {
			*idle = 0;
			return TICK_MOST_NS;
		}
		if (tick >= 0 && ++*idle > TICK_LINGER)
			return -1;
		return tick;
	}
	if (*idle || tick < 0)
		tick = TICK_LEAST_NS;
	*idle = 0;
	tick = tick * 2 < TICK_MOST_NS ? tick * 2 : TICK_MOST_NS;
	return due < (uint64_t)tick ? (int64_t)due + 1000 : tick;
}

/* Runs the client if it is due or called for. When it is due next. */
static uint64_t serve(uint64_t due_ns, bool called)
{
	/* acquire: pairs with the release in weft_helper_serve */
	const struct weft_helper_client *c = atomic_load_explicit(&client, memory_order_acquire);
	uint64_t now_ns;

	if (!c || (due_ns == UINT64_MAX && !called))
		return due_ns;
	now_ns = weft_clock_now_ns();
	return called || now_ns >= due_ns ? c->run(now_ns) : due_ns;
}

/* The dead are found by those that are connected: their requests would otherwise go on succeeding; and suspects by
 * those whose memory they may still touch. When the next look is due. */
static uint64_t watch(uint64_t *watched_ns, uint64_t *look_due_ns)
{
	static bool looks_anew; /* some queue pairs have yet to */
	const struct weft_nic *nic = &weft_process_nic;
	uint64_t now_ns, due_ns;

	if (!atomic_load_explicit(&nic->nconnected, memory_order_relaxed) &&
	    !atomic_load_explicit(&nic->pool->nretired, memory_order_relaxed))
		return UINT64_MAX;
	due_ns = *watched_ns +
		 (looks_anew || atomic_load_explicit(&nic->nwaiting, memory_order_relaxed)
			  ? WATCH_WAITING_NS
			  : WATCH_NS);
	now_ns = weft_clock_now_ns();
	if (now_ns < due_ns)
		return due_ns;
	if (weft_pool_watch(weft_process.pool))
		*look_due_ns = 0;
	looks_anew |= weft_pool_has_lost_host(weft_process.pool);
	looks_anew = looks_anew && weft_nic_look_anew(&weft_process_nic);
	weft_srq_recover(&weft_process_nic);
	if (nic->tells_deaths || atomic_load_explicit(&nic->nhanded, memory_order_relaxed))
		weft_nic_faults(&weft_process_nic);
	weft_process.api->watch(weft_process.pool);
	*watched_ns = now_ns;
	return now_ns + WATCH_NS;
}

/* A producer that completes into an armed queue wakes us, unless it dies or stands still in between. When the next
 * look is due. */
static uint64_t look_at_armed(uint64_t *due_ns)
{
	struct weft_nic *nic = &weft_process_nic;
	uint64_t now_ns;

	if (!atomic_load_explicit(&nic->armed, memory_order_relaxed))
		return UINT64_MAX;
	now_ns = weft_clock_now_ns();
	if (now_ns >= *due_ns)
		*due_ns = now_ns + (weft_nic_look(nic) ? LOOK_AGAIN_NS : LOOK_NS);
	return *due_ns;
}

/* The host's addresses may change while no thread here looks, and peers elsewhere go by ours; others' memory of devices may
 * have ended. When the next look is due. */
static uint64_t follow(uint64_t *followed_ns)
{
	uint64_t now_ns = weft_clock_now_ns();

	if (now_ns >= *followed_ns + FOLLOW_NS) {
		weft_gids_follow();
		weft_device_tidy(weft_process.pool);
		*followed_ns = now_ns;
	}
	return *followed_ns + FOLLOW_NS;
}

/* Queue pairs made since, too. */
static bool lose_all(const struct weft_pool *pool)
{
	if (!weft_pool_is_displaced(pool))
		return false;
	weft_nic_lose_all(&weft_process_nic);
	return true;
}

/* Pages that could not leave the pool when their region ended. When the next look is due. */
static uint64_t bring_home(void)
{
	return weft_region_is_away() ? weft_region_bring_home(weft_clock_now_ns()) : UINT64_MAX;
}

static int64_t sooner(int64_t tick, uint64_t due_ns)
{
	uint64_t now_ns = due_ns == UINT64_MAX ? 0 : weft_clock_now_ns();
	uint64_t left = due_ns > now_ns ? due_ns - now_ns : 0;

	if (due_ns == UINT64_MAX || (tick >= 0 && (uint64_t)tick <= left))
		return tick;
	return (int64_t)left;
}

static void *run(void *unused)
{
	struct weft_pool *pool = weft_process.pool;
	struct weft_caller caller; /* not the thread's own: that one is given back under a lock that
				    * the thread that waits for us to end holds */
	uint64_t client_due_ns = UINT64_MAX;
	uint64_t watched_ns = weft_clock_now_ns(), followed_ns = watched_ns;
	uint64_t due_ns, follow_due_ns, home_due_ns, look_due_ns = 0, armed_due_ns;
	unsigned int idle = 0;
	int64_t tick = -1;
	bool called, faults = false;

	WEFT_STEP(helper_started);
	pthread_setname_np(pthread_self(), "weft-helper");
	is_helper = true;
	weft_pool_caller_get(pool, &caller);
	caller.thread = 0;
	helper_caller = &caller;
	while (!atomic_load_explicit(&stopping, memory_order_acquire)) {
		/* stored before the last look for work, so that a kick is either seen or rings */
		atomic_store(&ticking, tick >= 0);
		if (tick < 0 && atomic_load(&weft_process_nic.ntrying))
			tick = TICK_LEAST_NS;
		due_ns = watch(&watched_ns, &look_due_ns);
		armed_due_ns = look_at_armed(&look_due_ns);
		due_ns = due_ns < armed_due_ns ? due_ns : armed_due_ns;
		due_ns = due_ns < client_due_ns ? due_ns : client_due_ns;
		follow_due_ns = follow(&followed_ns);
		due_ns = due_ns < follow_due_ns ? due_ns : follow_due_ns;
		home_due_ns = bring_home();
		due_ns = due_ns < home_due_ns ? due_ns : home_due_ns;
		/* the owner of a queue pair's lock may need the core that we run on */
		weft_pool_sleep(pool, faults ? TICK_LEAST_NS : sooner(tick, due_ns));
		called = weft_pool_signalled(pool, WEFT_SIGNAL_WORK);
		called |= weft_pool_signalled(pool, WEFT_SIGNAL_MAILBOX);
		if (weft_pool_signalled(pool, WEFT_SIGNAL_ASK))
			weft_answer_asks(pool);
		if (weft_pool_signalled(pool, WEFT_SIGNAL_CALL)) {
			weft_answer_calls(pool, &caller);
			weft_process.api->signalled();
		}
		if (weft_pool_signalled(pool, WEFT_SIGNAL_EVENT)) {
			weft_nic_events(&weft_process_nic);
			/* producers of other hosts claim no alarm then (pool/alarm.c) */
			if (pool->change)
				weft_nic_look(&weft_process_nic);
			weft_srq_limits(&weft_process_nic);
		}
		faults |= weft_pool_signalled(pool, WEFT_SIGNAL_FAULT) || lose_all(pool);
		faults = faults && weft_nic_faults(&weft_process_nic);
		client_due_ns = serve(client_due_ns, called);
		tick = next_tick(&caller, tick, &idle, called);
	}
	weft_pool_caller_put(pool, &caller);
	return NULL;
}

/* Two helpers that wait for each other answer each other. */
void weft_helper_meanwhile(struct weft_pool *pool)
{
	if (is_helper && weft_pool_signalled(pool, WEFT_SIGNAL_ASK))
		weft_answer_asks(pool);
}

int weft_helper_start(void)
{
	sigset_t all, before;
	int err = 0;

	if (is_helper || atomic_load_explicit(&running, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&mutex);
	if (!running) {
		atomic_store(&stopping, false);
		sigfillset(&all);
		/* else memory that migrate/segv.c could migrate would have to stay in place */
		sigdelset(&all, SIGSEGV);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		err = pthread_create(&thread, NULL, run, NULL);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		running = !err;
	}
	pthread_mutex_unlock(&mutex);
	return -err;
}

void weft_helper_stop(void)
{
	pthread_mutex_lock(&mutex);
	if (running) {
		atomic_store_explicit(&stopping, true, memory_order_release);
		weft_pool_signal(weft_process.pool, weft_process.pool->me, WEFT_SIGNAL_WORK);
		pthread_join(thread, NULL);
		running = false;
	}
	pthread_mutex_unlock(&mutex);
}

void weft_helper_serve(const struct weft_helper_client *c)
{
	atomic_store_explicit(&client, c, memory_order_release);
}

/* Threads do not survive into a fork's child. */
void weft_helper_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	running = false;
	atomic_store_explicit(&client, NULL, memory_order_relaxed);
}

void weft_helper_watch(void)
{
	/* a process without queue pairs has none yet; without one the memory is given back when we leave */
	if (!weft_helper_start())
		weft_helper_kick();
}

void weft_helper_kick(void)
{
	if (!atomic_load(&ticking))
		weft_pool_signal(weft_process.pool, weft_process.pool->me, WEFT_SIGNAL_WORK);
}
