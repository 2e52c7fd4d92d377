/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What an api needs of a process that is a member of the pool: the pool, the nic on it, the helper, memory of
 * other members. All contexts of verbs share it: made when the first device is opened, ended when the last one
 * is closed.
 */
#ifndef WEFT_PROCESS_PROCESS_H
#define WEFT_PROCESS_PROCESS_H

#include <stdatomic.h>

#include "nic/machine.h"
#include "pool/ask.h"
#include "pool/sizes.h"
#include "process/reach.h"

struct weft_nic;
struct weft_nic_api;

#define WEFT_BOUNCE_BYTES                                                                          \
	65536u /* bytes of other members' memory that are fetched or stored at once */

/* Of one ask of a request that does not wait (late.c). */
struct weft_late {
	_Atomic uint32_t state;		   /* whether a request has it; the rest is that one's */
	uint16_t member;		   /* of which it was asked last, */
	uint64_t incarnation;		   /* and which one that was */
	uint64_t bounce_off, bounce_bytes; /* 0: it has none yet */
	uint64_t looked_ns;		   /* when that member was last seen alive */
	bool asked;			   /* something, since the last answer was taken */
	bool gone;			   /* the member has died */
	/* of what: a part of a request that lies together, from `at` on, and how much of it is done; or an atomic */
	enum weft_ask_kind kind;
	uint64_t id, va, len_bytes, at, done, operand[2];
	uint32_t kept,
		ended;	 /* of WEFT_ASK_WRITES: of how many requests, and how many have heard */
	uint32_t filled; /* bytes of the bounce buffer that those have */
};

/* The member whose helper was asked last, in vain; incarnation 0: it was not in vain. */
struct weft_left {
	uint16_t member;
	uint64_t incarnation;
};

struct weft_process {
	struct weft_pool *pool;
	const struct weft_process_api *api;
	_Atomic uint32_t
		generation; /* grows with every attachment; callers of an older one are stale */
	unsigned int contexts;
	bool attached; /* without contexts, too, while pages have to stay in the pool */
	uint64_t bounce_off[WEFT_MEMBER_LINES];	  /* by caller; each touches only its own (ask.c) */
	struct weft_left left[WEFT_MEMBER_LINES]; /* likewise */
	struct weft_late late[WEFT_MEMBER_LATE];
};

extern struct weft_process weft_process;
extern struct weft_nic weft_process_nic; /* on its pool */

#define WEFT_CALL_BYTES 256 /* of the message of a call, at most (weft_ask_call) */

/* What the process tells the api that it serves. Unless another is named, the helper calls, with nothing locked. */
struct weft_process_api {
	const struct weft_nic_api *nic;
	/* The helper of another member asks for something: 0 or -errno; -EAGAIN: not now. What `message` says
	 * then goes back. */
	int (*answer)(struct weft_caller *caller, uint16_t member, uint64_t incarnation,
		      enum weft_ask_kind kind, uint64_t id, void *message);
	/* The same has signalled without asking for anything. */
	void (*signalled)(void);
	/* Members may have died. */
	void (*watch)(struct weft_pool *pool);
	/* The host's addresses have changed. Any thread. */
	void (*addresses_changed)(void);
	/* While requests wait (weft_nic_hold) regions get other pages (weft_region_rehome), and their keys follow.
	 * Any thread, in weft_rehome. */
	void (*rehome)(void);
	/* The process leaves the pool; there is no helper any more. The thread that leaves. */
	void (*leave)(void);
	/* In a fork's child: nothing is open. Async-signal-safe. */
	void (*forget)(void);
};

/* Of the api of the first call. 0 or -errno, said on stderr once. */
int weft_process_get(const struct weft_process_api *api);
void weft_process_put(void);

/* How a thread spends its empty polls (idle.c). */
struct weft_idle {
	uint32_t polls_left; /* until the next look */
	uint32_t yields;
	/* requests that had ended when they were counted last; when that was, and how long each took */
	uint64_t ended, counted_ns, each_ns;
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

/* helper.c: the thread that works while the program does not. Started once, at the first need. */
int weft_helper_start(void);
void weft_helper_stop(void);
void weft_helper_kick(void);
/* Memory was retired for an executor that stands still (weft_pool_retire): it is to look when that has gone on. */
void weft_helper_watch(void);
/* See struct weft_pool: what the helper does while it waits itself. */
void weft_helper_meanwhile(struct weft_pool *pool);
/* The helper's own, in its thread; NULL in any other. */
const struct weft_caller *weft_helper_caller(void);
/* Another library's part of its work (client.h). */
struct weft_helper_client;
void weft_helper_serve(const struct weft_helper_client *client);
void weft_helper_forget(void); /* in a fork's child */

/*
 * rehome.c. Rights have been taken from an executor that stands still in the middle of a request, and that
 * may still write to pages of regions that stay: these get other pages, by the same keys. Regions, queue
 * pairs and queues of XRC come and go only with the lock shared; it is not held by the caller of the others:
 * after a region has ended in vain (weft_region_quarantine); after the queue pair of that index has been
 * taken away.
 */
void weft_rehome_share(void);
void weft_rehome_unshare(void);
void weft_rehome(void);
void weft_rehome_from_qp(uint32_t index);
void weft_rehome_forget(void); /* in a fork's child */

/* late.c: as weft_reach, for requests that do not wait: -EINPROGRESS; see struct weft_later and struct
 * weft_machine. */
int weft_late_copy(struct weft_pool *pool, const struct weft_in_place *memory, uint8_t *here,
		   uint64_t len_bytes, bool write);
int weft_late_atomic(struct weft_pool *pool, const struct weft_in_place *memory,
		     enum weft_ask_kind kind, const uint64_t operand[2], uint64_t *value);
bool weft_late_answered(void *context, const struct weft_later *later, uint64_t now_ns);
bool weft_late_carried_out(void *context, const struct weft_later *later, uint64_t *value);
void weft_late_take_back(void *context, struct weft_later *later);
void weft_late_ask_gathered(void *context, struct weft_later *later);

#endif
