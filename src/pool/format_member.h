/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A member, as all others see it, on whatever host. Writers: as in format.h; what only its own host sees: format_home.h. */
#ifndef WEFT_POOL_FORMAT_MEMBER_H
#define WEFT_POOL_FORMAT_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"
#include "pool/format_ask.h"
#include "pool/doorbell.h"
#include "pool/sizes.h"

/* A queue pair that listens to a multicast group. A sender reads the group between two equal looks at `qpn`: `qpn` is 0
 * before the group is written, and stored last, both by release. One that reads an old `qpn` delivers to a queue pair that
 * has just left the group. */
struct weft_pool_group {
	_Atomic uint32_t qpn; /* [O] 0: free; stored last */
	uint8_t gid[16];
};

/* The queue pair that listens by this entry, and to which group; 0: none does, or it is just becoming another's. */
static inline uint32_t weft_group_read(const struct weft_pool_group *group, uint8_t gid[16])
{
	/* acquire: pairs with the release in listen_to_group (mcast.c) */
	uint32_t qpn = atomic_load_explicit(&group->qpn, memory_order_acquire);

	__builtin_memcpy(gid, group->gid, 16);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&group->qpn, memory_order_relaxed) == qpn ? qpn : 0;
}

/*
 * An address of a member's, which comes and goes with the host's.
 *
 * word     | writer | transition                                  | order
 * `guard`  | owner  | to an even number: it has no address        | relaxed
 * `half`   | owner  | the address                                 | release, both: after that
 * `guard`  | owner  | to the next odd number: it has this one     | release
 *
 * Stale values. A peer that reads the old address, under an equal guard before and after, has the member's address of a
 * moment ago; a connection that has begun keeps it. One that finds the guard changed takes it for no address.
 */
struct weft_pool_gid {
	_Atomic uint32_t guard;	  /* [O] grows before and after the rest changes; odd: it has one */
	_Atomic uint64_t half[2]; /* [O] */
};

/* False: it has none, or another one just now. */
static inline bool weft_gid_read(const struct weft_pool_gid *at, uint8_t gid[16])
{
	/* acquire: pairs with the last release in publish (gids.c) */
	uint32_t guard = atomic_load_explicit(&at->guard, memory_order_acquire);
	/* acquire: pairs with those before it: a reader that sees something new sees that the guard has grown */
	uint64_t half[2] = {atomic_load_explicit(&at->half[0], memory_order_acquire),
			    atomic_load_explicit(&at->half[1], memory_order_acquire)};

	__builtin_memcpy(gid, half, 16);
	return guard & 1 && atomic_load_explicit(&at->guard, memory_order_relaxed) == guard;
}

static inline bool weft_gid_is(const struct weft_pool_gid *at, const uint8_t gid[16])
{
	uint8_t found[16];

	return weft_gid_read(at, found) && !__builtin_memcmp(found, gid, 16);
}

/*
 * How far a member's memory has left its extents: the phase is `rehomings` modulo their number. While it rehomes:
 *
 * word                 | writer    | transition                | order
 * conn of each queue   | owner     | READY to REHOMING, by way | first; its lock is held until it is READY again
 * pair, and of each    |           | of NONE (format_qp.h)     |
 * queue of XRC         |           |                           |
 * `rehomings`              | owner     | NONE to HOLDS             | release; then a barrier, and a wait for executors
 *                      | owner     | HOLDS to LEAVES           | release; then a barrier; then pages go to other
 *                      |           |                           | extents, and the keys' entries are published anew
 *                      | owner     | LEAVES to the next NONE   | release, after the entries
 *                      | recoverer | any to the next NONE: it  | format.h
 *                      |           | has died meanwhile        |
 * conn                 | owner     | REHOMING to READY; not of | last
 *                      |           | one left behind           |
 *
 * Stale values. An executor that reads the old conn, or the old `rehomings`, has a busy line that the owner's look
 * behind the barrier finds, and is waited for; one that stands still is left behind: what it stores goes to the
 * old extent, which is quarantined, and its queue pair is lost. An executor that reads REHOMING though READY
 * stands there tries again a little later. One that notices after its bytes that `rehomings` has come to LEAVES
 * meanwhile tells that they are lost, or does the request again where no reader can have seen the first bytes; the barrier
 * behind LEAVES makes that one notice which has stored before it.
 */
