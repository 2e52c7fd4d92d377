/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The groups that members of a card's network namespace listen to, each joined by a socket of its own. Of several cards of one
 * interface, and one version of IP, one joins for all.
 *
 * Context: the card's thread.
 */
#ifndef WEFT_CARD_GROUPS_H
#define WEFT_CARD_GROUPS_H

#include "link/udp.h"
#include "pool/pool.h"

/* Groups at a time; what goes to more is not heard. */
#define WEFT_GROUPS 64u

struct weft_groups {
	struct weft_pool *pool;
	uint8_t address[16]; /* the card's */
	uint32_t interface;
	uint32_t count;
	struct weft_groups_member {
		uint8_t gid[16];
		struct weft_udp *udp;
		uint64_t empty_ns; /* as the loop's */
		bool wanted;
	} group[WEFT_GROUPS];
};

/* Joins groups that are new, and leaves those to which no member listens any more. */
void weft_groups_look(struct weft_groups *groups);
void weft_groups_end(struct weft_groups *groups);

#endif
