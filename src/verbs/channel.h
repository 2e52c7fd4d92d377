/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion channels (channel.c). */
#ifndef WEFT_VERBS_CHANNEL_H
#define WEFT_VERBS_CHANNEL_H

#include <stdbool.h>

#include "verbs/verbs.h"

struct weft_pool_bell;
struct weft_verbs_cq;

/* Events that wait to be read: a pipe that says that there are some, and a list of whose they are. */
struct weft_channel {
	struct ibv_comp_channel channel; /* its descriptor is the pipe's end */
	struct weft_pool_bell *bell;	 /* whose inode is 0 where it is an eventfd instead */
	uint64_t bell_off, made;	 /* made: the pool's age */
	_Atomic uint32_t
		late; /* words that producers may still write, for which we did not wait; guarded as below */
	pthread_mutex_t mutex; /* guards all below, the counts in its queues, and refcnt */
	int both;	       /* of the pipe, for reading and writing, without waiting */
	struct weft_verbs_cq *queues, *first, **last;
	uint32_t looked; /* the helper's look at which `heard` was so: it could be read */
	bool heard;
};

static inline struct weft_channel *weft_channel(struct ibv_comp_channel *channel)
{
	return (struct weft_channel *)channel;
}

/* channel.c: an event of a queue; overdue: its producer has not told the channel in time, and may yet, if it
 * lives. The queue's lock may be held, and the nic's. */
void weft_channel_notify(struct weft_verbs_cq *cq);
void weft_channel_overdue(struct weft_verbs_cq *cq, bool lives);
/* Called each half second. The producer that says in the bell that the channel is told may die, or stand still,
 * before it writes; what is listed afterwards tells the channel no more. The second look in a row that finds it so
 * tells it. */
bool weft_channel_unheard(struct weft_verbs_cq *cq);
/* A queue on a channel, or on none: is made; is about to be destroyed; has been. The last drops its unread events
 * and waits until all that were read are acknowledged. */
void weft_channel_join(struct weft_verbs_cq *cq);
void weft_channel_part(struct weft_verbs_cq *cq);
void weft_channel_leave(struct weft_verbs_cq *cq);

#endif
