/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/step.h"
#include "pool/sizes.h"
#include "migrate/region.h"
#include "nic/nic.h"
#include "process/ask.h"
#include "process/copy.h"
#include "process/card.h"
#include "process/device.h"
#include "process/gids.h"
#include "process/process.h"
#include "transport/registry.h"

struct weft_process weft_process;
struct weft_nic weft_process_nic;
_Thread_local struct weft_place_holder weft_thread;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards attaching and detaching */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;

/* ---- Threads ---- */

static void leave_thread(void *holder)
{
	struct weft_place_holder *h = holder;

	pthread_mutex_lock(&mutex);
	if (weft_process.attached && h->generation == weft_process.generation)
		weft_pool_caller_put(weft_process.pool, &h->caller);
	h->generation = 0;
	pthread_mutex_unlock(&mutex);
}

struct weft_caller *weft_thread_enter(void)
{
	weft_pool_caller_get(weft_process.pool, &weft_thread.caller);
	weft_thread.generation = weft_process.generation;
	pthread_setspecific(thread_end, &weft_thread);
	return &weft_thread.caller;
}

/* ---- The machine of the nic ---- */

static void *machine_alloc(void *context, size_t bytes)
{
	void *at;

	/* lines of their own, so that threads do not share them by chance */
	if (posix_memalign(&at, 64, bytes ? bytes : 1))
		return NULL;
	return memset(at, 0, bytes);
}

static void machine_free(void *context, void *at)
{
	free(at);
}

static void machine_yield(void *context)
{
	sched_yield();
}

static uint32_t machine_self(void *context)
{
	return weft_thread.generation == weft_process.generation ? weft_thread.caller.thread : 0;
}

static void machine_kick(void *context)
{
	weft_helper_kick();
}

static uint64_t machine_stamp_ns(void *context)
{
	return weft_clock_now_ns();
}

static int device_reach(void *context, const struct weft_caller *caller,
			const struct weft_in_place *memory, void *here, uint64_t len_bytes,
			bool write)
{
	return weft_device_reach(((struct weft_process *)context)->pool, caller, memory, here,
				 len_bytes, write);
}

static int device_atomic(void *context, const struct weft_caller *caller,
			 const struct weft_in_place *memory, bool add, uint64_t compare_add,
			 uint64_t swap, uint64_t *value)
{
	return weft_device_atomic(((struct weft_process *)context)->pool, caller, memory, add,
				  compare_add, swap, value);
}

static const struct weft_machine machine = {
	.context = &weft_process,
	.alloc = machine_alloc,
	.free = machine_free,
	.copy = weft_copy_body,
	.memory = {[WEFT_MEMORY_THERE] = {.copy = weft_reach, .atomic = weft_reach_atomic},
		   [WEFT_MEMORY_DEVICE] = {.copy = device_reach, .atomic = device_atomic}},
	.answered = weft_late_answered,
	.carried_out = weft_late_carried_out,
	.take_back = weft_late_take_back,
	.ask_gathered = weft_late_ask_gathered,
	.yield = machine_yield,
	.self = machine_self,
	.kick = machine_kick,
	.stamp_ns = machine_stamp_ns,
};

/* ---- Attaching ---- */

static void forget_in_child(void);

static void init_once(void)
{
	pthread_key_create(&thread_end, leave_thread);
	weft_region_on_fork_child(forget_in_child);
	weft_region_ask(weft_device_pins);
}

/* As long as the numbers of queue pairs and keys reach; hardly any of it is ever touched. */
#define QP_TABLE_BYTES (WEFT_QPS * sizeof(void *))
#define TABLES_BYTES   (2 * QP_TABLE_BYTES + WEFT_MRS * sizeof(struct weft_window_entry))

