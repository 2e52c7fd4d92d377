/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The doorbells of all members, as a card hears them. */
#include "card/hand.h"
#include "nic/nic.h"
#include "pool/format.h"
#include "pool/format_member.h"

/* Sees what is posted, and says so: the owner rings for what it posts behind it. */
static void see_posted(struct weft_card_hand *hand)
{
	uint64_t posted, resumed;

	do {
		/* acquire: pairs with the release in hand_on (handed.c) */
		posted = atomic_load_explicit(&hand->hand->posted, memory_order_acquire);
		resumed = atomic_load_explicit(&hand->hand->resumed, memory_order_acquire);
		atomic_store_explicit(&hand->hand->seen, posted, memory_order_relaxed);
		/* pairs with the fence in hand_on (handed.c): we see what it has posted, or it rings */
		atomic_thread_fence(memory_order_seq_cst);
	} while (atomic_load_explicit(&hand->hand->posted, memory_order_relaxed) != posted);
	hand->posted = posted;
	if (resumed == hand->resumed)
		return;
	hand->resumed = resumed;
	hand->begun = resumed - 1;
	hand->stopped = false;
}

/* False: its owner is just changing it, or rehomes. */
static bool look_at_index(struct weft_card *card, uint32_t index)
{
	struct weft_card_hand *hand = weft_card_at_index(card, index);
	enum weft_outcome outcome;

	if (!hand)
		return !weft_card_comes_later(card, index);
	outcome = weft_card_try(hand);
	if (outcome != WEFT_DONE)
		return outcome != WEFT_REHOMING;
	see_posted(hand);
	weft_card_leave(hand);
	if (card->rang)
		card->rang(hand);
	return true;
}

/* There were more rings than doorbells. False: not all could be looked at. */
static bool look_at_all(struct weft_card *card, uint16_t member, uint64_t incarnation)
{
	struct weft_pool *pool = card->nic->pool;
	bool all = true;

	for (uint32_t i = 0; i < WEFT_BLOCKS; i++) {
		uint64_t lease =
			atomic_load_explicit(&pool->leases->qp_block[i], memory_order_acquire);

		if (lease != (incarnation << 16 | (member + 1u)))
			continue;
		for (uint32_t k = 0; k < WEFT_QP_BLOCK; k++)
			all &= look_at_index(card, i * WEFT_QP_BLOCK + k);
	}
	return all;
}

/* False: its queue pair could not be looked at yet, and the ring is heard again. */
static bool hear_ring(struct weft_card *card, uint16_t member, const struct weft_pool_member *m)
{
	struct weft_card_heard *heard = &card->heard[member];
	uint32_t index = atomic_load_explicit(&m->card.doorbell[heard->rings % WEFT_DOORBELLS],
					      memory_order_relaxed);
	uint64_t rings;
	bool seen;

	atomic_thread_fence(memory_order_acquire);
	rings = atomic_load_explicit(&m->card.rings, memory_order_relaxed);
	if (rings - heard->rings >= WEFT_DOORBELLS) {
		seen = look_at_all(card, member, heard->incarnation);
	} else {
		seen = look_at_index(card, index & (WEFT_QPS - 1));
		rings = heard->rings + 1;
	}
	if (seen)
		heard->rings = rings;
	return seen;
}

static bool look_at_member(struct weft_card *card, uint16_t member,
			   const struct weft_pool_member *m)
{
	struct weft_card_heard *heard = &card->heard[member];
	/* acquire: pairs with the release in weft_member_join (member.c) */
	uint64_t incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	/* acquire: pairs with the release in ring_doorbell (handed.c) */
	uint64_t rings = atomic_load_explicit(&m->card.rings, memory_order_acquire);
	bool any = false;

	/* one that has come in another's place counts from 0 */
	if (heard->incarnation != incarnation)
		*heard = (struct weft_card_heard){.incarnation = incarnation};
	while (heard->rings < rings && hear_ring(card, member, m))
		any = true;
	return any;
}

bool weft_card_look(struct weft_card *card)
{
	const struct weft_pool_member *m;
	bool rang = false;

	for (uint16_t i = 0; (m = card->nic->pool->calls->member(card->nic->pool, i)); i++)
		rang |= look_at_member(card, i, m);
	return rang;
}
