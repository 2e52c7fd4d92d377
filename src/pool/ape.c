/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/ape.h"

#include <errno.h>

#include "pool/internal.h"

struct weft_pool_ape *weft_pool_ape(struct weft_pool *pool)
{
	if (weft_reserve_pages(weft_attachment(pool), WEFT_OFF_APE, sizeof(struct weft_pool_ape)))
		return NULL;
	return weft_pool_window(pool, WEFT_OFF_APE, sizeof(struct weft_pool_ape));
}

uint64_t weft_pool_ape_word(const struct weft_pool *pool)
{
	return weft_lease_word(pool);
}

bool weft_pool_ape_lives(struct weft_pool *pool, uint64_t word, uint16_t *member)
{
	*member = (uint16_t)(word - 1);
	return word & UINT16_MAX && weft_pool_alive(pool, *member, word >> 16);
}

static bool is_free_slot(struct weft_pool_ape *ape, unsigned int which)
{
	/* acquire: pairs with the release of the card that let it go (card/torus/guests.c) */
	return !atomic_load_explicit(&ape->slot[which].owner, memory_order_acquire);
}

/* Only the card knows what of it is under way, and lets the slot go. */
static bool has_gone(struct weft_pool *pool, struct weft_pool_ape *ape, unsigned int which)
{
	struct weft_pool_ape_slot *slot = &ape->slot[which];
	uint64_t owner = atomic_load_explicit(&slot->owner, memory_order_relaxed);
	uint16_t member;

	return !owner || atomic_load_explicit(&slot->leaves, memory_order_relaxed) == owner ||
	       !weft_pool_ape_lives(pool, owner, &member);
}

static int find_slot(struct weft_pool *pool, struct weft_pool_ape *ape, int which)
{
	unsigned int first = which < 0 ? 0 : (unsigned int)which;
	unsigned int end = which < 0 ? WEFT_POOL_APE_SLOTS : first + 1;

	for (unsigned int i = first; i < end; i++)
		if (is_free_slot(ape, i))
			return (int)i;
	for (unsigned int i = first; i < end; i++)
		if (has_gone(pool, ape, i))
			return -EAGAIN;
	return which < 0 ? -ENOSPC : -EBUSY;
}

/* What the slot's last owner has left is passed over. */
static void occupy(struct weft_pool *pool, struct weft_pool_ape *ape,
		   struct weft_pool_ape_slot *slot)
{
	atomic_store_explicit(&slot->posted,
			      atomic_load_explicit(&slot->taken, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&slot->asked,
			      atomic_load_explicit(&slot->answered, memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&slot->polled,
			      atomic_load_explicit(&slot->events, memory_order_relaxed),
			      memory_order_relaxed);
	slot->base = (uint64_t)(uintptr_t)pool->base;
	slot->life = atomic_load_explicit(&ape->card.life, memory_order_relaxed);
	/* release: pairs with the acquire of the card that finds it (card/torus/guests.c) */
	atomic_store_explicit(&slot->owner, weft_lease_word(pool), memory_order_release);
	atomic_fetch_add_explicit(&ape->card.claims, 1, memory_order_release);
}

int weft_pool_ape_claim(struct weft_pool *pool, struct weft_pool_ape *ape, int which)
{
	/* acquire: pairs with the release of the card that has begun */
	uint64_t card = atomic_load_explicit(&ape->card.word, memory_order_acquire);
	int key = weft_enter(weft_attachment(pool));
	uint16_t member;

	if (key < 0)
		return key;
	if (!weft_pool_ape_lives(pool, card, &member)) {
		which = -ENETDOWN;
	} else {
		which = find_slot(pool, ape, which);
		if (which >= 0)
			occupy(pool, ape, &ape->slot[which]);
	}
	weft_leave(weft_attachment(pool), key);
	return which;
}

int weft_pool_ape_look(const char *path, struct weft_pool_ape_card *card, const char **why)
{
	const struct weft_backing *on = &weft_backing_file;
	struct weft_backed *backed;
	uint64_t bytes;
	bool locked;
	int err = on->look(path, false, weft_signature(), &backed, &bytes, &locked, why);

	if (err)
		return err;
	on->unlock(backed);
	*why = "the pool is too short";
	if (!on->read(backed, card, sizeof(*card), WEFT_OFF_APE))
		err = -EPROTO;
	on->close(backed);
	return err;
}