static int make_tables(struct weft_nic *nic)
{
	char *at = mmap(NULL, TABLES_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	nic->qps = (void *)at;
	nic->srq_of = (void *)(at + QP_TABLE_BYTES);
	nic->windows = (void *)(at + 2 * QP_TABLE_BYTES);
	return 0;
}

static void free_tables(const struct weft_nic *nic)
{
	munmap(nic->qps, TABLES_BYTES);
}

/* $WEFT_TELL_DEATHS: for programs that wait for what a peer is to send, and have no other way to hear that it has died. */
static bool wants_deaths(void)
{
	const char *value = getenv("WEFT_TELL_DEATHS");

	return value && !strcmp(value, "1");
}

/* The process ends, with whatever is still open; another thread may just be closing that. */
static __attribute__((destructor)) void exits(void)
{
	if (pthread_mutex_trylock(&mutex))
		return;
	if (weft_process.attached)
		weft_pool_exits(weft_process.pool);
	pthread_mutex_unlock(&mutex);
}

static int attach(const struct weft_process_api *api)
{
	struct weft_process *p = &weft_process;
	struct weft_extent_source source;
	char where[PATH_MAX];
	const char *why;
	int err;

	pthread_once(&once, init_once);
	/* where Yama restricts process_vm calls, let peers reach what stays in place */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	err = weft_pool_get(NULL, &p->pool, where, &why);
	if (err) {
		/* `why` says all; errno's text would only confuse */
		bool told = err == -EPROTO || err == -ETIMEDOUT || err == -EFBIG;

		fprintf(stderr, "weft: %s: %s%s%s (weft doctor says more)\n", where, why,
			told ? "" : ": ", told ? "" : strerror(-err));
		return err;
	}
	p->pool->meanwhile = weft_helper_meanwhile;
	p->pool->change = weft_pool_has_atomics(p->pool) ? NULL : weft_ask_change;
	memset(&weft_process_nic, 0, sizeof(weft_process_nic));
	memset(p->bounce_off, 0, sizeof(p->bounce_off));
	memset(p->left, 0, sizeof(p->left));
	memset(p->late, 0, sizeof(p->late));
	weft_process_nic.pool = p->pool;
	weft_process_nic.machine = &machine;
	weft_process_nic.within = weft_card_is_refused();
	weft_process_nic.tells_deaths = wants_deaths();
	p->api = api;
	weft_process_nic.api = api->nic;
	weft_process_nic.transports = weft_transports;
	err = make_tables(&weft_process_nic);
	if (err)
		goto put_pool;
	WEFT_STEP(process_attached);
	source = weft_pool_extent_source(p->pool);
	err = weft_region_attach(&source);
	if (err)
		goto free_tables;
	weft_gids_start();
	WEFT_STEP(process_addresses_told);
	p->generation++;
	p->attached = true;
	/* nothing else wakes us for other hosts, nor beats */
	if (weft_pool_has_hosts(p->pool))
		weft_helper_start();
	return 0;
free_tables:
	free_tables(&weft_process_nic);
put_pool:
	weft_pool_put(p->pool);
	return err;
}

static void detach(void)
{
	struct weft_process *p = &weft_process;

	weft_helper_stop();
	WEFT_STEP(process_helper_stopped);
	if (!weft_region_detach()) {
		/* the pages are the program's memory: we leave at the next close, or when the process ends */
		weft_helper_watch();
		return;
	}
	WEFT_STEP(process_regions_detached);
	p->api->leave();
	weft_gids_stop();
	p->attached = false;
	p->generation++;
	free_tables(&weft_process_nic);
	weft_pool_put(p->pool);
	p->pool = NULL;
}

int weft_process_get(const struct weft_process_api *api)
{
	int err = 0;

	pthread_mutex_lock(&mutex);
	if (!weft_process.attached)
		err = attach(api);
	if (!err)
		weft_process.contexts++;
	pthread_mutex_unlock(&mutex);
	return err;
}

void weft_process_put(void)
{
	struct weft_process *p = &weft_process;

	pthread_mutex_lock(&mutex);
	if (--p->contexts == 0)
		detach();
	pthread_mutex_unlock(&mutex);
}

/* A child has no part in its parent's pool. What it opens itself starts afresh. */
static void forget_in_child(void)
{
	weft_process.contexts = 0;
	weft_process.attached = false;
	weft_process.generation++;
	if (weft_process.api)
		weft_process.api->forget();
	weft_gids_forget();
	weft_rehome_forget();
	weft_device_forget();
	weft_helper_forget();
	weft_pool_forget();
	pthread_mutex_init(&mutex, NULL);
}
