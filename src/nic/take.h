/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Taking from a receive queue of which we are not the only taker (struct weft_pool_srq). The
 * caller's busy line names its owner, in all calls. Where the owner is of another host, and the pool has no atomic
 * instructions between hosts, that one's helper changes the words that takers share: then the calls wait for it.
 */
#ifndef WEFT_NIC_TAKE_H
#define WEFT_NIC_TAKE_H

#include "nic/types.h"

struct weft_nic;
struct weft_pool;

struct weft_take {
	struct weft_pool_srq *head;  /* the first of its stretches, */
	struct weft_pool_srq *at;    /* and the oldest in which we may find something */
	struct weft_pool_ring *wake; /* what is to be known of the completion queue */
	uint64_t domain;	     /* of the receives' keys */
	_Atomic uint64_t *claims;
	uint64_t position; /* of the receive that was found last */
	uint32_t mask, stride, sges;
	uint16_t owner;
	uint8_t bits;
};

bool weft_take_map(struct weft_pool *pool, struct weft_take *take, uint16_t owner, uint64_t srq_off,
		   uint64_t wake_off);
/* The oldest receive that is free; NULL: none. It is what the calls below are about. */
struct weft_pool_slot *weft_take_first(struct weft_pool *pool, struct weft_take *take);
/* The one that will most likely be found after that; NULL: it is not free. */
const struct weft_pool_recv *weft_take_next(const struct weft_take *take);
/* 0; -EAGAIN: another taker was faster; or its owner was asked, and does not answer: as `change` of struct weft_pool says. */
int weft_take_claim(struct weft_pool *pool, const struct weft_take *take);
/* Nothing comes for it: its owner posts it again, as if we had died. */
void weft_take_let_go(struct weft_pool *pool, const struct weft_take *take);
/* The bytes have been placed, and the slot's `taken` is written. False: its owner was asked, and does not answer; nor is it known
 * whether it has heard. */
bool weft_take_complete(struct weft_nic *nic, const struct weft_take *take);
/* A receive of that UD queue pair was at fault. */
void weft_take_blame(struct weft_pool *pool, const struct weft_take *take, uint32_t tag);

#endif
