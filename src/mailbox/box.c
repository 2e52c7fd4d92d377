/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "mailbox/box.h"

#include <errno.h>
#include <string.h>

#include "pool/internal.h"
#include "pool/step.h"

/* When all slots are of addressees that do not look (they are stopped), they are taken from them
 * after this. */
#define PATIENCE_NS 3000000000ull

static int make(struct weft_attachment *a)
{
	uint64_t off;
	int err = weft_pool_alloc(&a->pool, sizeof(struct weft_pool_box), &off);

	if (err)
		return err;
	a->box.at = weft_pool_window(&a->pool, off, sizeof(struct weft_pool_box));
	atomic_store_explicit(&a->box.at->posted, a->pool.incarnation << 32, memory_order_relaxed);
	WEFT_STEP(box_made);
	/* release: pairs with the acquire in box_of */
	atomic_store_explicit(&a->pool.self->box_off, off, memory_order_release);
	return 0;
}

static uint64_t incarnation_of(const struct weft_pool_member *m)
{
	return m ? atomic_load_explicit(&m->incarnation, memory_order_acquire) : 0;
}

/* Whether what stands in the slot still waits for its addressee. */
static bool waits(struct weft_pool *pool, const struct weft_pool_slip *slip)
{
	uint64_t seq = atomic_load_explicit(&slip->seq, memory_order_relaxed);
	const struct weft_pool_member *m = seq ? weft_pool_member(pool, slip->member) : NULL;

	/* acquire: it has copied what it has taken (weft_box_take) */
	return m && incarnation_of(m) == slip->incarnation &&
	       atomic_load_explicit(&m->taken[pool->me], memory_order_acquire) < seq;
}

/* The next number whose slot is free: those of addressees that do not look are passed over. */
static int next_number(struct weft_pool *pool, uint64_t now_ns, uint64_t *n)
{
	struct weft_attachment *a = weft_attachment(pool);

	for (uint32_t i = 0; i < WEFT_BOX_SLOTS; i++, ++*n) {
		uint32_t slot = *n % WEFT_BOX_SLOTS;

		if (!waits(pool, &a->box.at->slip[slot]) ||
		    now_ns >= a->box.posted_ns[slot] + PATIENCE_NS)
			return 0;
	}
	return -EAGAIN;
}

int weft_box_post(struct weft_pool *pool, struct weft_address to,
		  const uint8_t bytes[WEFT_DATAGRAM_BYTES], uint64_t now_ns)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_slip *slip;
	uint64_t n;
	int err;

	if (incarnation_of(weft_pool_member(pool, to.member)) != to.incarnation)
		return -ESRCH;
	if (!a->box.at) {
		err = make(a);
		if (err)
			return err;
	}
	n = atomic_load_explicit(&a->box.at->posted, memory_order_relaxed);
	err = next_number(pool, now_ns, &n);
	if (err)
		return err;
	slip = &a->box.at->slip[n % WEFT_BOX_SLOTS];
	atomic_store_explicit(&slip->seq, 0, memory_order_relaxed);
	/* pairs with the acquire fence in copy: a reader of new bytes sees that they are new */
	atomic_thread_fence(memory_order_release);
	WEFT_STEP(box_slip_opened);
	slip->member = to.member;
	slip->incarnation = to.incarnation;
	memcpy(slip->bytes, bytes, WEFT_DATAGRAM_BYTES);
	WEFT_STEP(box_slip_written);
	/* release: pairs with the acquire in copy */
	atomic_store_explicit(&slip->seq, n + 1, memory_order_release);
	WEFT_STEP(box_slip_closed);
	/* release: pairs with the acquire in look_into */
	atomic_store_explicit(&a->box.at->posted, n + 1, memory_order_release);
	a->box.posted_ns[n % WEFT_BOX_SLOTS] = now_ns;
	WEFT_STEP(box_posted);
	weft_pool_signal(pool, to.member, WEFT_SIGNAL_BOX);
	return 0;
}

