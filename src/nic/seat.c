/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/place.h"
#include "pool/step.h"
#include "nic/seat.h"

static bool map_bank(struct weft_pool *pool, struct weft_seat *seat, uint64_t off)
{
	struct weft_pool_shared *at =
		off % WEFT_LINE ? NULL : pool->calls->populate(pool, off, sizeof(*at));
	uint32_t mask = at ? at->size - 1 : UINT32_MAX, stride = at ? at->stride : 0;

	if (mask == UINT32_MAX || mask & (mask + 1) || stride < sizeof(struct weft_pool_slot) ||
	    stride % 8)
		return false;
	if (!pool->calls->populate(pool, off, weft_pool_shared_bytes(mask + 1, stride)))
		return false;
	seat->at = at;
	seat->claims = weft_pool_claims(at, mask + 1, stride);
	seat->mask = mask;
	seat->bits = (uint8_t)__builtin_ctz(mask + 1);
	seat->stride = stride;
	seat->sges = (stride - (uint32_t)sizeof(struct weft_pool_slot)) /
		     (uint32_t)sizeof(struct weft_pool_sge);
	/* a slot is whole lines, and may have room for more than a receive has */
	if (seat->sges > WEFT_MAX_SGE)
		seat->sges = WEFT_MAX_SGE;
	return true;
}

bool weft_seat_map(struct weft_pool *pool, struct weft_seat *seat, uint16_t owner,
		   uint64_t shared_off, uint64_t wake_off)
{
	if (wake_off % WEFT_LINE || !map_bank(pool, seat, shared_off))
		return false;
	seat->head = seat->at;
	seat->wake = pool->calls->populate(pool, wake_off, sizeof(*seat->wake));
	seat->holder = weft_holder(owner, seat->at->pd);
	return seat->wake;
}

/* Nothing was posted into this stretch after the next was told; so it has nothing any more, or is the last. */
static bool follow(struct weft_pool *pool, struct weft_seat *seat, uint64_t position)
{
	/* acquire: pairs with the release in append (shared.c) */
	uint64_t next_off = atomic_load_explicit(&seat->at->next_off, memory_order_acquire);
	uint32_t mask = seat->mask, sges = seat->sges;

	if (!next_off)
		return false;
	if (position < atomic_load_explicit(&seat->at->posted, memory_order_acquire))
		return true;
	return map_bank(pool, seat, next_off) && seat->sges == sges && seat->mask > mask;
}

static uint32_t lap_of(const struct weft_seat *seat, uint64_t position)
{
	return (uint32_t)((position >> seat->bits) + 1) & ((1u << WEFT_LAP_BITS) - 1);
}

/* Positions before this one are taken or passed over; somebody may have said so already. */
static void pass(const struct weft_seat *seat, uint64_t position)
{
	/* release: pairs with the acquire in weft_seat_first, which then knows of the claims that we know of */
	atomic_compare_exchange_strong_explicit(&seat->at->taken, &position, position + 1,
						memory_order_release, memory_order_relaxed);
}

static struct weft_pool_slot *slot_at(const struct weft_seat *seat, uint64_t position)
{
	return (void *)(seat->at->slots + (position & seat->mask) * seat->stride);
}

static _Atomic uint64_t *claim_at(const struct weft_seat *seat, uint64_t position)
{
	return &seat->claims[position & seat->mask];
}

static bool is_free(const struct weft_seat *seat, uint64_t position)
{
	uint32_t lap = lap_of(seat, position);

	/* acquire, both: pair with the releases in put (shared.c) and in weft_seat_take */
	return atomic_load_explicit(&slot_at(seat, position)->state, memory_order_acquire) ==
		       WEFT_CLAIM(WEFT_CLAIM_FREE, lap) &&
	       weft_claim_lap(
		       atomic_load_explicit(claim_at(seat, position), memory_order_acquire)) != lap;
}

struct weft_pool_slot *weft_seat_first(struct weft_pool *pool, struct weft_seat *seat)
{
	for (;;) {
		uint64_t position = atomic_load_explicit(&seat->at->taken, memory_order_acquire);

		if (is_free(seat, position)) {
			seat->position = position;
			return slot_at(seat, position);
		}
		/* acquire: pairs with the release in put (shared.c) */
		if (position >= atomic_load_explicit(&seat->at->posted, memory_order_acquire)) {
			if (!follow(pool, seat, position))
				return NULL;
		} else if (!is_free(seat, position)) {
			pass(seat, position);
		}
	}
}

