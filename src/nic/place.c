/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/errors.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "pool/step.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/format_region.h"
#include "pool/seen.h"
#include "pool/sge.h"
#include "pool/sizes.h"
#include "pool/slice.h"

#define ORDERED_TAIL  64u
#define NOWHERE_BYTES 512u /* read or written at once */
#define BOUNCE_BYTES  1024u

/* What stands in for memory that is nowhere, and is read. */
static const uint8_t zeros[NOWHERE_BYTES];

/* Asked when it is known where the bytes lie: see weft_arrive_place in nic/arrive.h. */
static bool has_ended(const struct weft_grant *grant)
{
	atomic_thread_fence(memory_order_acquire);
	return grant && atomic_load_explicit(grant->word, memory_order_relaxed) != grant->was;
}

/* ---- Memory of a member that shares a domain with us, or with the peer ---- */

/* Whose entry of the table that is, used or not. */
static uint16_t owner_of(const struct weft_pool *pool, uint32_t index)
{
	return (uint16_t)(atomic_load_explicit(&pool->leases->mr_block[index / WEFT_MR_BLOCK],
					       memory_order_relaxed) -
			  1);
}

/* From here on a revoker of that member's memory waits for us: keys stand as we see them, unless we are left
 * behind. False: there is no such member, or it rehomes. */
static bool admit(struct weft_pool *pool, const struct weft_caller *caller, uint16_t owner,
		  struct weft_grant *grant)
{
	const struct weft_pool_member *m = pool->calls->member(pool, owner);
	_Atomic uint64_t *also = &pool->own->also[caller->index];

	if (!m)
		return false;
	atomic_store_explicit(
		also,
		weft_also_add(atomic_load_explicit(also, memory_order_relaxed),
			      atomic_load_explicit(&caller->line->busy, memory_order_relaxed),
			      owner),
		memory_order_relaxed);
	/* the revoker's barrier stands in for ours (weft_pool_quiesce) */
	weft_fence_frequent();
	WEFT_STEP(place_admitted);
	/* acquire: pairs with the release in publish_rehoming (qp.c) */
	*grant = (struct weft_grant){
		&m->rehomings, atomic_load_explicit(&m->rehomings, memory_order_acquire), owner};
	WEFT_TURN(place_admitted);
	return weft_rehoming_phase(grant->was) == WEFT_REHOMING_NONE;
}

/* It rehomes, or has since this thread was admitted. */
static bool has_rehomed(const struct weft_grant *grant)
{
	return grant->word &&
	       (weft_rehoming_phase(grant->was) != WEFT_REHOMING_NONE || has_ended(grant));
}

/* What we have stored there may be in pages that it has left. Not while it only waits for us. */
static bool was_left_behind(const struct weft_grant *grant)
{
	/* behind our stores; the barrier that follows the change of the word stands in for ours (weft_nic_hold) */
	weft_fence_frequent();
	return grant && atomic_load_explicit(grant->word, memory_order_acquire) - grant->was >=
				WEFT_REHOMING_LEAVES;
}

/* ---- Where bytes lie ---- */

/* Where the next bytes of a list of spans lie: here, or at `va` of another member. */
struct chunk {
	uint8_t *at; /* NULL: the other's, in place */
	uint64_t va, len_bytes;
	uint64_t id; /* of the region */
	enum weft_memory_kind kind;
	const struct weft_span
		*foreign; /* of which it is, if that is a third's, or ours on demand; else NULL */
};

struct cursor {
	const struct weft_span *span;
	uint64_t done; /* of the span */
};

static inline void store_ordered(uint8_t *to, const uint8_t *from, uint64_t n)
{
	uint64_t word;

	for (; n && ((uintptr_t)to & 7); n--)
		atomic_store_explicit((_Atomic uint8_t *)to++, *from++, memory_order_release);
	for (; n >= 8; n -= 8, to += 8, from += 8) {
		__builtin_memcpy(&word, from, 8);
		atomic_store_explicit((_Atomic uint64_t *)to, word, memory_order_release);
	}
	for (; n; n--)
		atomic_store_explicit((_Atomic uint8_t *)to++, *from++, memory_order_release);
}

