/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of libweft-ape share. */
#ifndef WEFT_APE_PRIVATE_H
#define WEFT_APE_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include "ape/weft/ape.h"
#include "link/torus.h"
#include "pool/ape.h"

enum weft_ape_use {
	WEFT_APE_FREE,
	WEFT_APE_REGION,
	WEFT_APE_RECEIVE,
};

struct ape {
	struct weft_pool *pool;
	struct weft_pool_ape *shared;
	struct weft_pool_ape_slot *slot;
	struct weft_torus_door *door; /* the card's */
	uint64_t owner, card;	      /* lease words: of this process, of the card */
	struct ape_info info;
	pthread_mutex_t mutex; /* guards all below, and what this process writes in the slot */
	uint64_t posted, asked, polled;
	uint32_t owed; /* events that are still to be polled */
	enum weft_ape_use use[APE_BUFFERS];
	uint64_t tag[APE_BUFFERS]; /* of receives */
	int fd;			   /* 0: there is none */
	pthread_t listener;	   /* where fd is */
	_Atomic bool ends;	   /* the listener does not wait any more */
};

/* Whether the card that the slot was taken at runs. */
bool weft_ape_has_card(const struct ape *ape);
/* The same, and asks whether its process lives. */
bool weft_ape_ni_lives(const struct ape *ape);
/* As the program closes: none of its threads is in a call. */
void weft_ape_stop_listening(struct ape *ape);
static inline struct weft_door *weft_ape_door(const struct ape *ape)
{
	return (struct weft_door *)&ape->slot->door;
}

#endif
