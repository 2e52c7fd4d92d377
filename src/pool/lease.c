/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Leases of segments and of blocks of table entries. Taking one is the only allocation that
 * crosses processes; within a lease the owner keeps its own books.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "pool/clock.h"
#include "pool/ape.h"
#include "pool/internal.h"
#include "pool/format_object.h"
#include "pool/step.h"
#include "pool/format.h"
#include "pool/format_qp.h"
#include "pool/format_region.h"
#include "pool/seen.h"
#include "pool/sizes.h"

uint64_t weft_lease_word(const struct weft_pool *pool)
{
	return pool->incarnation << 16 | (pool->me + 1u);
}

static bool run_is_free(const struct weft_pool_leases *leases, uint32_t first, uint32_t count)
{
	/* acquire: pairs with the releases in weft_lease_drop_segments and weft_lease_give_back, neither of which has the
	 * pool's lock: what was stored there is stored before we do */
	for (uint32_t i = 0; i < count; i++)
		if (atomic_load_explicit(&leases->segment[first + i], memory_order_acquire))
			return false;
	return true;
}

int weft_lease_segments(struct weft_attachment *a, uint32_t count, uint32_t *first)
{
	struct weft_pool_leases *leases = a->pool.leases;
	struct weft_slice ours = weft_slice_segments(&a->pool);
	int key = weft_enter(a), err = -ENOSPC;

	if (key < 0)
		return key;
	for (uint32_t i = ours.first; i + count <= ours.end; i++) {
		if (!run_is_free(leases, i, count))
			continue;
		for (uint32_t k = 0; k < count; k++) {
			atomic_store_explicit(&leases->segment[i + k], weft_lease_word(&a->pool),
					      memory_order_relaxed);
			WEFT_STEP(lease_segment_taken);
		}
		*first = i;
		err = 0;
		break;
	}
	weft_leave(a, key);
	return err;
}

void weft_lease_drop_segments(struct weft_attachment *a, uint32_t first, uint32_t count)
{
	/* one word each, ours: a reader sees the lease or sees it free */
	for (uint32_t i = 0; i < count; i++) {
		atomic_store_explicit(&a->pool.leases->segment[first + i], 0, memory_order_release);
		WEFT_STEP(lease_segment_dropped);
	}
}

/* The tables of queue pairs, of regions and of objects are leased alike. */
struct table {
	_Atomic uint64_t *lease;
	_Atomic uint8_t *seen;
	uint64_t *used; /* a bit an entry */
	uint32_t *next;
	uint32_t per_block, entry_bytes;
	uint64_t off;
};

static struct table qp_table(struct weft_attachment *a)
{
	return (struct table){a->pool.leases->qp_block,
			      a->pool.qp_block_seen,
			      a->qp_used,
			      &a->qp_next,
			      WEFT_QP_BLOCK,
			      sizeof(struct weft_pool_qp),
			      WEFT_OFF_QPS};
}

static struct table mr_table(struct weft_attachment *a)
{
	return (struct table){a->pool.leases->mr_block,
			      a->pool.mr_block_seen,
			      a->mr_used,
			      &a->mr_next,
			      WEFT_MR_BLOCK,
			      sizeof(struct weft_pool_mr),
			      WEFT_OFF_MRS};
}

static struct table object_table(struct weft_attachment *a)
{
	return (struct table){a->pool.leases->object_block,
			      a->pool.object_block_seen,
			      a->object_used,
			      &a->object_next,
			      WEFT_OBJECT_BLOCK,
			      sizeof(struct weft_pool_object),
			      WEFT_OFF_OBJECTS};
}

static int map_block(struct weft_pool *pool, const struct table *t, uint32_t block)
{
	uint64_t bytes = (uint64_t)t->per_block * t->entry_bytes;

	if (!weft_pool_window(pool, t->off + block * bytes, bytes))
		return -ENOMEM;
	atomic_store_explicit(&t->seen[block], 1, memory_order_relaxed);
	return 0;
}

/* Decided by the member that leases the first block, or, where hosts have locks of their own, as the pool is made;
 * the lock is held. */
static uint32_t numbers(const struct weft_pool *pool)
{
	uint32_t numbers = atomic_load_explicit(&pool->leases->numbers, memory_order_relaxed);

	if (numbers)
		return numbers;
	if (getrandom(&numbers, sizeof(numbers), GRND_NONBLOCK) != sizeof(numbers))
		numbers = (uint32_t)weft_clock_now_ns();
	numbers = WEFT_NUMBERS(numbers);
	atomic_store_explicit(&pool->leases->numbers, numbers, memory_order_relaxed);
	return numbers;
}

