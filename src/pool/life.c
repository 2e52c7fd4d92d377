/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which members live, and giving back what a member held, whether it leaves or has died. Every step may
 * be repeated: a member that dies in the middle leaves the rest to the next one.
 */
#include <errno.h>
#include <string.h>

#include "pool/host.h"
#include "pool/internal.h"
#include "pool/step.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/sizes.h"

#define LEAVE_NS   1000000000ll
#define RECOVER_NS 1000000ll  /* then it is left to the next look */
#define ASK_NS	   50000000ll /* the same, where other hosts are asked */
#define LOOK_MOST  128u	      /* members tested at once */

bool weft_pool_alive(struct weft_pool *pool, uint16_t member, uint64_t incarnation)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_member *m = weft_pool_member(pool, member);

	if (!m || atomic_load_explicit(&m->incarnation, memory_order_acquire) != incarnation)
		return false;
	if (member == pool->me)
		return true;
	/* its own host buries it, which may have to wait for another's answer */
	if (a->hosts && !weft_is_near(pool, member))
		return !atomic_load_explicit(&m->leaves, memory_order_relaxed) &&
		       !weft_host_is_silent(a, weft_host_of(pool, member));
	return a->on->lives(a->backed, member);
}

/* ---- Giving back ---- */

/* The second half of moving a member's counters to the departed: all or nothing, however often. */
static void finish_merge(struct weft_pool *pool)
{
	struct weft_pool_home *home = pool->home;
	uint64_t merging = atomic_load_explicit(&home->merging, memory_order_relaxed);
	struct weft_pool_near *near;

	if (!merging)
		return;
	WEFT_STEP(life_merging);
	home->departed = home->merged;
	WEFT_STEP(life_departed);
	near = merging <= WEFT_MEMBERS ? weft_pool_near(pool, (uint16_t)(merging - 1)) : NULL;
	for (uint32_t i = 0; near && i < WEFT_MEMBER_LINES; i++)
		memset(&near->line[i].counters, 0, sizeof(near->line[i].counters));
	WEFT_STEP(life_counters_cleared);
	atomic_store_explicit(&home->merging, 0, memory_order_release);
}

static void merge_counters(struct weft_pool *pool, uint16_t member,
			   const struct weft_pool_near *near)
{
	struct weft_pool_home *home = pool->home;

	finish_merge(pool);
	home->merged = home->departed;
	for (uint32_t i = 0; i < WEFT_MEMBER_LINES; i++)
		weft_counters_add(&home->merged, &near->line[i].counters);
	WEFT_STEP(life_merged);
	atomic_store_explicit(&home->merging, member + 1ull, memory_order_release);
	finish_merge(pool);
}

/* The file lock is held. The member's number is free after this. */
static void forget_member(struct weft_pool *pool, uint16_t member)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);
	struct weft_pool_near *near = weft_pool_near(pool, member);

	/* a damaged file knows of fewer members than there are */
	if (!m || !near)
		return;
	merge_counters(pool, member, near);
	for (uint32_t i = 0; i < WEFT_MEMBER_LINES; i++) {
		atomic_store_explicit(&near->line[i].busy, 0, memory_order_relaxed);
		atomic_store_explicit(&near->also[i], 0, memory_order_relaxed);
	}
	/* it may have died while it rehomed */
	atomic_store_explicit(
		&m->rehomings,
		weft_rehoming_next(atomic_load_explicit(&m->rehomings, memory_order_relaxed),
				   WEFT_REHOMING_NONE),
		memory_order_relaxed);
	atomic_store_explicit(&m->lines, 0, memory_order_relaxed);
	WEFT_STEP(life_forgetting);
	atomic_store_explicit(&m->incarnation, 0, memory_order_release);
	WEFT_STEP(life_forgotten);
}

/* From now on visitors find nothing in its segments. */
static void end_visits(struct weft_pool_member *m)
{
	atomic_store_explicit(&m->mailbox_off, 0, memory_order_relaxed);
	m->ports = 0;
	atomic_store_explicit(&m->card.reach, 0, memory_order_relaxed);
	m->card.bell.ino = 0;
	atomic_store_explicit(&m->card.bell.fd, -1, memory_order_relaxed);
	for (uint32_t i = 0; i < WEFT_OUTBOXES; i++)
		atomic_store_explicit(&m->card.outbox[i], 0, memory_order_relaxed);
	atomic_store_explicit(&m->leaves, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < WEFT_MEMBER_LINES + WEFT_MEMBER_LATE; i++)
		atomic_fetch_and_explicit(&m->ask[i].seq, ~1ull, memory_order_relaxed);
}

/* Rights end first, then executors there finish, then the memory goes. False: an executor stands still in the
 * middle, and no memory has gone. */
