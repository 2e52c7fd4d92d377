/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An attached pool: the window through which this process sees the file, and what members do
 * with it. Freestanding, so that the nic can include it; the calls below are the pool's, in user
 * space built on libc.
 *
 * Context: any thread unless said otherwise. Slow calls take the private mutex of the process,
 * and the file lock where they change leases.
 */
#ifndef WEFT_POOL_POOL_H
#define WEFT_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "pool/sizes.h"

#define WEFT_CHUNK_BITS 21u /* the window is mapped in chunks of 2 MiB, when first needed */

struct weft_grant;
struct weft_span;
/* Of the formats: format.h and those that it names; the next in seen.h. */
struct weft_pool_alarm;
struct weft_pool_ask;
struct weft_pool_leases;
struct weft_pool_busy_line;
struct weft_pool_home;
struct weft_pool_member;
struct weft_pool_near;
struct weft_pool_object;
struct weft_pool_mr;
struct weft_pool_qp;
struct weft_seen_mr;
struct weft_pool_calls;

enum weft_change_how {
	WEFT_CHANGE_SET,
	WEFT_CHANGE_ADD,
	WEFT_CHANGE_COMPARE, /* set, if it is `was` */
};

/* A word of the pool that its owner is asked to change, for a member of another host (pool/slice.h). */
struct weft_pool_change {
	uint64_t off;
	uint64_t to;
	uint64_t was;	/* comes back as what was there */
	uint32_t how;	/* enum weft_change_how */
	uint32_t bytes; /* 4 or 8 */
};

struct weft_pool {
	const struct weft_pool_calls *calls;
	uint8_t *base; /* the window: address space for the whole file */
	uint64_t bytes;
	struct weft_pool_leases *leases;
	struct weft_pool_member *members;
	struct weft_pool_qp *qps;
	struct weft_pool_mr *mrs;
	struct weft_pool_object *objects;
	struct weft_pool_home *home;
	struct weft_pool_member *self;
	struct weft_pool_near *own; /* what of us only our host sees */
	uint64_t incarnation;
	uint16_t me;
	uint16_t host; /* ours, of 1 << host_bits (pool/slice.h) */
	uint32_t host_bits;
	uint32_t slice_bits, cut_bits; /* as the header has them */
	uint32_t segments;
	_Atomic uint64_t age;	   /* suspects found so far */
	_Atomic uint32_t nretired; /* what waits for them */
	/* What this process has mapped: a flag a chunk and a block, which only ever goes from unseen
	 * to seen, under the mutex. */
	_Atomic uint8_t *chunk_seen;
	_Atomic uint8_t *qp_block_seen, *mr_block_seen, *object_block_seen;
	struct weft_seen_mr *mr_seen; /* what it has seen of the table of regions */
	/* NULL, or what threads do while they wait for threads of other members, which may be waiting
	 * for them. Locks of the nic may be held; a thread that has work here does not hold the mutex. */
	void (*meanwhile)(struct weft_pool *pool);
	/*
	 * NULL, or what a thread does in place of a read-modify-write on words of a member of another host, where the pool
	 * has no atomic instructions between hosts: asks that one's helper, which does all of them, in order, if the grant stands (NULL: in any
	 * case). 0; or it has not, or not known: -ESRCH (the grant has ended, or the member), -ETIMEDOUT, -ENOMEM.
	 */
	int (*change)(struct weft_pool *pool, const struct weft_grant *grant, uint16_t owner,
		      struct weft_pool_change *changes, uint32_t n);
};

/* A thread's place in the pool: its busy line and its ask. shared: more threads than lines; the
 * thread takes weft_pool_share_lock() around its use. */
struct weft_caller {
	struct weft_pool_busy_line *line;
	struct weft_pool_ask *ask;
	uint32_t thread; /* a number that no other living thread has; 0: it must not own locks */
	uint16_t index;
	bool shared;
	/* of memory of a third member (nic/place.h): a key did not hold, for that member rehomes; and the span
	 * that could not be reached, the last time that one could not */
	bool rehomes;
	const struct weft_span *failed;
};

/*
 * Attaches this process to the pool at `path` (NULL: $WEFT_POOL, else the user's own), or takes
 * another reference. One pool a process: another path is refused.
 * -EPROTO (not a pool, or another version or layout), -EPERM (not the user's own), -EBUSY (another
 * pool is open, or no member is free), -ENOSPC, -ENOMEM, -EFBIG (there is none yet, and the process may
 * not make so large a file), -ETIMEDOUT (the owner of the pool's lock does not go on), or open(2)'s.
 * *why says it in a sentence, good until the thread's next call.
 * where: PATH_MAX bytes for the path that was chosen, also when this fails.
 */