static int lease_block(struct weft_attachment *a, const struct table *t, uint32_t *block)
{
	uint64_t bytes = (uint64_t)t->per_block * t->entry_bytes;
	struct weft_slice ours = weft_slice_of(&a->pool, WEFT_BLOCKS, a->pool.host);
	uint32_t first, count = ours.end - ours.first;
	int key = weft_enter(a), err = -ENOSPC;

	if (key < 0)
		return key;
	first = t->off == WEFT_OFF_QPS ? WEFT_NUMBERS_BLOCK(numbers(&a->pool)) : 0;
	for (uint32_t n = 0; n < count; n++) {
		uint32_t i = ours.first + (first + n) % count;

		/* acquire: pairs with the release in free_blocks: we go on from what its entries say */
		if (atomic_load_explicit(&t->lease[i], memory_order_acquire))
			continue;
		/* reserved before it is leased, and for ever: peers may look at the entries of a
		 * block that they have once seen leased */
		err = weft_reserve_pages(a, t->off + i * bytes, bytes);
		if (err)
			break;
		WEFT_STEP(lease_block_reserved);
		atomic_store_explicit(&t->lease[i], weft_lease_word(&a->pool),
				      memory_order_release);
		WEFT_STEP(lease_block_taken);
		*block = i;
		break;
	}
	weft_leave(a, key);
	return err;
}

static int take_in_block(const struct table *t, uint32_t block, uint32_t from, uint32_t *index)
{
	for (uint32_t i = from & ~63u; i < (block + 1) * t->per_block; i += 64) {
		uint64_t used = t->used[i / 64];

		/* the first two numbers, the last one and the first key are special in every RDMA network */
		if (i == 0)
			used |= 3;
		if (i + 64 == WEFT_QPS && t->off == WEFT_OFF_QPS)
			used |= 1ull << 63;
		if (i < from)
			used |= (1ull << (from - i)) - 1;
		if (~used) {
			uint32_t bit = (uint32_t)__builtin_ctzll(~used);

			t->used[i / 64] |= 1ull << bit;
			*index = i + bit;
			return 0;
		}
	}
	return -ENOSPC;
}

/* The next free entry after the last one taken, so that numbers and keys come back late. */
static int take_from_blocks(struct weft_attachment *a, const struct table *t, uint32_t *index)
{
	uint64_t mine = weft_lease_word(&a->pool);
	uint32_t block = *t->next / t->per_block, from = *t->next;
	int err;

	for (uint32_t i = 0; i <= WEFT_BLOCKS; i++) {
		if (atomic_load_explicit(&t->lease[block], memory_order_relaxed) == mine &&
		    !take_in_block(t, block, from, index))
			goto found;
		block = (block + 1) % WEFT_BLOCKS;
		from = block * t->per_block;
	}
	err = lease_block(a, t, &block);
	if (err)
		return err;
	err = take_in_block(t, block, block * t->per_block, index);
	if (err)
		return err;
found:
	*t->next = (*index + 1) % (WEFT_BLOCKS * t->per_block);
	return map_block(&a->pool, t, block);
}

static int take_locked(struct weft_attachment *a, struct table (*of)(struct weft_attachment *),
		       uint32_t *index)
{
	struct table t = of(a);
	int err;

	pthread_mutex_lock(&a->mutex);
	err = take_from_blocks(a, &t, index);
	pthread_mutex_unlock(&a->mutex);
	return err;
}

static void drop_locked(struct weft_attachment *a, uint64_t *used, uint32_t index)
{
	pthread_mutex_lock(&a->mutex);
	used[index / 64] &= ~(1ull << index % 64);
	pthread_mutex_unlock(&a->mutex);
}

int weft_pool_take_qp(struct weft_pool *pool, uint32_t *index)
{
	return take_locked(weft_attachment(pool), qp_table, index);
}

void weft_pool_drop_qp(struct weft_pool *pool, uint32_t index)
{
	drop_locked(weft_attachment(pool), weft_attachment(pool)->qp_used, index);
}

int weft_pool_take_mr(struct weft_pool *pool, uint32_t *index)
{
	return take_locked(weft_attachment(pool), mr_table, index);
}

