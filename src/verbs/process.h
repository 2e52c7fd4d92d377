/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What all contexts of a process share: the pool, the nic on it, the engine. Made when the first
 * device is opened, ended when the last one is closed.
 */
#ifndef WEFT_VERBS_PROCESS_H
#define WEFT_VERBS_PROCESS_H

#include <stdatomic.h>

#include "nic/nic.h"

struct weft_process {
	struct weft_pool *pool;
	struct weft_nic nic;
	_Atomic uint32_t
		generation; /* grows with every attachment; callers of an older one are stale */
	unsigned int contexts;
	bool attached; /* without contexts, too, while pages have to stay in the pool */
	uint64_t bounce_off[WEFT_MEMBER_LINES]; /* by caller; each touches only its own (reach.c) */
};

extern struct weft_process weft_process;

/* 0 or -errno, said on stderr once. */
int weft_process_get(void);
void weft_process_put(void);

/* How a thread spends its empty polls (idle.c). */
struct weft_idle {
	uint32_t polls_left; /* until the next look */
	uint32_t yields;
	long preemptions;
	uint64_t looked_ns;
};

void weft_idle_look(void);
/* The thread has slept: it does not spin, however often it polls in vain. */
void weft_idle_slept(void);

/* The calling thread's line in the pool. */
struct weft_place_holder {
	struct weft_caller caller;
	uint32_t generation;
	struct weft_idle idle;
};

extern _Thread_local struct weft_place_holder weft_thread
	__attribute__((tls_model("initial-exec")));
struct weft_caller *weft_thread_enter(void);

static inline struct weft_caller *weft_caller(void)
{
	if (__builtin_expect(
		    weft_thread.generation ==
			    atomic_load_explicit(&weft_process.generation, memory_order_relaxed),
		    1))
		return &weft_thread.caller;
	return weft_thread_enter();
}

/* engine.c: the thread that works while the program does not. Started once, at the first need. */
int weft_engine_start(void);
void weft_engine_stop(void);
void weft_engine_kick(void);
/* Memory was retired for an executor that stands still (weft_pool_retire): it is to look when that has gone on. */
void weft_engine_watch(void);
/* See struct weft_pool: what the engine does while it waits itself. */
void weft_engine_meanwhile(struct weft_pool *pool);
/* Another library's part: see service.h. */
struct weft_service_client;
void weft_engine_serve(const struct weft_service_client *client);
void weft_engine_forget(void); /* in a fork's child */

/* copy.c: see struct weft_machine. */
void weft_copy_body(uint8_t *to, const uint8_t *from, size_t n);

/* reach.c: memory of other members that is not in the pool; see struct weft_machine. */
int weft_reach(void *context, const struct weft_caller *caller, const struct weft_far *far,
	       void *here, uint64_t len_bytes, bool write);
int weft_reach_atomic(void *context, const struct weft_caller *caller, const struct weft_far *far,
		      bool add, uint64_t compare_add, uint64_t swap, uint64_t *value);
/* The engine was asked. */
void weft_reach_answer(struct weft_pool *pool);
/*
 * Has the engine of another member do something; `message` goes there and comes back. What that says;
 * -ESRCH (it is gone), -ETIMEDOUT, -ENOMEM, -ENOSPC. Nothing is locked for which that engine could wait.
 */
int weft_reach_call(struct weft_pool *pool, uint16_t member, enum weft_ask_kind kind, uint64_t id,
		    void *message, uint64_t len_bytes);
/* The engine was called; `caller` is its own. Not while it waits for others. */
void weft_reach_calls(struct weft_pool *pool, struct weft_caller *caller);

#endif