int weft_pool_get(const char *path, struct weft_pool **pool, char *where, const char **why);
/* Drops the reference; the last one gives back all leases and detaches. */
void weft_pool_put(struct weft_pool *pool);
/* This process ends by itself, whatever of it is still open: peers need not be told of a death. */
void weft_pool_exits(struct weft_pool *pool);
/*
 * Makes a pool of several hosts at a path that says of what kind it is; `bytes` 0: as large as one is here; flags: enum
 * weft_pool_flag. -EINVAL (so many
 * hosts, or so few bytes; or no such kind), -EBUSY (a host of it lives), -EPROTO, -ENOSPC, or open(2)'s. *why.
 */
int weft_pool_create(const char *path, uint32_t hosts, uint64_t bytes, uint32_t silence_ms,
		     uint32_t flags, const char **why);
/* Whether a read-modify-write holds among all members. */
bool weft_pool_has_atomics(const struct weft_pool *pool);
/* Whether weft_pool_get makes the pool of that path if there is none. */
bool weft_pool_is_made_by_use(const char *path);
/*
 * Removes a pool that no process uses, of whatever version; path as above. -EBUSY (a member lives),
 * -EPROTO (the user named a file that is no pool: it stays), or open(2)'s or unlink(2)'s. *why.
 */
int weft_pool_remove(const char *path, const char **why);

/* The bytes [off, off + len) as this process sees them; NULL when the range is not of the pool's
 * segments or cannot be mapped. Fast when seen before. */
void *weft_pool_window(struct weft_pool *pool, uint64_t off, uint64_t len_bytes);
/* The same, and touches every page now rather than at the first access. */
void *weft_pool_populate(struct weft_pool *pool, uint64_t off, uint64_t len_bytes);
/* Maps the table entry of a key or number if its block is leased. 0 or -ENOENT. */
int weft_pool_see_mr(struct weft_pool *pool, uint32_t index);
int weft_pool_see_qp(struct weft_pool *pool, uint32_t index);
int weft_pool_see_object(struct weft_pool *pool, uint32_t index);
/* Keeps a checked copy of a region's entry, if it is still that. 0 or -ENOENT. */
int weft_pool_keep_mr(struct weft_pool *pool, uint32_t index, const struct weft_pool_mr *mr);

/* The file of the pool of this process, or of that which it would open: the same two numbers in every process
 * that is attached to it. 0, or stat(2)'s: there is none yet. */
int weft_pool_identity(uint64_t identity[2]);

/* Table entries for this member; index out, -ENOSPC when none is left. */
int weft_pool_take_qp(struct weft_pool *pool, uint32_t *index);
void weft_pool_drop_qp(struct weft_pool *pool, uint32_t index);
int weft_pool_take_mr(struct weft_pool *pool, uint32_t *index);
void weft_pool_drop_mr(struct weft_pool *pool, uint32_t index);
int weft_pool_take_object(struct weft_pool *pool, uint32_t *index);
void weft_pool_drop_object(struct weft_pool *pool, uint32_t index);

/* Extents: whole pages, reserved, with a hole behind each. -ENOSPC. */
int weft_pool_extent_alloc(struct weft_pool *pool, uint64_t len_bytes, uint64_t *off);
void weft_pool_extent_free(struct weft_pool *pool, uint64_t off, uint64_t len_bytes);
/* The size that a new pool's file has here, nearly all of it a hole. */
uint64_t weft_pool_new_bytes(void);
/* What the memory cgroup of this process still allows; UINT64_MAX: no limit. */
uint64_t weft_pool_head_room(void);

/* In a fork's child: the attachment is its parent's. Lets go of its descriptor and memory. */
void weft_pool_forget(void);

/* Small zeroed pieces for rings, aligned to a line. The same length frees them. -ENOSPC. */
int weft_pool_alloc(struct weft_pool *pool, uint64_t len_bytes, uint64_t *off);
void weft_pool_free(struct weft_pool *pool, uint64_t off, uint64_t len_bytes);

/* A line for the calling thread, given back when it ends. Never fails: the last line is shared. */
void weft_pool_caller_get(struct weft_pool *pool, struct weft_caller *caller);
void weft_pool_caller_put(struct weft_pool *pool, struct weft_caller *caller);
void weft_pool_share_lock(struct weft_pool *pool);
void weft_pool_share_unlock(struct weft_pool *pool);