void weft_pool_drop_mr(struct weft_pool *pool, uint32_t index)
{
	drop_locked(weft_attachment(pool), weft_attachment(pool)->mr_used, index);
}

int weft_pool_take_object(struct weft_pool *pool, uint32_t *index)
{
	return take_locked(weft_attachment(pool), object_table, index);
}

void weft_pool_drop_object(struct weft_pool *pool, uint32_t index)
{
	drop_locked(weft_attachment(pool), weft_attachment(pool)->object_used, index);
}

static int see(struct weft_pool *pool, const struct table *t, uint32_t index)
{
	uint32_t block = index / t->per_block;
	int err;

	if (block >= WEFT_BLOCKS)
		return -ENOENT;
	if (atomic_load_explicit(&t->seen[block], memory_order_relaxed))
		return 0;
	/* acquire: pairs with the release in lease_block; the pages are reserved */
	if (!atomic_load_explicit(&t->lease[block], memory_order_acquire))
		return -ENOENT;
	err = map_block(pool, t, block);
	return err ? -ENOENT : 0;
}

int weft_pool_see_qp(struct weft_pool *pool, uint32_t index)
{
	struct table t = qp_table(weft_attachment(pool));

	return see(pool, &t, index);
}

int weft_pool_see_mr(struct weft_pool *pool, uint32_t index)
{
	struct table t = mr_table(weft_attachment(pool));

	return see(pool, &t, index);
}

int weft_pool_see_object(struct weft_pool *pool, uint32_t index)
{
	struct table t = object_table(weft_attachment(pool));

	return see(pool, &t, index);
}

int weft_pool_keep_mr(struct weft_pool *pool, uint32_t index, const struct weft_pool_mr *mr)
{
	struct weft_seen_mr *seen = &pool->mr_seen[index];
	bool holds;

	pthread_mutex_lock(&weft_attachment(pool)->mutex);
	/* a thread that has stood still since it read the entry must not put it in the place of a newer one */
	holds = atomic_load_explicit(&pool->mrs[index].id, memory_order_acquire) == mr->id;
	if (holds && atomic_load_explicit(&seen->id, memory_order_relaxed) != mr->id) {
		/* no thread here uses the old copy: the revocation of its region has waited for ours; or one
		 * stands still, and looks at its grant before it writes */
		atomic_store_explicit(&seen->id, 0, memory_order_relaxed);
		seen->mr = *mr;
		seen->allowed = mr->allowed;
		seen->run = mr->iova + mr->lo;
		seen->run_bytes = weft_mr_is_listed(mr) ? 0 : mr->hi - mr->lo;
		seen->at = pool->base + mr->off;
		/* release: pairs with the acquire in weft_mr_find */
		atomic_store_explicit(&seen->id, mr->id, memory_order_release);
	}
	pthread_mutex_unlock(&weft_attachment(pool)->mutex);
	return holds ? 0 : -ENOENT;
}

/* What a peer's owner may be told of later: that the one it was connected with has died. */
static uint64_t last_conn(uint64_t conn, bool died)
{
	uint64_t next = ((conn >> 32) + 1) << 32;
	enum weft_pool_conn state = conn >> 24 & 0xff;

	if (!died || state == WEFT_CONN_NONE || state == WEFT_CONN_ERROR)
		return next;
	return next | (uint64_t)WEFT_CONN_DIED << 24 | (conn & 0xffffff);
}

static void end_block_of_qps(struct weft_pool *pool, uint32_t block, bool died)
{
	for (uint32_t i = 0; i < WEFT_QP_BLOCK; i++) {
		struct weft_pool_qp *qp = &pool->qps[block * WEFT_QP_BLOCK + i];
		uint64_t conn = atomic_load_explicit(&qp->conn, memory_order_relaxed);

		if (!atomic_load_explicit(&qp->qpn, memory_order_relaxed))
			continue;
		atomic_store_explicit(&qp->conn, last_conn(conn, died), memory_order_relaxed);
		WEFT_STEP(lease_qp_shut);
		atomic_store_explicit(&qp->qpn, 0, memory_order_release);
	}
}

static void end_qps(struct weft_pool *pool, uint32_t block)
{
	end_block_of_qps(pool, block, false);
}

static void bury_qps(struct weft_pool *pool, uint32_t block)
{
	end_block_of_qps(pool, block, true);
}

