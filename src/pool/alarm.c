/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The producer that completes into a queue that was armed, and what becomes of the arming. */
#include "pool/pool.h"

#include "pool/step.h"
#include "pool/format_queue.h"
#include "pool/format_ring.h"
#include "pool/sizes.h"
#include "pool/slice.h"

static bool is_armed_for(uint64_t word, bool solicited)
{
	enum weft_claim what = weft_claim_what(word);

	return what == (enum weft_claim)WEFT_ALARM_ANY ||
	       (what == (enum weft_claim)WEFT_ALARM_SOLICITED && solicited);
}

bool weft_pool_claim(struct weft_pool *pool, struct weft_pool_alarm *alarm, bool solicited,
		     bool taken)
{
	/* acquire, as below: pairs with the release in change (nic/arm.c), behind which the alarm names its bell */
	uint64_t word = atomic_load_explicit(&alarm->word, memory_order_acquire), claim;

	while (is_armed_for(word, solicited)) {
		claim = taken ? WEFT_CLAIM(WEFT_ALARM_OFF, weft_claim_lap(word))
			      : WEFT_CLAIM(WEFT_ALARM_CLAIMED, weft_claim_lap(word)) |
					WEFT_CLAIM_WHO(pool->me, pool->incarnation);
		/* release: pairs with the acquire of the owner that takes it (weft_cq_take_event) */
		if (atomic_compare_exchange_weak_explicit(
			    &alarm->word, &word, claim, memory_order_acq_rel, memory_order_acquire))
			return true;
	}
	return false;
}

/* It has an alarm from its first arming on. Either we see here that it is armed, or the poll that follows the
 * arming sees what we have completed, as each fences before it looks. */
__attribute__((noinline)) void weft_pool_alarm(struct weft_pool *pool, uint16_t owner,
					       uint64_t alarm_off, bool solicited)
{
	struct weft_pool_alarm *alarm;

	weft_pool_fence();
	alarm = alarm_off % WEFT_LINE ? NULL : weft_pool_window(pool, alarm_off, sizeof(*alarm));
	WEFT_STEP(alarm_seen);
	/* then its helper looks what has come; a fence of ours would not order its barrier */
	if (alarm && weft_must_ask(pool, owner)) {
		if (is_armed_for(atomic_load_explicit(&alarm->word, memory_order_relaxed),
				 solicited))
			weft_pool_signal(pool, owner, WEFT_SIGNAL_EVENT);
		return;
	}
	if (!alarm || !weft_pool_claim(pool, alarm, solicited, false))
		return;
	WEFT_STEP(alarm_claimed);
	if (alarm->bell_off && weft_pool_wake(pool, owner, alarm->bell_off))
		weft_pool_signal(pool, owner, WEFT_SIGNAL_EVENT);
}