static struct weft_pool_box *box_of(struct weft_pool *pool, const struct weft_pool_member *m)
{
	uint64_t off = atomic_load_explicit(&m->box_off, memory_order_acquire);

	return off ? weft_pool_window(pool, off, sizeof(struct weft_pool_box)) : NULL;
}

static bool is_ours(const struct weft_pool *pool, const struct weft_pool_slip *slip)
{
	return slip->member == pool->me && slip->incarnation == pool->incarnation;
}

/* Number n of that box, if it is for us and has not been overwritten. */
static bool copy(struct weft_pool *pool, const struct weft_pool_box *box, uint64_t n,
		 uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	const struct weft_pool_slip *slip = &box->slip[n % WEFT_BOX_SLOTS];

	if (atomic_load_explicit(&slip->seq, memory_order_acquire) != n + 1 || !is_ours(pool, slip))
		return false;
	memcpy(bytes, slip->bytes, WEFT_DATAGRAM_BYTES);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slip->seq, memory_order_relaxed) == n + 1;
}

/* The first number from n on that a slot may hold for us; the poster passes over those that wait,
 * so that there may be some from long ago. */
static uint64_t oldest(const struct weft_pool *pool, const struct weft_pool_box *box, uint64_t n,
		       uint64_t posted)
{
	uint64_t found = posted;

	if (posted - n <= WEFT_BOX_SLOTS)
		return n;
	for (uint32_t i = 0; i < WEFT_BOX_SLOTS; i++) {
		const struct weft_pool_slip *slip = &box->slip[i];
		/* acquire: pairs with the release in weft_box_post */
		uint64_t seq = atomic_load_explicit(&slip->seq, memory_order_acquire);

		if (seq > n && seq <= found && is_ours(pool, slip))
			found = seq - 1;
	}
	return found;
}

static bool look_into(struct weft_pool *pool, const struct weft_pool_box *box, uint16_t member,
		      uint64_t incarnation, uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	_Atomic uint64_t *taken = &pool->self->taken[member];
	uint64_t n = atomic_load_explicit(taken, memory_order_relaxed), posted;
	bool found = false;

	posted = atomic_load_explicit(&box->posted, memory_order_acquire);
	if (n < incarnation << 32 || n > posted)
		n = incarnation << 32;
	while (!found && n < posted) {
		n = oldest(pool, box, n, posted);
		if (n < posted)
			found = copy(pool, box, n++, bytes);
	}
	WEFT_STEP(box_taken);
	/* release: pairs with the acquire in waits */
	atomic_store_explicit(taken, n, memory_order_release);
	return found;
}

static bool take_from(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
		      uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	const struct weft_pool_member *m = weft_pool_member(pool, member);
	const struct weft_pool_box *box;
	bool found;

	weft_pool_visit(pool, member);
	box = box_of(pool, m);
	/* the member that has the number by now has a box of its own */
	found = box && incarnation_of(m) == incarnation &&
		look_into(pool, box, member, incarnation, bytes);
	weft_pool_depart(pool);
	return found;
}

static bool has_box(struct weft_pool *pool, uint16_t member)
{
	const struct weft_pool_member *m = weft_pool_member(pool, member);

	return m && atomic_load_explicit(&m->box_off, memory_order_relaxed);
}

bool weft_box_take(struct weft_pool *pool, struct weft_address *from,
		   uint8_t bytes[WEFT_DATAGRAM_BYTES])
{
	uint16_t *scan = &weft_attachment(pool)->box.scan;
	uint16_t end = weft_members_end(pool);

	for (; *scan < end; ++*scan) {
		uint64_t incarnation = incarnation_of(weft_pool_member(pool, *scan));

		if (incarnation && has_box(pool, *scan) &&
		    take_from(pool, *scan, incarnation, bytes)) {
			*from = (struct weft_address){*scan, incarnation};
			return true;
		}
	}
	*scan = 0;
	return false;
}
