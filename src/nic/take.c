/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/errors.h"
#include "nic/limits.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "pool/step.h"
#include "pool/format_queue.h"
#include "pool/completed.h"
#include "pool/sizes.h"
#include "pool/slice.h"
#include "nic/take.h"

static bool map_stretch(struct weft_pool *pool, struct weft_take *take, uint64_t off)
{
	struct weft_pool_srq *at =
		off % WEFT_LINE ? NULL : pool->calls->populate(pool, off, sizeof(*at));
	uint32_t mask = at ? at->size - 1 : UINT32_MAX, stride = at ? at->stride : 0;

	if (mask == UINT32_MAX || mask & (mask + 1) || stride < sizeof(struct weft_pool_slot) ||
	    stride % 8)
		return false;
	if (!pool->calls->populate(pool, off, weft_pool_srq_bytes(mask + 1, stride)))
		return false;
	take->at = at;
	take->claims = weft_pool_claims(at, mask + 1, stride);
	take->mask = mask;
	take->bits = (uint8_t)__builtin_ctz(mask + 1);
	take->stride = stride;
	take->sges = (stride - (uint32_t)sizeof(struct weft_pool_slot)) /
		     (uint32_t)sizeof(struct weft_pool_sge);
	/* a slot is whole lines, and may have room for more than a receive has */
	if (take->sges > WEFT_MAX_SGE)
		take->sges = WEFT_MAX_SGE;
	return true;
}

bool weft_take_map(struct weft_pool *pool, struct weft_take *take, uint16_t owner, uint64_t srq_off,
		   uint64_t wake_off)
{
	if (wake_off % WEFT_LINE || !map_stretch(pool, take, srq_off))
		return false;
	take->head = take->at;
	take->owner = owner;
	take->wake = pool->calls->populate(pool, wake_off, sizeof(*take->wake));
	take->domain = weft_domain(owner, take->at->pd);
	return take->wake;
}

/* Nothing was posted into this stretch after the next was told; so it has nothing any more, or is the last. */
static bool follow_stretch(struct weft_pool *pool, struct weft_take *take, uint64_t position)
{
	/* acquire: pairs with the release in append_stretch (srq.c) */
	uint64_t next_off = atomic_load_explicit(&take->at->next_off, memory_order_acquire);
	uint32_t mask = take->mask, sges = take->sges;

	if (!next_off)
		return false;
	if (position < atomic_load_explicit(&take->at->posted, memory_order_acquire))
		return true;
	return map_stretch(pool, take, next_off) && take->sges == sges && take->mask > mask;
}

static uint32_t lap_of(const struct weft_take *take, uint64_t position)
{
	return (uint32_t)((position >> take->bits) + 1) & ((1u << WEFT_LAP_BITS) - 1);
}

static struct weft_pool_change compare_word(const struct weft_pool *pool,
					    const _Atomic uint64_t *word, uint64_t was, uint64_t to)
{
	return weft_change_of(pool, word, WEFT_CHANGE_COMPARE, was, to);
}

/* Positions before this one are taken or passed over; another taker may have said so already. False: its owner does not
 * answer. */
static bool pass_positions(struct weft_pool *pool, const struct weft_take *take, uint64_t position)
{
	if (weft_must_ask(pool, take->owner)) {
		struct weft_pool_change pass =
			compare_word(pool, &take->at->taken, position, position + 1);

		return !pool->change(pool, NULL, take->owner, &pass, 1);
	}
	/* release: pairs with the acquire in weft_take_first, which then knows of the claims that we know of */
	atomic_compare_exchange_strong_explicit(&take->at->taken, &position, position + 1,
						memory_order_release, memory_order_relaxed);
	return true;
}

static struct weft_pool_slot *slot_at(const struct weft_take *take, uint64_t position)
{
	return (void *)(take->at->slots + (position & take->mask) * take->stride);
}

static _Atomic uint64_t *claim_at(const struct weft_take *take, uint64_t position)
{
	return &take->claims[position & take->mask];
}

