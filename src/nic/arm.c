/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Arming: one event for each. The word of the alarm says whether the queue is armed, and for what; the producer that
 * completes ends that by compare-and-swap, and wakes the owner. So there is one waker an arming, and its event is
 * made where the owner takes it from the word: when its channel is read, when it arms anew, or by its helper.
 *
 * From the first arming on all that complete into the queue fence before they look at the word (alarm_off of the
 * ring tells them): arming fences, too, and asks no barrier of others.
 */
#include "nic/complete.h"
#include "nic/cq.h"
#include "nic/nic.h"
#include "nic/returns.h"
#include "nic/source.h"
#include "pool/step.h"
#include "pool/format_member.h"
#include "pool/format_queue.h"
#include "pool/format_ring.h"

static bool is_claimed(uint64_t word)
{
	return weft_claim_what(word) == (enum weft_claim)WEFT_ALARM_CLAIMED;
}

static uint64_t read_word(const struct weft_pool_alarm *alarm)
{
	/* acquire: pairs with the release in weft_pool_claim */
	return atomic_load_explicit(&alarm->word, memory_order_acquire);
}

static bool change(struct weft_pool_alarm *alarm, uint64_t word, enum weft_alarm what,
		   uint32_t number)
{
	return atomic_compare_exchange_strong_explicit(
		&alarm->word, &word, WEFT_CLAIM(what, number & ((1u << WEFT_LAP_BITS) - 1)),
		memory_order_acq_rel, memory_order_relaxed);
}

bool weft_cq_take_event(struct weft_cq *cq)
{
	/* acquire: pairs with the release in make_alarm */
	struct weft_pool_alarm *alarm = atomic_load_explicit(&cq->alarm, memory_order_acquire);
	uint64_t word = alarm ? read_word(alarm) : 0;

	/* only its owner's threads change what was claimed */
	return is_claimed(word) && change(alarm, word, WEFT_ALARM_OFF, weft_claim_lap(word));
}

void weft_cq_fire(struct weft_cq *cq)
{
	cq->armed = 0;
	if (!cq->nic->pool->calls->claim(cq->nic->pool, cq->alarm, true, true))
		return;
	WEFT_STEP(cq_fired);
	cq->nic->api->completion(cq);
}

/* ---- Arming ---- */

static int make_alarm(struct weft_cq *cq)
{
	struct weft_pool *pool = cq->nic->pool;
	struct weft_pool_alarm *alarm;
	int err = pool->calls->alloc(pool, sizeof(*alarm), &cq->alarm_off);

	if (err)
		return err;
	alarm = (void *)(pool->base + cq->alarm_off);
	alarm->bell_off = cq->bell_off;
	cq->alarm_made = weft_pool_age(pool);
	/* release: pairs with the acquire in weft_cq_take_event */
	atomic_store_explicit(&cq->alarm, alarm, memory_order_release);
	return 0;
}

static void show_to(const struct weft_cq *cq, const struct weft_cq_ring *r)
{
	for (; r; r = r->next)
		atomic_store_explicit(&r->ring->alarm_off, cq->alarm_off, memory_order_relaxed);
}

/* Producers fence from now on; rings that are made later name the alarm from the beginning. */
static void show_alarm(struct weft_cq *cq)
{
	show_to(cq, weft_cq_first_ring(cq));
	show_to(cq, weft_returns_first(cq));
	if (cq->wake)
		atomic_store_explicit(&cq->wake->alarm_off, cq->alarm_off, memory_order_relaxed);
}

static void list_armed(struct weft_cq *cq)
{
	weft_lock(cq->nic, &cq->nic->lock, 0);
	cq->armed_next = cq->nic->armed;
	atomic_store_explicit(&cq->nic->armed, cq, memory_order_relaxed);
	weft_unlock(&cq->nic->lock, false);
	weft_nic_kick(cq->nic);
}

bool weft_cq_has_news(const struct weft_cq *cq, const struct weft_cq_ring *r)
{
	uint64_t position = weft_cq_consumed(r);
	uint64_t armed_at = atomic_load_explicit(&r->armed_at, memory_order_relaxed);
	const struct weft_pool_cqe *cqe;

	for (position = position > armed_at ? position : armed_at;
	     (cqe = weft_cq_entry_at(r, position)); position++)
		if (weft_cq_wakes(cq, cqe->status, cqe->solicited))
			return true;
	return false;
}

void weft_cq_look(struct weft_cq *cq)
{
	for (struct weft_cq_ring *r = weft_cq_first_ring(cq); cq->armed && r; r = r->next)
		if (weft_cq_has_news(cq, r))
			weft_cq_fire(cq);
	if (cq->armed && weft_source_look(cq, false))
		weft_cq_fire(cq);
}

void weft_cq_pass_by(struct weft_cq_ring *r)
{
	uint64_t position = weft_cq_consumed(r);

	while (weft_cq_entry_at(r, position))
		position++;
	atomic_store_explicit(&r->armed_at, position, memory_order_relaxed);
}

/* Completions that stand in the queue now do not end the arming. */
static void pass_by(struct weft_cq *cq)
{
	for (struct weft_cq_ring *r = weft_cq_first_ring(cq); r; r = r->next)
		weft_cq_pass_by(r);
	weft_source_look(cq, true);
}