/* Programs poll on the last byte: a string copy for the body, in whatever order it takes, then the
 * end in rising order by stores that do not tear. */
void weft_copy(const struct weft_nic *nic, uint8_t *to, const uint8_t *from, uint64_t n)
{
	if (n > ORDERED_TAIL) {
		uint64_t body = n - ORDERED_TAIL;

		nic->machine->copy(to, from, body);
		WEFT_STEP(place_body_copied);
		to += body;
		from += body;
		n = ORDERED_TAIL;
	}
	store_ordered(to, from, n);
}

static struct chunk piece_chunk(struct weft_pool *pool, const struct weft_pool_mr *mr,
				uint64_t start)
{
	const struct weft_pool_piece *piece = (const void *)(pool->base + mr->off);
	uint64_t i = mr->hi - 1;
	uint64_t end = mr->len_bytes, off, from;
	struct chunk c = {.va = mr->va + start};

	for (; (from = piece[i].start) > start && i; i--)
		end = from;
	off = piece[i].off;
	/* the list may be damaged: nowhere is then as good as in place */
	c.len_bytes = end > start && from <= start ? end - start : 0;
	if (off != UINT64_MAX)
		c.at = pool->calls->window(pool, off + (start - from), c.len_bytes);
	return c;
}

/* The bytes of a region from `start` that lie together. */
static struct chunk region_chunk(struct weft_pool *pool, const struct weft_pool_mr *mr,
				 uint64_t start, uint8_t *nowhere)
{
	struct chunk c = {.va = mr->va + start};

	if (weft_mr_is_listed(mr)) {
		c = piece_chunk(pool, mr, start);
	} else if (start >= mr->lo && start < mr->hi) {
		c.at = pool->base + mr->off + (start - mr->lo);
		c.len_bytes = mr->hi - start;
	} else {
		c.len_bytes = (start < mr->lo ? mr->lo : mr->len_bytes) - start;
	}
	if (!weft_mr_is_listed(mr) && mr->lo == mr->hi && mr->off == WEFT_NOWHERE) {
		c.at = nowhere;
		c.len_bytes = c.len_bytes < NOWHERE_BYTES ? c.len_bytes : NOWHERE_BYTES;
	}
	return c;
}

static void take_here(struct chunk *c)
{
	c->kind = WEFT_MEMORY_HERE;
	c->at = (uint8_t *)(uintptr_t)c->va;
}

static struct chunk peek(struct weft_pool *pool, const struct cursor *cursor, uint8_t *nowhere)
{
	const struct weft_span *span = cursor->span;
	uint64_t left = span->len_bytes - cursor->done;
	const struct weft_pool_mr *mr;
	struct chunk c;

	if (span->at)
		return (struct chunk){.at = span->at + cursor->done, .len_bytes = left};
	mr = weft_span_mr(pool, span);
	c = region_chunk(pool, mr, span->start + cursor->done, nowhere);
	c.id = span->id;
	c.foreign = weft_span_is_foreign(span) ? span : NULL;
	/* in place and ours: the program's own address is the only one there is */
	if (!c.at && !c.foreign && mr->owner == pool->me)
		take_here(&c);
	if (!c.at)
		c.kind = weft_mr_on_device(mr) ? WEFT_MEMORY_DEVICE : WEFT_MEMORY_THERE;
	if (c.len_bytes > left)
		c.len_bytes = left;
	return c;
}

static void advance(struct cursor *cursor, uint64_t n)
{
	cursor->done += n;
	if (cursor->done == cursor->span->len_bytes) {
		cursor->span++;
		cursor->done = 0;
	}
}

static const struct weft_grant *grant_to(const struct chunk *c, const struct weft_grant *peers)
{
	return c->foreign ? &c->foreign->grant : peers;
}