const struct weft_pool_recv *weft_seat_next(const struct weft_seat *seat)
{
	return is_free(seat, seat->position + 1) ? &slot_at(seat, seat->position + 1)->recv : NULL;
}

static uint64_t mine(const struct weft_pool *pool, const struct weft_seat *seat,
		     enum weft_claim what)
{
	return WEFT_CLAIM(what, lap_of(seat, seat->position)) |
	       WEFT_CLAIM_WHO(pool->me, pool->incarnation);
}

bool weft_seat_take(struct weft_pool *pool, const struct weft_seat *seat, uint16_t owner)
{
	_Atomic uint64_t *at = claim_at(seat, seat->position);
	uint64_t claim = atomic_load_explicit(at, memory_order_relaxed);
	uint32_t limit;

	/* acquire: what stood in it while it was free stands there until we have completed it; release: pairs
	 * with the acquire of other takers and the owner (claim_of in shared.c) */
	if (weft_claim_lap(claim) == lap_of(seat, seat->position) ||
	    !atomic_compare_exchange_strong_explicit(at, &claim, mine(pool, seat, WEFT_CLAIM_TAKEN),
						     memory_order_acq_rel, memory_order_relaxed))
		return false;
	WEFT_TURN(seat_taken);
	/* the barrier of the arming owner stands in for ours (weft_shared_arm); the owner counts */
	weft_fence_frequent();
	limit = atomic_load_explicit(&seat->head->limit, memory_order_relaxed);
	if (__builtin_expect(limit != 0, 0))
		pool->calls->signal(pool, owner, WEFT_SIGNAL_EVENT);
	return true;
}

void weft_seat_let_go(struct weft_pool *pool, const struct weft_seat *seat)
{
	uint64_t claim = mine(pool, seat, WEFT_CLAIM_TAKEN);

	/* no member has incarnation 0 */
	atomic_compare_exchange_strong_explicit(
		claim_at(seat, seat->position), &claim,
		WEFT_CLAIM(WEFT_CLAIM_TAKEN, lap_of(seat, seat->position)), memory_order_relaxed,
		memory_order_relaxed);
}

/* Before it is completed: of the one before it we do not know that it is. */
static void tell_late(const struct weft_seat *seat)
{
	uint64_t before = seat->position - 1, claim;

	/* acquire: pairs with the release in weft_seat_complete; the taker that completed that one has told of those
	 * before it */
	claim = atomic_load_explicit(claim_at(seat, before), memory_order_acquire);
	if (seat->position && weft_claim_what(claim) == WEFT_CLAIM_DONE &&
	    weft_claim_lap(claim) == lap_of(seat, before))
		return;
	/* release: pairs with the acquire in oldest_done (shared.c) */
	atomic_store_explicit(&seat->head->late, WEFT_LATE, memory_order_release);
	WEFT_TURN(seat_late);
}

void weft_seat_complete(struct weft_nic *nic, const struct weft_seat *seat, uint16_t owner)
{
	struct weft_pool_slot *slot = slot_at(seat, seat->position);
	bool wakes = slot->taken.status || slot->taken.solicited;
	uint32_t lap = lap_of(seat, seat->position);
	uint64_t state = WEFT_CLAIM(WEFT_CLAIM_FREE, lap), done = WEFT_CLAIM(WEFT_CLAIM_DONE, lap);
	uint64_t claim = mine(nic->pool, seat, WEFT_CLAIM_TAKEN);

	if (__builtin_expect(seat->wake->stamped, 0))
		weft_pool_shared_stamps(seat->at, seat->mask + 1,
					seat->stride)[seat->position & seat->mask] =
			weft_nic_stamp_ns(nic);
	tell_late(seat);
	/* release: pairs with the acquire of the owner (next_used); it fails if the owner has given up on us */
	atomic_compare_exchange_strong_explicit(&slot->state, &state, done, memory_order_release,
						memory_order_relaxed);
	WEFT_TURN(seat_completed);
	/* release: pairs with the acquire in tell_late; it fails if the owner has, and another one took it since */
	atomic_compare_exchange_strong_explicit(claim_at(seat, seat->position), &claim,
						mine(nic->pool, seat, WEFT_CLAIM_DONE),
						memory_order_release, memory_order_relaxed);
	pass(seat, seat->position);
	weft_pool_completed(nic->pool, seat->wake, owner, wakes);
}
