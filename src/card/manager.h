/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Queue pair 1 of a card: datagrams of connection management between other hosts and the members that they are for. A request goes
 * to the member that listens at its port, all else to the member whose number stands in the id that it is about (cm/agent.c).
 * If there is no such member, the card answers as a host without that listener or connection. A request to a port that a
 * member holds but does not listen at yet, or has just listened at (mailbox/port.h), is held, and tried again for a while.
 *
 * It remembers the connections that it has seen made. If the member of one dies, it takes leave in its stead: by DREQ, until that
 * is answered or for a while.
 *
 * Context: the card's thread; the line is idle.
 */
#ifndef WEFT_CARD_MANAGER_H
#define WEFT_CARD_MANAGER_H

#include "mailbox/mailbox.h"
#include "wire/cm/conn.h"

#define WEFT_MANAGER_BUCKETS 1024u
#define WEFT_MANAGER_HELD    512u /* requests at a time; one more is refused */
#define WEFT_MANAGER_TRY_NS  1000000u
#define WEFT_MANAGER_QPN     1u
#define WEFT_MANAGER_QKEY    0x80010000u /* 16.1.1 */

struct weft_manager;

struct weft_manager_calls {
	/* Sends the datagram from the card's address. If there is no room, it is lost. */
	void (*send)(struct weft_manager *manager, const uint8_t to[16],
		     const uint8_t bytes[WEFT_MAD_BYTES]);
	void *(*alloc)(struct weft_manager *manager, size_t bytes);
	void (*free)(struct weft_manager *manager, void *at);
};

struct weft_manager {
	struct weft_pool *pool;
	const struct weft_manager_calls *calls;
	uint32_t count;
	struct weft_manager_entry *bucket[WEFT_MANAGER_BUCKETS]; /* by the id of the other host */
	struct weft_manager_held *held;				 /* the oldest first; NULL: none */
	uint32_t held_count;
	uint64_t try_ns; /* not tried before that */
};

/* A datagram has come to queue pair 1. */
void weft_manager_arrived(struct weft_manager *manager, const uint8_t from[16],
			  const uint8_t to[16], const uint8_t bytes[WEFT_MAD_BYTES],
			  uint64_t now_ns);
/* Sends what members have for other hosts. */
void weft_manager_look(struct weft_manager *manager, uint64_t now_ns);
/* Tries again the requests that are held, if it is time: to be called each WEFT_MANAGER_TRY_NS while there are any. */
void weft_manager_try(struct weft_manager *manager, uint64_t now_ns);
/* Now and then: takes leave for the dead, and forgets what has come to nothing. */
void weft_manager_watch(struct weft_manager *manager, uint64_t now_ns);
void weft_manager_end(struct weft_manager *manager);

#endif