/* Copies between `there`, which has no address here, and `here`: 0, or an error that is noted as that of `there`.
 * here_id: 0, or of a device's region. */
static int reach(struct weft_nic *nic, struct weft_caller *caller, const struct weft_grant *grant,
		 const struct chunk *there, void *here, uint64_t here_id, uint64_t n, bool write)
{
	struct weft_in_place memory = {grant_to(there, grant), there->va, there->id,
				       weft_later_of(grant), here_id};

	caller->failed = there->foreign;
	return nic->machine->memory[there->kind].copy(nic->machine->context, caller, &memory, here,
						      n, write);
}

/* Of this process, on demand or of a device. */
static bool is_own(const struct weft_nic *nic, const struct chunk *c)
{
	return c->foreign && c->foreign->grant.member == nic->pool->me;
}

static bool is_device(const struct chunk *c)
{
	return c->kind == WEFT_MEMORY_DEVICE;
}

/* One call of the kernel, or of a device's driver, copies bytes between such memory and another process's; one of
 * the driver between two devices of ours, too. */
static void pair(const struct weft_nic *nic, struct chunk *c, const struct chunk *other)
{
	if (!is_own(nic, c) || other->at ||
	    (is_own(nic, other) && !(is_device(c) && is_device(other))))
		return;
	if (is_device(c))
		c->at = (uint8_t *)(uintptr_t)c->va;
	else
		take_here(c);
}

static uint64_t device_id(const struct chunk *c)
{
	return is_device(c) ? c->id : 0;
}

static int copy_chunk(struct weft_nic *nic, struct weft_caller *caller,
		      const struct weft_grant *grant, const struct chunk *to,
		      const struct chunk *from, uint64_t n)
{
	uint8_t bounce[BOUNCE_BYTES];
	int err;

	if (to->at && from->at) {
		weft_copy(nic, to->at, from->at, n);
		return 0;
	}
	if (from->at)
		return reach(nic, caller, grant, to, from->at, device_id(from), n, true);
	if (to->at)
		return reach(nic, caller, grant, from, to->at, device_id(to), n, false);
	err = reach(nic, caller, grant, from, bounce, 0, n, false);
	return err ? err : reach(nic, caller, grant, to, bounce, 0, n, true);
}

/* Whether that memory is still where we think. 0, -ESRCH. */
static int check_foreign(struct weft_caller *caller, const struct chunk *c)
{
	if (!c->foreign || !has_ended(&c->foreign->grant))
		return 0;
	caller->failed = c->foreign;
	return -ESRCH;
}

/* The next bytes, as many as lie together on both sides; how many: *n. 0 or an error. */
static int copy_next(struct weft_nic *nic, struct weft_caller *caller,
		     const struct weft_grant *grant, struct cursor *to, struct cursor *from,
		     uint64_t *n)
{
	uint8_t lost[NOWHERE_BYTES]; /* what is written there */
	struct chunk there = peek(nic->pool, to, lost),
		     here = peek(nic->pool, from, (uint8_t *)(uintptr_t)zeros);
	uint64_t most = *n;
	int err;

	caller->failed = NULL;
	pair(nic, &here, &there);
	pair(nic, &there, &here);
	if (!there.at && !here.at && most > BOUNCE_BYTES)
		most = BOUNCE_BYTES;
	*n = there.len_bytes < here.len_bytes ? there.len_bytes : here.len_bytes;
	/* the other side may well have room for more */
	*n = *n < most ? *n : most;
	if (has_ended(grant))
		return -ESRCH;
	err = check_foreign(caller, &there);
	err = err ? err : check_foreign(caller, &here);
	if (err)
		return err;
	if (!*n)
		return -EFAULT; /* a list of pieces that has been damaged since */
	err = copy_chunk(nic, caller, grant, &there, &here, *n);
	WEFT_TURN(place_copied);
	if (!err && there.foreign && was_left_behind(&there.foreign->grant)) {
		caller->failed = there.foreign;
		err = -ESTALE;
	}
	return err;
}