enum weft_rehoming {
	WEFT_REHOMING_NONE,  /* memory lies where it stays */
	WEFT_REHOMING_HOLDS, /* no executor may begin to touch it any more */
	WEFT_REHOMING_LEAVES, /* an executor that had begun has finished, or stands still and is left behind */
	WEFT_REHOMING_PHASES = 4,
};

static inline enum weft_rehoming weft_rehoming_phase(uint64_t rehomings)
{
	return rehomings % WEFT_REHOMING_PHASES;
}

/* What `rehomings` is when that phase begins next. */
static inline uint64_t weft_rehoming_next(uint64_t rehomings, enum weft_rehoming phase)
{
	return rehomings + (phase - rehomings) % WEFT_REHOMING_PHASES;
}

struct weft_pool_member {
	_Atomic uint64_t incarnation; /* [L] 0: free */
	uint32_t pid; /* [O] in the pid namespace pid_ns, as are the rest of this line */
	uint32_t uid;
	uint64_t pid_ns, net_ns; /* inode numbers of the namespaces */
	uint64_t start_time;	 /* of the process, clock ticks since boot */
	uint64_t witness;	 /* see witness.h */
	char comm[16];
	_Atomic uint32_t
		lines; /* [O] lines, and asks of threads, that were ever used are below this */
	_Atomic uint32_t ngids; /* [O] those in use are below this */
	struct weft_pool_gid gid[WEFT_MEMBER_GIDS];

	/* Only ever grows while the member lives, from phase to phase (enum weft_rehoming): a member that shares a domain with
	 * it looks at it. */
	_Alignas(WEFT_LINE) _Atomic uint64_t rehomings; /* [O], [L] */

	/* What signals the helper from other hosts, which it looks at when it wakes by itself: as in its near page. */
	_Alignas(WEFT_LINE) _Atomic uint32_t rung; /* [*] 1, [O] the helper: 0 */
	_Atomic uint32_t due[8];		   /* [*] 1, [O] 0 */
	/* [O], or its recoverer, asks the hosts that use it whether an executor is still at it: a sequence, and below it
	 * the index of the one queue pair that is meant (0: at any; format_host.h) */
	_Alignas(WEFT_LINE) _Atomic uint64_t quiesce;

	_Alignas(WEFT_LINE) _Atomic uint64_t mailbox_off; /* [O] 0: it has never posted */
	uint64_t ports_off;				  /* [L] of `ports` struct weft_pool_port */
	uint32_t ports;
	_Atomic uint32_t groups; /* [O] those in use are below it */
	/* [O], or the recoverer: what it keeps in segments is about to be given back */
	_Atomic uint32_t leaves;
	_Atomic uint32_t
		exits; /* [O] 1: it leaves, or its process ends by itself: that is no death to tell of */
	_Atomic uint32_t late; /* [O] asks of requests under way that were ever used: below it */
	struct weft_pool_group group[WEFT_MEMBER_GROUPS];
	struct weft_pool_card card;

	struct weft_pool_ask ask[WEFT_MEMBER_LINES + WEFT_MEMBER_LATE];
	/* [O] by poster: the number of the next of its datagrams to look at */
	_Alignas(WEFT_PAGE) _Atomic uint64_t taken[WEFT_MEMBERS];
};

static inline bool weft_member_has_gid(const struct weft_pool_member *m, const uint8_t gid[16])
{
	uint32_t n = atomic_load_explicit(&m->ngids, memory_order_relaxed);

	for (uint32_t i = 0; i < n && i < WEFT_MEMBER_GIDS; i++)
		if (weft_gid_is(&m->gid[i], gid))
			return true;
	return false;
}

#endif
