/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "mailbox/mailbox.h"

#include <errno.h>
#include <string.h>

#include "pool/internal.h"
#include "pool/step.h"
#include "pool/format_mailbox.h"
#include "pool/format_member.h"
#include "pool/sizes.h"

/* When all slots wait for addressees that do not look, as they stand still, slots are overwritten after so
 * long. */
#define PATIENCE_NS 3000000000ull

static int make_mailbox(struct weft_attachment *a)
{
	uint64_t off;
	int err = weft_pool_alloc(&a->pool, sizeof(struct weft_pool_mailbox), &off);

	if (err)
		return err;
	a->mailbox.at = weft_pool_window(&a->pool, off, sizeof(struct weft_pool_mailbox));
	atomic_store_explicit(&a->mailbox.at->posted, a->pool.incarnation << 32,
			      memory_order_relaxed);
	WEFT_STEP(mailbox_made);
	/* release: pairs with the acquire in mailbox_of */
	atomic_store_explicit(&a->pool.self->mailbox_off, off, memory_order_release);
	return 0;
}

static uint64_t incarnation_of(const struct weft_pool_member *m)
{
	return m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;
}

struct weft_address weft_mailbox_address(struct weft_pool *pool, uint16_t member)
{
	return (struct weft_address){.member = member,
				     .incarnation = incarnation_of(weft_pool_member(pool, member))};
}

/* Whether what stands in the slot still waits for its addressee. */
static bool waits(struct weft_pool *pool, const struct weft_pool_mailbox_slot *slot)
{
	uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);
	const struct weft_pool_member *m = seq ? weft_pool_member(pool, slot->member) : NULL;

	/* acquire: it has copied what it has taken (weft_mailbox_take) */
	return m && incarnation_of(m) == slot->incarnation &&
	       atomic_load_explicit(&m->taken[pool->me], memory_order_acquire) < seq;
}

/* The next number whose slot is free: those of addressees that do not look are passed over. */
static int next_number(struct weft_pool *pool, uint64_t now_ns, uint64_t *n)
{
	struct weft_attachment *a = weft_attachment(pool);

	for (uint32_t i = 0; i < WEFT_MAILBOX_SLOTS; i++, ++*n) {
		uint32_t at = *n % WEFT_MAILBOX_SLOTS;

		if (!waits(pool, &a->mailbox.at->slot[at]) ||
		    now_ns >= a->mailbox.posted_ns[at] + PATIENCE_NS)
			return 0;
	}
	return -EAGAIN;
}

int weft_mailbox_post(struct weft_pool *pool, struct weft_address to,
		      const uint8_t bytes[WEFT_DATAGRAM_BYTES], uint64_t now_ns)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_mailbox_slot *slot;
	uint64_t n;
	int err;

	if (incarnation_of(weft_pool_member(pool, to.member)) != to.incarnation)
		return -ESRCH;
	if (!a->mailbox.at) {
		err = make_mailbox(a);
		if (err)
			return err;
	}
	n = atomic_load_explicit(&a->mailbox.at->posted, memory_order_relaxed);
	err = next_number(pool, now_ns, &n);
	if (err)
		return err;
	slot = &a->mailbox.at->slot[n % WEFT_MAILBOX_SLOTS];
	atomic_store_explicit(&slot->seq, 0, memory_order_relaxed);
	/* pairs with the acquire fence in copy: a reader of new bytes sees that they are new */
	atomic_thread_fence(memory_order_release);
	WEFT_STEP(mailbox_slot_opened);
	slot->member = to.member;
	slot->incarnation = to.incarnation;
	memcpy(slot->far, to.far, sizeof(slot->far));
	memcpy(slot->near, to.near, sizeof(slot->near));
	memcpy(slot->bytes, bytes, WEFT_DATAGRAM_BYTES);
	WEFT_STEP(mailbox_slot_written);
	/* release: pairs with the acquire in copy */
	atomic_store_explicit(&slot->seq, n + 1, memory_order_release);
	WEFT_STEP(mailbox_slot_closed);
	/* release: pairs with the acquire in look_into */
	atomic_store_explicit(&a->mailbox.at->posted, n + 1, memory_order_release);
	a->mailbox.posted_ns[n % WEFT_MAILBOX_SLOTS] = now_ns;
	WEFT_STEP(mailbox_posted);
	weft_pool_signal(pool, to.member, WEFT_SIGNAL_MAILBOX);
	return 0;
}