/*
 * Revocation's second half: what the caller stored before this call is seen by every executor
 * that starts from now on, and those that were executing at this member have ended; with qp_index not
 * 0, those at that queue pair of it.
 * 0, or -ETIMEDOUT when one has not within a second (stopped in the middle of a copy), though it
 * may reach what was made at that age: its memory must then be retired, not freed.
 */
int weft_pool_quiesce(struct weft_pool *pool, uint32_t qp_index, uint64_t made);
/* The same of executors of other hosts alone, at any of its queue pairs; no member becomes a suspect. */
int weft_pool_ask_hosts(struct weft_pool *pool);
/* The age from which on what is made is out of the reach of the suspects at that queue pair of ours; 0: there
 * is none. */
uint64_t weft_pool_suspects_at(struct weft_pool *pool, uint32_t qp_index);
/* Grows with each suspect: what is made afterwards is out of its reach. */
static inline uint64_t weft_pool_age(const struct weft_pool *pool)
{
	return atomic_load_explicit(&pool->age, memory_order_relaxed);
}

enum weft_retire {
	WEFT_RETIRE_EXTENT,
	WEFT_RETIRE_PIECE,
	WEFT_RETIRE_QP, /* `where` is the index, as for the next */
	WEFT_RETIRE_MR,
};
/* Frees it, as the function of its kind does, when no suspect can reach it any more. */
void weft_pool_retire(struct weft_pool *pool, enum weft_retire what, uint64_t where,
		      uint64_t len_bytes);
/* Looks whether suspects have gone on, or have died. */
void weft_pool_sweep(struct weft_pool *pool);
/* The first half alone: every thread of every member has seen our stores, and we theirs. */
void weft_pool_barrier(struct weft_pool *pool);
/* The calling thread alone: its stores before this are seen by the thread that it does not see in its loads after it. */
void weft_pool_fence(void);

/*
 * Between these two what that member keeps in segments (its mailbox, its ports, what it asks for) is not
 * given back: unless it has been before, which shows in its page, to be read in between. Take mutexes;
 * nothing may be waited for in between.
 */
void weft_pool_visit(struct weft_pool *pool, uint16_t member);
void weft_pool_depart(struct weft_pool *pool);
/* In between: whether what that member keeps is still its own; *pid: by which number the kernel's
 * process_vm calls reach it, 0 where they do not, and *witness, to be touched first (witness.h). */
bool weft_pool_visit_holds(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
			   uint32_t *pid, uint64_t *witness);

/* The first member from `from` on whose number was ever used; WEFT_MEMBERS: there is none. */
uint16_t weft_pool_next(const struct weft_pool *pool, uint16_t from);
/* Before entries of that member are read, or what it has in segments: if it is another host's, it learns that this
 * host uses it. False: that host is silent. */
bool weft_pool_use(struct weft_pool *pool, uint16_t member);
/* A member's page, mapped; NULL if that number was never used. */
struct weft_pool_member *weft_pool_member(struct weft_pool *pool, uint16_t member);
/* What only its host sees of a member, mapped; NULL if that number was never used, or is another host's. */
struct weft_pool_near *weft_pool_near(struct weft_pool *pool, uint16_t member);

/* Wakes a member's helper, and why. */
enum weft_signal_reason {
	WEFT_SIGNAL_EVENT, /* the arming of a queue was claimed, and its channel could not be woken */
	WEFT_SIGNAL_ASK,   /* a thread asks for what only the helper can reach */
	WEFT_SIGNAL_FAULT,   /* a peer put a queue pair in error */
	WEFT_SIGNAL_WORK,    /* its own process has work for it */
	WEFT_SIGNAL_MAILBOX, /* a datagram was posted for it */
	WEFT_SIGNAL_CALL,    /* a thread calls, or has something open of which there are events */
	WEFT_SIGNAL_REASONS,
};
void weft_pool_signal(struct weft_pool *pool, uint16_t member, enum weft_signal_reason reason);
/*
 * Wakes the thread that waits for the completion channel of that bell. 0; -errno: its pipe cannot be reached from here,
 * and its owner's helper is to do it. Takes mutexes of its own only.
 */
int weft_pool_wake(struct weft_pool *pool, uint16_t member, uint64_t bell_off);
/* Wakes the card that this member is, by its bell or by its helper: see pool/doorbell.h. */
void weft_pool_wake_card(struct weft_pool *pool, uint16_t member);

/* Gives a descriptor of ours a number out of the way of the program's: the new one, or where there is none the old. */
int weft_wake_out_of_way(int fd);

/* Ends an arming: {CLAIMED, by us}, or OFF with `taken`, as its owner does that has the event at once. False: it
 * is not armed for this completion, or another producer was faster. */