static bool give_leases_back(struct weft_attachment *a, uint64_t word, uint64_t patience_ns)
{
	uint16_t member = (uint16_t)((word & 0xffff) - 1);
	struct weft_pool_member *m = weft_pool_member(&a->pool, member);
	bool known = m && atomic_load_explicit(&m->incarnation, memory_order_relaxed) == word >> 16;

	WEFT_STEP(life_giving_back);
	if (known)
		end_visits(m);
	weft_lease_end_rights(&a->pool, word,
			      known && !atomic_load_explicit(&m->exits, memory_order_relaxed));
	WEFT_STEP(life_rights_ended);
	weft_pool_barrier(&a->pool);
	if (weft_bell_wait_idle(&a->pool, member, patience_ns) ||
	    weft_quiesce_ask(a, member, 0, patience_ns > ASK_NS ? patience_ns : ASK_NS, false))
		return false;
	WEFT_STEP(life_idle);
	return !weft_lease_give_back(a, word);
}

void weft_pool_exits(struct weft_pool *pool)
{
	atomic_store_explicit(&pool->self->exits, 1, memory_order_relaxed);
}

void weft_life_leave(struct weft_attachment *a)
{
	int key;

	weft_pool_exits(&a->pool);
	/* what is left now is recovered by another member, as if we had died */
	if (!give_leases_back(a, weft_lease_word(&a->pool), LEAVE_NS))
		return;
	key = weft_enter(a);
	if (key < 0)
		return;
	WEFT_STEP(life_leaving);
	forget_member(&a->pool, a->pool.me);
	weft_leave(a, key);
}

/* ---- Recovering ---- */

static bool is_dead(struct weft_attachment *a, uint16_t member, uint64_t *incarnation)
{
	const struct weft_pool_member *m = weft_pool_member(&a->pool, member);

	if (!m || member == a->pool.me)
		return false;
	*incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	return *incarnation && !weft_pool_alive(&a->pool, member, *incarnation);
}

/*
 * The claim of a dead member is a test, too: it fails while the member lives or
 * another recoverer is at work, and comes free again if we die in the middle.
 */
static int recover_one(struct weft_attachment *a, uint16_t member, bool wait)
{
	const struct weft_pool_member *m = weft_pool_member(&a->pool, member);
	uint64_t incarnation;
	int key, err = -EAGAIN;

	if (!is_dead(a, member, &incarnation))
		return -ENOENT;
	key = a->on->claim(a->backed, member);
	if (key < 0)
		return key;
	if (atomic_load_explicit(&m->incarnation, memory_order_acquire) == incarnation &&
	    give_leases_back(a, incarnation << 16 | (member + 1u), RECOVER_NS))
		err = a->on->enter_too(a->backed, key, wait);
	if (!err) {
		WEFT_STEP(life_recovering);
		forget_member(&a->pool, member);
	}
	weft_leave(a, key);
	return err;
}

unsigned int weft_pool_watch(struct weft_pool *pool)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_slice used = weft_members_of(pool, pool->host);
	uint32_t count = used.end - used.first, most = count < LOOK_MOST ? count : LOOK_MOST;
	unsigned int recovered = 0;

	weft_pool_sweep(pool);
	weft_wake_sweep(pool);
	for (uint32_t i = 0; i < most; i++) {
		uint32_t member = atomic_fetch_add_explicit(&a->watched, 1, memory_order_relaxed);

		recovered += !recover_one(a, (uint16_t)(used.first + member % count), false);
	}
	return recovered;
}

/* Leases of no member: only damage to the file makes them. The file lock is held. */
static void recover_orphans(struct weft_attachment *a)
{
	struct weft_pool *pool = &a->pool;
	uint64_t word;

	for (uint32_t at = 0; (word = weft_lease_next(pool, &at));) {
		uint16_t member = (uint16_t)((word & 0xffff) - 1);
		const struct weft_pool_member *m = weft_pool_member(pool, member);

		/* what is in the slice of another host is that one's to look at */
		if (member < weft_members_room(pool) && !weft_is_near(pool, member))
			continue;
		if (!m || atomic_load_explicit(&m->incarnation, memory_order_acquire) != word >> 16)
			give_leases_back(a, word, RECOVER_NS);
	}
}

unsigned int weft_pool_recover(struct weft_pool *pool)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_slice used = weft_members_of(pool, pool->host);
	unsigned int recovered = 0;
	int key, err = 0;

	for (uint32_t i = used.first; err != -ETIMEDOUT && i < used.end; i++) {
		err = recover_one(a, (uint16_t)i, true);
		recovered += !err;
	}
	key = err == -ETIMEDOUT ? err : weft_enter(a);
	if (key >= 0) {
		recover_orphans(a);
		weft_leave(a, key);
	}
	return recovered;
}
