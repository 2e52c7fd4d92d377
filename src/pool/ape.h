/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The place of a pool where the card of a torus and its node's programs meet (format_ape.h). */
#ifndef WEFT_POOL_APE_H
#define WEFT_POOL_APE_H

#include "pool/format_ape.h"
#include "pool/pool.h"

/* Its pages, reserved and mapped; NULL: there is no room for them. */
struct weft_pool_ape *weft_pool_ape(struct weft_pool *pool);
/* What this member writes as `owner`, or as the card's word. */
uint64_t weft_pool_ape_word(const struct weft_pool *pool);
/* Whether the member that wrote that word is still there; member: its number. */
bool weft_pool_ape_lives(struct weft_pool *pool, uint64_t word, uint16_t *member);
/*
 * Takes a slot for this process, `which` or, where that is negative, a free one; its number.
 * -EBUSY (another has it), -ENOSPC (none is free), -EAGAIN (its owner, or one of all owners, has gone, and the card will let it go),
 * -ENETDOWN (no card runs), -ETIMEDOUT (the lock).
 */
int weft_pool_ape_claim(struct weft_pool *pool, struct weft_pool_ape *ape, int which);
/* lease.c: whether those bytes lie in segments that are leased under that word. */
bool weft_lease_covers(const struct weft_pool *pool, uint64_t word, uint64_t off,
		       uint64_t len_bytes);

/* From outside, as weft_view_open: the card's page as it is. 0, or its errors. */
int weft_pool_ape_look(const char *path, struct weft_pool_ape_card *card, const char **why);

#endif