static void end_mrs(struct weft_pool *pool, uint32_t block)
{
	for (uint32_t i = 0; i < WEFT_MR_BLOCK; i++) {
		_Atomic uint64_t *id = &pool->mrs[block * WEFT_MR_BLOCK + i].id;
		uint64_t last = atomic_load_explicit(id, memory_order_relaxed);

		atomic_store_explicit(id, last & ~(uint64_t)UINT32_MAX, memory_order_release);
		if (last & UINT32_MAX)
			WEFT_STEP(lease_key_ended);
	}
}

static void end_imports(struct weft_pool *pool, uint32_t block)
{
	for (uint32_t i = 0; i < WEFT_OBJECT_BLOCK; i++) {
		_Atomic uint64_t *id = &pool->objects[block * WEFT_OBJECT_BLOCK + i].id;
		uint64_t last = atomic_load_explicit(id, memory_order_relaxed);

		atomic_store_explicit(id, last & ~(WEFT_OBJECT_ASKED | UINT32_MAX),
				      memory_order_release);
		if (last & UINT32_MAX)
			WEFT_STEP(lease_object_ended);
	}
}

/* Calls fn for the blocks leased under that word. */
static void each_block(struct weft_pool *pool, const struct table *t, uint64_t word,
		       void (*fn)(struct weft_pool *, uint32_t))
{
	for (uint32_t i = 0; i < WEFT_BLOCKS; i++)
		if (atomic_load_explicit(&t->lease[i], memory_order_relaxed) == word &&
		    !map_block(pool, t, i))
			fn(pool, i);
}

void weft_lease_end_rights(struct weft_pool *pool, uint64_t word, bool died)
{
	struct table qp = qp_table(weft_attachment(pool)), mr = mr_table(weft_attachment(pool));
	struct table object = object_table(weft_attachment(pool));

	each_block(pool, &qp, word, died ? bury_qps : end_qps);
	WEFT_STEP(lease_qps_ended);
	each_block(pool, &mr, word, end_mrs);
	each_block(pool, &object, word, end_imports);
}

static void free_blocks(const struct table *t, uint64_t word)
{
	for (uint32_t i = 0; i < WEFT_BLOCKS; i++)
		if (atomic_load_explicit(&t->lease[i], memory_order_relaxed) == word)
			atomic_store_explicit(&t->lease[i], 0, memory_order_release);
}

int weft_lease_give_back(struct weft_attachment *a, uint64_t word)
{
	struct weft_pool *pool = &a->pool;
	struct table qp = qp_table(a), mr = mr_table(a), object = object_table(a);
	const uint64_t bytes = weft_segment_bytes(pool);
	int err;

	for (uint32_t i = weft_segment_first(pool); i < pool->segments; i++) {
		if (atomic_load_explicit(&pool->leases->segment[i], memory_order_relaxed) != word)
			continue;
		/* the next owner expects zeroes */
		err = weft_release_pages(a, i * bytes, bytes);
		if (err)
			return err;
		WEFT_STEP(lease_segment_emptied);
		atomic_store_explicit(&pool->leases->segment[i], 0, memory_order_release);
	}
	WEFT_STEP(lease_segments_given_back);
	free_blocks(&qp, word);
	WEFT_STEP(lease_qps_given_back);
	free_blocks(&mr, word);
	free_blocks(&object, word);
	return 0;
}

uint64_t weft_lease_next(const struct weft_pool *pool, uint32_t *at)
{
	const _Atomic uint64_t *lease = (const void *)pool->leases; /* all tables are the same */
	uint64_t word = 0;

	for (; !word && *at < sizeof(*pool->leases) / sizeof(*lease); ++*at)
		if (&lease[*at] != (const void *)&pool->leases->numbers)
			word = atomic_load_explicit(&lease[*at], memory_order_relaxed);
	return word;
}

bool weft_lease_covers(const struct weft_pool *pool, uint64_t word, uint64_t off,
		       uint64_t len_bytes)
{
	uint64_t last = weft_segment_of(pool, off + len_bytes - !!len_bytes);

	if (off >= pool->bytes || len_bytes > pool->bytes - off)
		return false;
	for (uint64_t i = weft_segment_of(pool, off); i <= last; i++)
		if (i < weft_segment_first(pool) ||
		    atomic_load_explicit(&pool->leases->segment[i], memory_order_relaxed) != word)
			return false;
	return true;
}