static struct weft_pool_mailbox *mailbox_of(struct weft_pool *pool,
					    const struct weft_pool_member *m)
{
	uint64_t off = atomic_load_explicit(&m->mailbox_off, memory_order_acquire);

	return off ? weft_pool_window(pool, off, sizeof(struct weft_pool_mailbox)) : NULL;
}

static bool is_for_us(const struct weft_pool *pool, const struct weft_pool_mailbox_slot *slot)
{
	return slot->member == pool->me && slot->incarnation == pool->incarnation;
}

/* Number n of that mailbox, if it is for us and has not been overwritten. */
static bool copy(struct weft_pool *pool, const struct weft_pool_mailbox *mailbox, uint64_t n,
		 struct weft_address *from, uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	const struct weft_pool_mailbox_slot *slot = &mailbox->slot[n % WEFT_MAILBOX_SLOTS];

	if (atomic_load_explicit(&slot->seq, memory_order_acquire) != n + 1 ||
	    !is_for_us(pool, slot))
		return false;
	memcpy(from->far, slot->far, sizeof(slot->far));
	memcpy(from->near, slot->near, sizeof(slot->near));
	memcpy(bytes, slot->bytes, WEFT_DATAGRAM_BYTES);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot->seq, memory_order_relaxed) == n + 1;
}

/* The first number from n on that a slot may hold for us; the poster passes over those that wait,
 * so that there may be some from long ago. */
static uint64_t oldest(const struct weft_pool *pool, const struct weft_pool_mailbox *mailbox,
		       uint64_t n, uint64_t posted)
{
	uint64_t found = posted;

	if (posted - n <= WEFT_MAILBOX_SLOTS)
		return n;
	for (uint32_t i = 0; i < WEFT_MAILBOX_SLOTS; i++) {
		const struct weft_pool_mailbox_slot *slot = &mailbox->slot[i];
		/* acquire: pairs with the release in weft_mailbox_post */
		uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);

		if (seq > n && seq <= found && is_for_us(pool, slot))
			found = seq - 1;
	}
	return found;
}

static bool look_into(struct weft_pool *pool, const struct weft_pool_mailbox *mailbox,
		      struct weft_address *from, uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	_Atomic uint64_t *taken = &pool->self->taken[from->member];
	uint64_t incarnation = from->incarnation;
	uint64_t n = atomic_load_explicit(taken, memory_order_relaxed), posted;
	bool found = false;

	posted = atomic_load_explicit(&mailbox->posted, memory_order_acquire);
	if (n < incarnation << 32 || n > posted)
		n = incarnation << 32;
	while (!found && n < posted) {
		n = oldest(pool, mailbox, n, posted);
		if (n < posted)
			found = copy(pool, mailbox, n++, from, bytes);
	}
	WEFT_STEP(mailbox_taken);
	/* release: pairs with the acquire in waits */
	atomic_store_explicit(taken, n, memory_order_release);
	return found;
}

static bool take_from_member(struct weft_pool *pool, struct weft_address *from,
			     uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	const struct weft_pool_member *m = weft_pool_member(pool, from->member);
	const struct weft_pool_mailbox *mailbox;
	bool found;

	weft_pool_visit(pool, from->member);
	mailbox = mailbox_of(pool, m);
	/* the member that has the number by now has a mailbox of its own */
	found = mailbox && incarnation_of(m) == from->incarnation &&
		look_into(pool, mailbox, from, bytes);
	weft_pool_depart(pool);
	return found;
}

static bool has_mailbox(struct weft_pool *pool, uint16_t member)
{
	const struct weft_pool_member *m = weft_pool_member(pool, member);

	return m && atomic_load_explicit(&m->mailbox_off, memory_order_relaxed);
}

bool weft_mailbox_take(struct weft_pool *pool, struct weft_address *from,
		       uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	uint16_t *scan = &weft_attachment(pool)->mailbox.scan;

	for (; (*scan = weft_pool_next(pool, *scan)) < WEFT_MEMBERS; ++*scan) {
		uint64_t incarnation = incarnation_of(weft_pool_member(pool, *scan));

		*from = (struct weft_address){.member = *scan, .incarnation = incarnation};
		if (incarnation && has_mailbox(pool, *scan) && take_from_member(pool, from, bytes))
			return true;
	}
	*scan = 0;
	return false;
}
