/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/place.h"
#include "transport/direct/seat.h"

static bool map_bank(struct weft_pool *pool, struct weft_seat *seat, uint64_t off)
{
	struct weft_pool_shared *at = off % WEFT_LINE ? NULL : weft_pool_populate(pool, off, sizeof(*at));
	uint32_t mask = at ? at->size - 1 : UINT32_MAX, stride = at ? at->stride : 0;
	uint64_t slots;

	if (mask == UINT32_MAX || mask & (mask + 1) || stride < sizeof(struct weft_pool_slot) ||
	    stride % 8)
		return false;
	slots = (uint64_t)stride * ((uint64_t)mask + 1);
	if (!weft_pool_populate(pool, off, sizeof(*at) + slots))
		return false;
	seat->at = at;
	seat->mask = mask;
	seat->bits = (uint8_t)__builtin_popcount(mask);
	seat->stride = stride;
	seat->sges = (stride - (uint32_t)sizeof(struct weft_pool_slot)) /
		     (uint32_t)sizeof(struct weft_pool_sge);
	return true;
}

bool weft_seat_map(struct weft_pool *pool, struct weft_seat *seat, uint16_t owner,
		   uint64_t shared_off, uint64_t wake_off)
{
	if (wake_off % WEFT_LINE || !map_bank(pool, seat, shared_off))
		return false;
	seat->head = seat->at;
	seat->wake = weft_pool_populate(pool, wake_off, sizeof(*seat->wake));
	seat->holder = weft_holder(owner, seat->at->pd);
	return seat->wake && seat->sges <= WEFT_MAX_SGE;
}

/* Nothing was posted into this bank after the next was told; so it has nothing any more, or is the last. */
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
	atomic_compare_exchange_strong_explicit(&seat->at->taken, &position, position + 1,
						memory_order_relaxed, memory_order_relaxed);
}

struct weft_pool_slot *weft_seat_first(struct weft_pool *pool, struct weft_seat *seat, uint64_t *claim)
{
	for (;;) {
		uint64_t position = atomic_load_explicit(&seat->at->taken, memory_order_relaxed);
		struct weft_pool_slot *slot;

		/* acquire: pairs with the release in put (shared.c) */
		if (position >= atomic_load_explicit(&seat->at->posted, memory_order_acquire)) {
			if (!follow(pool, seat, position))
				return NULL;
			continue;
		}
		slot = (void *)(seat->at->slots + (position & seat->mask) * seat->stride);
		*claim = atomic_load_explicit(&slot->claim, memory_order_acquire);
		if (*claim == WEFT_CLAIM(WEFT_CLAIM_FREE, lap_of(seat, position)))
			return slot;
		pass(seat, position);
	}
}

static uint64_t mine(const struct weft_pool *pool, uint32_t lap, enum weft_claim what)
{
	return WEFT_CLAIM(what, lap) | WEFT_CLAIM_WHO(pool->me, pool->incarnation);
}

bool weft_seat_take(struct weft_pool *pool, const struct weft_seat *seat, uint16_t owner,
		    struct weft_pool_slot *slot, uint64_t claim)
{
	uint64_t taken = mine(pool, weft_claim_lap(claim), WEFT_CLAIM_TAKEN);
	uint32_t limit;

	/* acquire: what stood in it while it was free stands there until we have completed it */
	if (!atomic_compare_exchange_strong_explicit(&slot->claim, &claim, taken,
						     memory_order_acquire, memory_order_relaxed))
		return false;
	/* the barrier of who arms stands in for ours (weft_shared_arm); the owner counts */
	atomic_signal_fence(memory_order_seq_cst);
	limit = atomic_load_explicit(&seat->head->limit, memory_order_relaxed);
	if (__builtin_expect(limit != 0, 0))
		weft_pool_ring(pool, owner, WEFT_RING_EVENT);
	return true;
}

void weft_seat_let_go(struct weft_pool *pool, struct weft_pool_slot *slot)
{
	uint32_t lap = weft_claim_lap(atomic_load_explicit(&slot->claim, memory_order_relaxed));
	uint64_t claim = mine(pool, lap, WEFT_CLAIM_TAKEN);

	/* no member has incarnation 0 */
	atomic_compare_exchange_strong_explicit(&slot->claim, &claim,
						WEFT_CLAIM(WEFT_CLAIM_TAKEN, lap),
						memory_order_relaxed, memory_order_relaxed);
}

void weft_seat_complete(struct weft_nic *nic, const struct weft_seat *seat,
			struct weft_pool_slot *slot, uint16_t owner)
{
	uint64_t claim = atomic_load_explicit(&slot->claim, memory_order_relaxed);
	uint32_t lap = weft_claim_lap(claim), armed;

	if (__builtin_expect(seat->wake->stamped, 0))
		slot->taken.stamp_ns = nic->env->clock_ns();
	claim = mine(nic->pool, lap, WEFT_CLAIM_TAKEN);
	/* release: pairs with the acquire of the owner (next_claimed); it fails if he has given up on us */
	atomic_compare_exchange_strong_explicit(&slot->claim, &claim,
						mine(nic->pool, lap, WEFT_CLAIM_DONE),
						memory_order_release, memory_order_relaxed);
	/* the barrier of who arms stands in for ours (weft_cq_arm) */
	atomic_signal_fence(memory_order_seq_cst);
	armed = atomic_load_explicit(&seat->wake->armed, memory_order_relaxed);
	if (armed == 1 || (armed && (slot->taken.status || slot->taken.solicited)))
		weft_pool_ring(nic->pool, owner, WEFT_RING_EVENT);
}
