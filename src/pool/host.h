/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Hosts of a pool that has several: coming and beating (host.c); what this process makes of the others (silence.c); asking them
 * whether an executor there is still at a member, and answering (quiesce.c). In a pool of one host, whose
 * attachment has no `hosts`, none of these is called but the first two of quiesce.c, which then do nothing.
 *
 * Context: any thread. Mutexes of the pool's own are taken; the home's lock by weft_host_arrive alone.
 */
#ifndef WEFT_POOL_HOST_H
#define WEFT_POOL_HOST_H

#include <pthread.h>

#include "pool/format_host.h"
#include "pool/internal.h"

struct weft_hosts {
	struct weft_pool_host *at; /* by number */
	uint64_t silence_ns;
	pthread_mutex_t
		mutex; /* guards the next: what was seen of each, since when, and at which look */
	struct weft_heard {
		uint64_t beat, since_ns, looked_ns;
	} seen[WEFT_HOSTS];
	pthread_mutex_t asking; /* held by the thread that asks for this member */
	_Atomic bool owes;	/* an answer waits for an executor here */
	_Atomic bool displaced; /* another home has our number, or we were evicted */
	_Atomic bool lost; /* a host has fallen silent, and no thread here has asked for that yet */
	_Atomic uint64_t silent;    /* a bit a host: at the last look at all */
	_Atomic uint64_t looked_ns; /* when that was */
	_Atomic uint64_t nap_ns;    /* the helper's next sleep, at most */
	_Atomic uint64_t heard_ns;  /* when another host last wanted something */
};

/* The pool is mapped, and its slices are known. 0; -EBUSY (another home has that number, and lives), -ENOMEM, -EIO,
 * -ETIMEDOUT; *why. Nothing where the pool has its home in itself. */
int weft_host_arrive(struct weft_attachment *a, const char **why);
/* After that. */
void weft_host_end(struct weft_attachment *a);

/* Printable. */
void weft_host_name(const struct weft_pool_host *h, char name[WEFT_HOST_NAME + 1]);

/* silence.c: whether the beat of that host has stood still for the pool's time, as far as this process has looked: it
 * begins anew if it has not for half of that. */
bool weft_host_is_silent(struct weft_attachment *a, uint32_t host);
/* Whether an operator has said that its present life is over; then it is silent, too. */
bool weft_host_is_evicted(const struct weft_attachment *a, uint32_t host);
/* Looks at all of them, if no thread here has of late. */
void weft_silence_look(struct weft_attachment *a);
/* Beats, if no process of this host has of late, and answers. Whatever waits for another host calls it. */
void weft_host_tick(struct weft_attachment *a);
/* How long the helper may sleep before it looks for what other hosts want: timeout_ns, or less. */
int64_t weft_host_nap(struct weft_attachment *a, int64_t timeout_ns);
/* Another host wants something: it may go on so. */
void weft_host_heard(struct weft_attachment *a);

/* quiesce.c: asks the hosts that use that member whether an executor there is still at it (qp not 0: at that queue pair).
 * 0; -ETIMEDOUT: one is silent or has an executor that does not go on; if `suspects`, it is
 * a suspect then. */
int weft_quiesce_ask(struct weft_attachment *a, uint16_t member, uint32_t qp, uint64_t patience_ns,
		     bool suspects);
/* Answers what other hosts ask this one. Waits a millisecond at most for each member that asks. */
void weft_quiesce_answer(struct weft_attachment *a);
/* Whether that host has yet to say, after that question of ours, that no executor there is at us. */
bool weft_quiesce_waits(struct weft_attachment *a, uint32_t host, uint64_t life, uint64_t sequence);

#endif