static bool slot_is_free(const struct weft_take *take, uint64_t position)
{
	uint32_t lap = lap_of(take, position);

	/* acquire, both: pair with the releases in put_receive (srq.c) and in weft_take_claim */
	return atomic_load_explicit(&slot_at(take, position)->state, memory_order_acquire) ==
		       WEFT_CLAIM(WEFT_CLAIM_FREE, lap) &&
	       weft_claim_lap(
		       atomic_load_explicit(claim_at(take, position), memory_order_acquire)) != lap;
}

struct weft_pool_slot *weft_take_first(struct weft_pool *pool, struct weft_take *take)
{
	for (;;) {
		uint64_t position = atomic_load_explicit(&take->at->taken, memory_order_acquire);

		if (slot_is_free(take, position)) {
			take->position = position;
			return slot_at(take, position);
		}
		/* acquire: pairs with the release in put_receive (srq.c) */
		if (position >= atomic_load_explicit(&take->at->posted, memory_order_acquire)) {
			if (!follow_stretch(pool, take, position))
				return NULL;
		} else if (!slot_is_free(take, position) && !pass_positions(pool, take, position)) {
			return NULL;
		}
	}
}

const struct weft_pool_recv *weft_take_next(const struct weft_take *take)
{
	return slot_is_free(take, take->position + 1) ? &slot_at(take, take->position + 1)->recv
						      : NULL;
}

static uint64_t mine(const struct weft_pool *pool, const struct weft_take *take,
		     enum weft_claim what)
{
	return WEFT_CLAIM(what, lap_of(take, take->position)) |
	       WEFT_CLAIM_WHO(pool->me, pool->incarnation);
}

static int claim_by_owner(struct weft_pool *pool, const struct weft_take *take, uint64_t claim)
{
	struct weft_pool_change change = compare_word(pool, claim_at(take, take->position), claim,
						      mine(pool, take, WEFT_CLAIM_TAKEN));
	int err = pool->change(pool, NULL, take->owner, &change, 1);

	return err ? err : change.was == claim ? 0 : -EAGAIN;
}

int weft_take_claim(struct weft_pool *pool, const struct weft_take *take)
{
	_Atomic uint64_t *at = claim_at(take, take->position);
	uint64_t claim = atomic_load_explicit(at, memory_order_relaxed);
	uint32_t limit;
	int err;

	if (weft_claim_lap(claim) == lap_of(take, take->position))
		return -EAGAIN;
	if (weft_must_ask(pool, take->owner)) {
		err = claim_by_owner(pool, take, claim);
		if (err)
			return err;
	} else {
		/* acquire: what stood in it while it was free stands there until we have completed it; release: pairs
		 * with the acquire of other takers and the owner (claim_of in srq.c) */
		if (!atomic_compare_exchange_strong_explicit(
			    at, &claim, mine(pool, take, WEFT_CLAIM_TAKEN), memory_order_acq_rel,
			    memory_order_relaxed))
			return -EAGAIN;
	}
	WEFT_TURN(take_taken);
	/* the barrier of the arming owner stands in for ours (weft_srq_arm); the owner counts */
	weft_fence_frequent();
	limit = atomic_load_explicit(&take->head->limit, memory_order_relaxed);
	if (__builtin_expect(limit != 0, 0))
		pool->calls->signal(pool, take->owner, WEFT_SIGNAL_EVENT);
	return 0;
}

void weft_take_let_go(struct weft_pool *pool, const struct weft_take *take)
{
	uint64_t claim = mine(pool, take, WEFT_CLAIM_TAKEN);
	/* no member has incarnation 0 */
	uint64_t given_up = WEFT_CLAIM(WEFT_CLAIM_TAKEN, lap_of(take, take->position));

	if (weft_must_ask(pool, take->owner)) {
		struct weft_pool_change change =
			compare_word(pool, claim_at(take, take->position), claim, given_up);

		/* one that does not answer posts it again when we have ended */
		pool->change(pool, NULL, take->owner, &change, 1);
		return;
	}
	/* release: pairs with the acquire in claim_of (srq.c); what we have placed is stored before another taker gets
	 * those buffers */
	atomic_compare_exchange_strong_explicit(claim_at(take, take->position), &claim, given_up,
						memory_order_release, memory_order_relaxed);
}