/* What has been placed already, of a request that did not wait. */
static void pass_over(struct cursor *cursor, uint64_t n)
{
	while (n) {
		uint64_t left = cursor->span->len_bytes - cursor->done;
		uint64_t step = left < n ? left : n;

		advance(cursor, step);
		n -= step;
	}
}

static int stop_at(struct weft_later *later, uint64_t at, int err)
{
	if (later && err == -EINPROGRESS)
		later->done = (uint32_t)at;
	return err;
}

int weft_place_scattered(struct weft_nic *nic, struct weft_caller *caller,
			 const struct weft_grant *grant, const struct weft_span *to_spans,
			 const struct weft_span *from_spans, uint64_t len_bytes)
{
	struct cursor to = {to_spans, 0}, from = {from_spans, 0};
	struct weft_later *later = weft_later_of(grant);
	uint64_t at = later ? later->done : 0;

	pass_over(&to, at);
	pass_over(&from, at);
	while (at < len_bytes) {
		uint64_t n = len_bytes - at;
		int err;

		if (later)
			later->at = (uint32_t)at;
		err = copy_next(nic, caller, grant, &to, &from, &n);
		if (err)
			return stop_at(later, at, err);
		at += n;
		if (at == len_bytes)
			return 0;
		WEFT_STEP(place_part_copied);
		advance(&to, n);
		advance(&from, n);
	}
	return 0;
}

/* The grant is looked at once more by the owner's helper, and only then the word is changed. */
static int add_by_owner(struct weft_pool *pool, const struct weft_grant *grant, const uint8_t *at,
			bool add, uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	struct weft_pool_change change = weft_change_of(pool, (const _Atomic uint64_t *)at,
							add ? WEFT_CHANGE_ADD : WEFT_CHANGE_COMPARE,
							compare_add, add ? compare_add : swap);
	int err = pool->change(pool, grant, grant->member, &change, 1);

	*old = change.was;
	return err;
}

int weft_place_atomic_slow(struct weft_nic *nic, struct weft_caller *caller,
			   const struct weft_grant *grant, const struct weft_span *at, bool add,
			   uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	struct weft_span here = *at;
	uint64_t lost = 0;
	struct chunk c = peek(nic->pool, &(struct cursor){at, 0}, (uint8_t *)&lost);

	caller->failed = NULL;
	if (has_ended(grant) || check_foreign(caller, &c))
		return -ESRCH;
	caller->failed = c.foreign;
	if (!c.at)
		return nic->machine->memory[c.kind].atomic(
			nic->machine->context, caller,
			&(struct weft_in_place){grant_to(&c, grant), c.va, c.id,
						weft_later_of(grant)},
			add, compare_add, swap, old);
	if (c.at != (uint8_t *)&lost && weft_must_ask(nic->pool, grant_to(&c, grant)->member))
		return add_by_owner(nic->pool, grant_to(&c, grant), c.at, add, compare_add, swap,
				    old);
	here.at = c.at;
	weft_place_atomic(nic, caller, grant, &here, add, compare_add, swap, old);
	return c.foreign && was_left_behind(&c.foreign->grant) ? -ESTALE : 0;
}

void weft_later_drop(const struct weft_nic *nic, struct weft_later *later)
{
	if (later->ask[0] || later->ask[1])
		nic->machine->take_back(nic->machine->context, later);
	*later = (struct weft_later){0};
}

/* The key as it is now: 0 is no id. */
static uint64_t see_key(struct weft_pool *pool, uint32_t key)
{
	uint32_t index = key >> WEFT_KEY_BITS;
	const struct weft_seen_mr *seen = &pool->mr_seen[index];
	uint64_t id = atomic_load_explicit(&seen->id, memory_order_acquire);

	if (((uint32_t)id != key ||
	     atomic_load_explicit(&pool->mrs[index].id, memory_order_acquire) != id) &&
	    weft_mr_prepare(pool, key))
		return 0;
	WEFT_TURN(place_key_seen);
	id = atomic_load_explicit(&seen->id, memory_order_acquire);
	return (uint32_t)id == key ? id : 0;
}