static void set_word(struct weft_cq *cq, bool solicited_only)
{
	enum weft_alarm what;
	uint64_t word;

	do {
		if (weft_cq_take_event(cq)) /* the event of the arming before */
			cq->nic->api->completion(cq);
		word = read_word(cq->alarm);
		/* arming for any completion is not weakened by arming for solicited ones (11.4.2.2) */
		what = solicited_only && weft_claim_what(word) != (enum weft_claim)WEFT_ALARM_ANY
			       ? WEFT_ALARM_SOLICITED
			       : WEFT_ALARM_ANY;
	} while (is_claimed(word) || !change(cq->alarm, word, what, weft_claim_lap(word) + 1));
	cq->armed = what == WEFT_ALARM_ANY ? 1 : 2;
}

int weft_cq_arm(struct weft_cq *cq, bool solicited_only, uint32_t thread)
{
	bool own = weft_lock(cq->nic, &cq->lock, thread), first = !cq->alarm;
	int err = first ? make_alarm(cq) : 0;

	if (err) {
		weft_unlock(&cq->lock, own);
		return err;
	}
	weft_cq_look(cq); /* what ends the arming before may stand in the queue unseen */
	pass_by(cq);
	set_word(cq, solicited_only);
	if (first)
		show_alarm(cq);
	weft_unlock(&cq->lock, own);
	WEFT_STEP(cq_armed);
	/* a producer that completes after this sees the arming, or the caller's next poll sees it */
	if (!first) {
		atomic_thread_fence(memory_order_seq_cst);
		return 0;
	}
	list_armed(cq);
	cq->nic->pool->calls->barrier(cq->nic->pool);
	return 0;
}

void weft_cq_disarm(struct weft_cq *cq)
{
	struct weft_pool *pool = cq->nic->pool;
	struct weft_cq *at;

	if (!cq->alarm)
		return;
	weft_lock(cq->nic, &cq->nic->lock, 0);
	at = cq->nic->armed;
	if (at == cq)
		atomic_store_explicit(&cq->nic->armed, cq->armed_next, memory_order_relaxed);
	else
		for (; at; at = at->armed_next)
			if (at->armed_next == cq)
				at->armed_next = cq->armed_next;
	weft_unlock(&cq->nic->lock, false);
	/* an executor that has stood still since then may still touch it */
	if (weft_pool_age(pool) == cq->alarm_made)
		pool->calls->free(pool, cq->alarm_off, sizeof(struct weft_pool_alarm));
	else
		pool->calls->retire(pool, WEFT_RETIRE_PIECE, cq->alarm_off,
				    sizeof(struct weft_pool_alarm));
}

/* ---- The helper ---- */

void weft_nic_events(struct weft_nic *nic)
{
	/* the list's lock keeps the queues from being destroyed */
	weft_lock(nic, &nic->lock, 0);
	for (struct weft_cq *cq = nic->armed; cq; cq = cq->armed_next)
		if (weft_cq_take_event(cq))
			nic->api->completion(cq);
	weft_unlock(&nic->lock, false);
}

static bool lives(struct weft_pool *pool, uint64_t claim)
{
	const struct weft_pool_member *m = pool->calls->member(pool, weft_claim_member(claim));
	uint64_t incarnation = m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;

	return (incarnation & ((1u << WEFT_INCARNATION_BITS) - 1)) ==
		       weft_claim_incarnation(claim) &&
	       pool->calls->alive(pool, weft_claim_member(claim), incarnation);
}

/* The producer that claims an arming tells the channel at once, unless it dies or stands still. False: it may yet
 * do so. */
static bool end_claim(struct weft_cq *cq, uint64_t word)
{
	bool alive = lives(cq->nic->pool, word);

	if (alive && word != cq->suspect) {
		cq->suspect = word;
		return false;
	}
	if (weft_cq_take_event(cq))
		cq->nic->api->overdue(cq, alive);
	return true;
}

/* Asked without the queue's lock: whether that is worth taking. */
static bool may_have_news(const struct weft_cq *cq)
{
	for (struct weft_cq_ring *r = weft_cq_first_ring(cq); r; r = r->next) {
		uint64_t position = weft_cq_consumed(r);
		uint64_t armed_at = atomic_load_explicit(&r->armed_at, memory_order_relaxed);

		if (weft_cq_entry_at(r, position > armed_at ? position : armed_at))
			return true;
	}
	return atomic_load_explicit(&cq->sources, memory_order_relaxed);
}

/* False: it could not look yet. */
static bool look_at(struct weft_cq *cq)
{
	uint64_t word = read_word(cq->alarm);

	if (is_claimed(word))
		return end_claim(cq, word);
	if (cq->nic->api->unheard(cq))
		return false;
	if (!weft_claim_what(word) || !may_have_news(cq))
		return true;
	/* the lock's owner may wait for the list */
	if (!weft_trylock(cq->nic, &cq->lock))
		return false;
	weft_cq_look(cq);
	weft_unlock(&cq->lock, false);
	return true;
}

bool weft_nic_look(struct weft_nic *nic)
{
	bool again = false;

	weft_lock(nic, &nic->lock, 0);
	nic->looks++;
	for (struct weft_cq *cq = nic->armed; cq; cq = cq->armed_next)
		again |= !look_at(cq);
	weft_unlock(&nic->lock, false);
	return again;
}