/* Of the one before it we do not know that it is completed: then that is told first. */
static bool is_out_of_turn(const struct weft_take *take)
{
	uint64_t before = take->position - 1, claim;

	/* acquire: pairs with the release in complete_here; the taker that completed that one has told of those
	 * before it */
	claim = atomic_load_explicit(claim_at(take, before), memory_order_acquire);
	return !take->position || weft_claim_what(claim) != WEFT_CLAIM_DONE ||
	       weft_claim_lap(claim) != lap_of(take, before);
}

/* In the order in which takers that are near do the same. */
static bool complete_by_owner(struct weft_pool *pool, const struct weft_take *take)
{
	const struct weft_pool_slot *slot = slot_at(take, take->position);
	uint32_t lap = lap_of(take, take->position), n = 0;
	uint64_t state = WEFT_CLAIM(WEFT_CLAIM_FREE, lap), done = WEFT_CLAIM(WEFT_CLAIM_DONE, lap);
	struct weft_pool_change change[4];

	if (is_out_of_turn(take))
		change[n++] = weft_change_set_half(pool, &take->head->late, WEFT_LATE);
	change[n++] = compare_word(pool, &slot->state, state, done);
	change[n++] =
		compare_word(pool, claim_at(take, take->position),
			     mine(pool, take, WEFT_CLAIM_TAKEN), mine(pool, take, WEFT_CLAIM_DONE));
	change[n++] = compare_word(pool, &take->at->taken, take->position, take->position + 1);
	return !pool->change(pool, NULL, take->owner, change, n);
}

static void complete_here(struct weft_pool *pool, const struct weft_take *take)
{
	struct weft_pool_slot *slot = slot_at(take, take->position);
	uint32_t lap = lap_of(take, take->position);
	uint64_t state = WEFT_CLAIM(WEFT_CLAIM_FREE, lap), done = WEFT_CLAIM(WEFT_CLAIM_DONE, lap);
	uint64_t claim = mine(pool, take, WEFT_CLAIM_TAKEN);

	if (is_out_of_turn(take)) {
		/* release: pairs with the acquire in oldest_done (srq.c) */
		atomic_store_explicit(&take->head->late, WEFT_LATE, memory_order_release);
		WEFT_TURN(take_late);
	}
	/* release: pairs with the acquire of the owner (next_used); it fails if the owner has given up on us */
	atomic_compare_exchange_strong_explicit(&slot->state, &state, done, memory_order_release,
						memory_order_relaxed);
	WEFT_TURN(take_completed);
	/* release: pairs with the acquire in is_out_of_turn; it fails if the owner has, and another one took it since */
	atomic_compare_exchange_strong_explicit(claim_at(take, take->position), &claim,
						mine(pool, take, WEFT_CLAIM_DONE),
						memory_order_release, memory_order_relaxed);
	pass_positions(pool, take, take->position);
}

bool weft_take_complete(struct weft_nic *nic, const struct weft_take *take)
{
	const struct weft_pool_slot *slot = slot_at(take, take->position);
	bool wakes = slot->taken.status || slot->taken.solicited;

	if (__builtin_expect(take->wake->stamped, 0))
		weft_pool_srq_stamps(take->at, take->mask + 1,
				     take->stride)[take->position & take->mask] =
			weft_nic_stamp_for(nic, take->owner);
	if (!weft_must_ask(nic->pool, take->owner))
		complete_here(nic->pool, take);
	else if (!complete_by_owner(nic->pool, take))
		return false;
	weft_pool_completed(nic->pool, take->wake, take->owner, wakes);
	return true;
}

void weft_take_blame(struct weft_pool *pool, const struct weft_take *take, uint32_t tag)
{
	struct weft_pool_change change = weft_change_set_half(pool, &take->head->fault, tag);

	if (weft_must_ask(pool, take->owner))
		pool->change(pool, NULL, take->owner, &change, 1);
	else
		/* release: pairs with the acquire in weft_datagram_fault */
		atomic_store_explicit(&take->head->fault, tag, memory_order_release);
}