/* Whether a third member's key stands, of which the entry may be half written. */
static bool stands(struct weft_pool *pool, uint32_t key)
{
	uint32_t index = key >> WEFT_KEY_BITS;

	return index && !pool->calls->see_mr(pool, index) &&
	       (uint32_t)atomic_load_explicit(&pool->mrs[index].id, memory_order_relaxed) == key;
}

/* To our own memory on demand: not all of it need be mapped, which the kernel can tell; or of a device. */
static struct weft_grant own_grant(const struct weft_pool *pool)
{
	const _Atomic uint64_t *word = &pool->self->incarnation;

	return (struct weft_grant){word, atomic_load_explicit(word, memory_order_relaxed),
				   pool->me};
}

bool weft_mr_find_slow(struct weft_pool *pool, struct weft_caller *caller, uint32_t key,
		       uint64_t domain, uint64_t addr, uint64_t len_bytes, uint8_t access,
		       struct weft_span *span)
{
	const struct weft_pool_mr *mr = &pool->mr_seen[key >> WEFT_KEY_BITS].mr;
	uint16_t owner = owner_of(pool, key >> WEFT_KEY_BITS);
	/* memory of this process does not go away under us: its revoker waits for all of its threads */
	bool foreign = owner != (uint16_t)domain && owner != pool->me;
	uint64_t start;

	*span = (struct weft_span){.len_bytes = len_bytes};
	WEFT_TURN(place_key_used);
	if (foreign && !admit(pool, caller, owner, &span->grant))
		goto refuse;
	span->id = see_key(pool, key);
	start = addr - mr->iova;
	if (!span->id || mr->owner != owner || !weft_allows_any(mr->allowed, domain, access) ||
	    start > mr->len_bytes || len_bytes > mr->len_bytes - start)
		goto refuse;
	span->start = start;
	if (!foreign && start >= mr->lo && start + len_bytes <= mr->hi)
		span->at = pool->base + mr->off + (start - mr->lo);
	else if (owner == pool->me && (weft_mr_on_device(mr) ||
				       mr->allowed & WEFT_MR_ALLOWED(0, WEFT_ACCESS_ON_DEMAND, 0)))
		span->grant = own_grant(pool);
	caller->rehomes =
		false; /* as it may be since the key was looked for as a region's (weft_arrive_find_window) */
	return true;
refuse:
	if (has_rehomed(&span->grant) && stands(pool, key))
		caller->rehomes = true;
	return false;
}

bool weft_spans_find(struct weft_pool *pool, struct weft_caller *caller,
		     const struct weft_pool_sge *sge, unsigned int n, uint64_t domain,
		     uint8_t access, struct weft_spans *spans)
{
	uint64_t bytes = 0;

	spans->n = 0;
	for (unsigned int i = 0; i < n; i++) {
		/* no bytes need no key */
		if (!sge[i].len_bytes)
			continue;
		if (!weft_mr_find(pool, caller, sge[i].lkey, domain, sge[i].addr, sge[i].len_bytes,
				  access, &spans->span[spans->n++]))
			return false;
		bytes += sge[i].len_bytes;
	}
	spans->len_bytes = bytes;
	return true;
}

void weft_spans_cut(struct weft_spans *spans, uint64_t offset)
{
	unsigned int first = 0;

	spans->len_bytes -= offset;
	for (; offset >= spans->span[first].len_bytes; first++)
		offset -= spans->span[first].len_bytes;
	spans->n -= first;
	for (unsigned int i = 0; i < spans->n && first; i++)
		spans->span[i] = spans->span[first + i];
	spans->span[0].len_bytes -= offset;
	if (spans->span[0].at)
		spans->span[0].at += offset;
	else
		spans->span[0].start += offset;
}