bool weft_pool_claim(struct weft_pool *pool, struct weft_pool_alarm *alarm, bool solicited,
		     bool taken);
void weft_pool_alarm(struct weft_pool *pool, uint16_t owner, uint64_t alarm_off, bool solicited);

/* Whether other hosts use the pool: its helpers must wake by themselves. */
bool weft_pool_has_hosts(const struct weft_pool *pool);
/* Whether another machine has become this one's host, or this one was evicted: the pool is no longer ours to use. */
bool weft_pool_is_displaced(const struct weft_pool *pool);
/* Whether a host has fallen silent since this was last asked. */
bool weft_pool_has_lost_host(struct weft_pool *pool);
/* Says that a silent host does not go on: what is kept for it is given back. -EINVAL (there is none to evict), -EBUSY
 * (it beats); *why. Takes as long as the pool's silence, or twice that. */
int weft_pool_evict(struct weft_pool *pool, uint32_t host, const char **why);
/* The helper's sleep; returns when signalled, or after timeout_ns (negative: never). */
void weft_pool_sleep(struct weft_pool *pool, int64_t timeout_ns);
/* The helper: was it signalled for this since it last asked? */
bool weft_pool_signalled(struct weft_pool *pool, enum weft_signal_reason reason);

/* Between two looks for what another does, that long after the first: gives the core away, after a
 * millisecond by sleeping for a sixteenth of that, a millisecond at most. */
void weft_pool_pause(uint64_t waited_ns);

/* Whether the member of that incarnation is still there. Takes 0.3 µs or more. */
bool weft_pool_alive(struct weft_pool *pool, uint16_t member, uint64_t incarnation);
/* Gives back whatever dead members have left behind. How many there were. */
unsigned int weft_pool_recover(struct weft_pool *pool);
/* The same for some of them, the next ones at each call, and a sweep; waits for no other process. */
unsigned int weft_pool_watch(struct weft_pool *pool);

/*
 * The calls above that the nic makes, as a table: it and its transports link with nothing, so that each can be
 * built where there is another pool than this process's.
 */
struct weft_pool_calls {
	void *(*window)(struct weft_pool *pool, uint64_t off, uint64_t len_bytes);
	void *(*populate)(struct weft_pool *pool, uint64_t off, uint64_t len_bytes);
	int (*see_mr)(struct weft_pool *pool, uint32_t index);
	int (*see_qp)(struct weft_pool *pool, uint32_t index);
	int (*keep_mr)(struct weft_pool *pool, uint32_t index, const struct weft_pool_mr *mr);

	int (*take_qp)(struct weft_pool *pool, uint32_t *index);
	void (*drop_qp)(struct weft_pool *pool, uint32_t index);
	int (*take_mr)(struct weft_pool *pool, uint32_t *index);
	void (*drop_mr)(struct weft_pool *pool, uint32_t index);
	int (*alloc)(struct weft_pool *pool, uint64_t len_bytes, uint64_t *off);
	void (*free)(struct weft_pool *pool, uint64_t off, uint64_t len_bytes);
	void (*retire)(struct weft_pool *pool, enum weft_retire what, uint64_t where,
		       uint64_t len_bytes);

	int (*quiesce)(struct weft_pool *pool, uint32_t qp_index, uint64_t made);
	uint64_t (*suspects_at)(struct weft_pool *pool, uint32_t qp_index);
	void (*barrier)(struct weft_pool *pool);
	void (*share_lock)(struct weft_pool *pool);
	void (*share_unlock)(struct weft_pool *pool);

	bool (*use)(struct weft_pool *pool, uint16_t member);
	uint16_t (*next)(const struct weft_pool *pool, uint16_t from);
	struct weft_pool_member *(*member)(struct weft_pool *pool, uint16_t member);
	struct weft_pool_near *(*near)(struct weft_pool *pool, uint16_t member);
	bool (*alive)(struct weft_pool *pool, uint16_t member, uint64_t incarnation);
	void (*visit)(struct weft_pool *pool, uint16_t member);
	void (*depart)(struct weft_pool *pool);
	void (*signal)(struct weft_pool *pool, uint16_t member, enum weft_signal_reason reason);
	bool (*claim)(struct weft_pool *pool, struct weft_pool_alarm *alarm, bool solicited,
		      bool taken);
	void (*alarm)(struct weft_pool *pool, uint16_t owner, uint64_t alarm_off, bool solicited);
	void (*wake_card)(struct weft_pool *pool, uint16_t member);
};

extern const struct weft_pool_calls weft_pool_calls;

#endif
