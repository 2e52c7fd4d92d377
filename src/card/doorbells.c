/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The doorbells of all members, as a card hears them. */
#include "card/hand.h"
#include "nic/busy.h"
#include "nic/nic.h"
#include "pool/format.h"
#include "pool/format_member.h"
#include "pool/outbox.h"
#include "pool/slice.h"

/* Sees what is posted, and says how far it has seen: for what the owner posts behind that it rings. */
static void see_posted(struct weft_card_hand *hand)
{
	uint64_t posted, resumed;

	do {
		/* acquire: pairs with the release in hand_on (handed.c) */
		posted = atomic_load_explicit(&hand->hand->posted, memory_order_acquire);
		resumed = atomic_load_explicit(&hand->hand->resumed, memory_order_acquire);
		atomic_store_explicit(&hand->hand->seen, posted, memory_order_relaxed);
		/* pairs with the fence in hand_on (handed.c): this card sees what was posted, or the owner rings */
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

/* ---- Datagrams ---- */

/* To be called while the line names the member. NULL: it has no outbox for this card there. */
static struct weft_pool_outbox *box_at(struct weft_card *card, const struct weft_pool_member *m,
				       uint64_t incarnation, uint32_t i)
{
	struct weft_pool *pool = card->nic->pool;
	/* acquire: pairs with the release in open_box (transport/handed/datagram.c) */
	uint64_t off = atomic_load_explicit(&m->card.outbox[i], memory_order_acquire);
	struct weft_pool_outbox *box;

	if (!off || off % WEFT_LINE ||
	    atomic_load_explicit(&m->incarnation, memory_order_acquire) != incarnation)
		return NULL;
	box = pool->calls->populate(pool, off, sizeof(*box));
	return box && box->card == pool->me && box->incarnation == pool->incarnation ? box : NULL;
}

/* False: the carrier takes no more just now. */
static bool empty_box(struct weft_card *card, struct weft_pool_outbox *box)
{
	uint64_t taken = atomic_load_explicit(&box->taken, memory_order_relaxed), put;
	bool all = true;

	do {
		/* acquire: pairs with the release in tell_card (transport/handed/datagram.c) */
		put = atomic_load_explicit(&box->put, memory_order_acquire);
		if (put - taken > WEFT_OUTBOX_SLOTS)
			return true;
		while (taken < put &&
		       (all = card->datagram(card, &box->slot[taken % WEFT_OUTBOX_SLOTS])))
			taken++;
		/* release: pairs with the acquire in finds_room (transport/handed/datagram.c): it has been copied */
		atomic_store_explicit(&box->taken, taken, memory_order_release);
		/* pairs with the fence in tell_card (transport/handed/datagram.c) and that in finds_room: we see
		 * what is put, and that it waits, or it sees this */
		atomic_thread_fence(memory_order_seq_cst);
	} while (all && atomic_load_explicit(&box->put, memory_order_relaxed) != taken);
	return all;
}

static bool has_outbox(struct weft_card *card, uint16_t member, const struct weft_pool_member *m)
{
	uint64_t incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	uint64_t next = weft_busy_begin(card->caller, weft_busy_at(member, 0));
	bool any = false;

	for (uint32_t k = 0; k < WEFT_OUTBOXES && incarnation; k++)
		any |= !!box_at(card, m, incarnation, k);
	weft_busy_end(card->caller, next);
	return any;
}

bool weft_card_has_outbox(struct weft_card *card)
{
	struct weft_pool *pool = card->nic->pool;
	const struct weft_pool_member *m;
	bool any = false;

	for (uint16_t i = 0; !any && (i = pool->calls->next(pool, i)) < WEFT_MEMBERS; i++) {
		m = weft_is_near(pool, i) ? pool->calls->member(pool, i) : NULL;
		any = m && has_outbox(card, i, m);
	}
	return any;
}

bool weft_card_take_datagrams(struct weft_card *card, uint16_t member, uint64_t incarnation,
			      uint32_t i)
{
	struct weft_pool *pool = card->nic->pool;
	const struct weft_pool_member *m = pool->calls->member(pool, member);
	uint64_t next = weft_busy_begin(card->caller, weft_busy_at(member, 0));
	struct weft_pool_outbox *box =
		i < WEFT_OUTBOXES && m && card->datagram ? box_at(card, m, incarnation, i) : NULL;
	bool all = !box || empty_box(card, box), tells = false;

	if (box && atomic_load_explicit(&box->waits, memory_order_relaxed)) {
		atomic_store_explicit(&box->waits, 0, memory_order_relaxed);
		tells = true;
	}
	weft_busy_end(card->caller, next);
	if (tells)
		pool->calls->signal(pool, member, WEFT_SIGNAL_WORK);
	return all;
}

/* ---- Rings ---- */

/* There were more rings than doorbells. False: not all could be looked at. */
static bool look_at_all(struct weft_card *card, uint16_t member, uint64_t incarnation)
{
	struct weft_pool *pool = card->nic->pool;
	bool all = true;

	for (uint32_t i = 0; i < WEFT_OUTBOXES; i++)
		all &= weft_card_take_datagrams(card, member, incarnation, i);
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

/* False: its queue pair could not be looked at yet, and the ring is heard again; or another member has come in the place. */
static bool hear_ring(struct weft_card *card, uint16_t member, const struct weft_pool_member *m)
{
	struct weft_card_heard *heard = &card->heard[member];
	uint32_t bell = atomic_load_explicit(&m->card.doorbell[heard->rings % WEFT_DOORBELLS],
					     memory_order_relaxed);
	uint64_t rings;
	bool seen;

	atomic_thread_fence(memory_order_acquire);
	rings = atomic_load_explicit(&m->card.rings, memory_order_relaxed);
	if (rings < heard->rings)
		return false;
	if (rings - heard->rings >= WEFT_DOORBELLS) {
		seen = look_at_all(card, member, heard->incarnation);
	} else {
		seen = bell & WEFT_DOORBELL_OUTBOX
			       ? weft_card_take_datagrams(card, member, heard->incarnation,
							  bell & ~WEFT_DOORBELL_OUTBOX)
			       : look_at_index(card, bell & (WEFT_QPS - 1));
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
	/* acquire: pairs with the release in weft_handed_ring (handed.c) */
	uint64_t rings = atomic_load_explicit(&m->card.rings, memory_order_acquire);
	bool any = false;

	/* one that has come in another's place counts from 0 */
	if (heard->incarnation != incarnation)
		*heard = (struct weft_card_heard){.incarnation = incarnation};
	while (heard->rings < rings && hear_ring(card, member, m))
		any = true;
	card->behind |= heard->rings < rings;
	return any;
}

bool weft_card_look(struct weft_card *card)
{
	const struct weft_pool_member *m;
	struct weft_pool *pool = card->nic->pool;
	bool rang = false;

	card->behind = false;
	for (uint16_t i = 0; (i = pool->calls->next(pool, i)) < WEFT_MEMBERS; i++)
		if (weft_is_near(pool, i) && (m = pool->calls->member(pool, i)))
			rang |= look_at_member(card, i, m);
	return rang;
}
