/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory regions: making keys, ending them, and the first use of another member's key. */
#include "nic/errors.h"
#include "nic/mr.h"
#include "nic/mw.h"
#include "nic/nic.h"
#include "nic/place.h"
#include "pool/step.h"
#include "pool/format_region.h"
#include "pool/seen.h"
#include "pool/sizes.h"

#define IN_PLACE   UINT64_MAX
#define MAX_PIECES (1u << 28)
#define GENERATION ((1u << WEFT_KEY_BITS) - 1)
#define USES(id)   ((id) >> 32)

_Static_assert(WEFT_MR_INDEX_BITS + WEFT_KEY_BITS == 32, "a key is an index and a generation");

/* Head in place, one pooled run, tail in place: what nearly every registration gives. */
static bool one_run(const struct weft_mr_piece *pieces, unsigned int n, uint64_t va, uint64_t len,
		    struct weft_pool_mr *mr)
{
	unsigned int runs = 0;

	mr->lo = mr->hi = len; /* as if it began behind the end */
	for (unsigned int i = 0; i < n; i++) {
		if (pieces[i].off == IN_PLACE)
			continue;
		mr->off = pieces[i].off;
		if (mr->off >= WEFT_ON_DEVICE)
			continue;
		mr->lo = pieces[i].va - va;
		mr->hi = mr->lo + pieces[i].len_bytes;
		runs++;
	}
	return runs <= 1;
}

static int list_pieces(struct weft_nic *nic, struct weft_mr *mr, uint64_t va,
		       const struct weft_mr_piece *pieces, unsigned int n)
{
	struct weft_pool_piece *list;
	int err;

	mr->pieces_bytes = n * sizeof(*list);
	err = nic->pool->calls->alloc(nic->pool, mr->pieces_bytes, &mr->pieces_off);
	if (err)
		return err;
	list = (void *)(nic->pool->base + mr->pieces_off);
	for (unsigned int i = 0; i < n; i++)
		list[i] = (struct weft_pool_piece){pieces[i].va - va, pieces[i].off};
	WEFT_STEP(mr_pieces_listed);
	return 0;
}

/* The bytes of an entry, exclusively ored. */
static uint8_t fold(const struct weft_pool_mr *mr)
{
	const uint64_t *word = (const uint64_t *)mr;
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(*mr) / sizeof(*word); i++)
		sum ^= word
			[i]; /* NOLINT(clang-analyzer-core.uninitialized.Assign): callers fill it */
	sum ^= sum >> 32;
	sum ^= sum >> 16;
	return (uint8_t)(sum ^ sum >> 8);
}

uint32_t weft_mr_next_key(const struct weft_pool *pool, uint32_t index)
{
	uint64_t uses = USES(atomic_load_explicit(&pool->mrs[index].id, memory_order_relaxed)) + 1;

	return index << WEFT_KEY_BITS | (uses & GENERATION);
}

void weft_mr_publish(struct weft_pool *pool, uint32_t index, uint32_t key,
		     struct weft_pool_mr *entry)
{
	struct weft_pool_mr *shared = &pool->mrs[index];

	weft_store(&entry->id,
		   (USES(atomic_load_explicit(&shared->id, memory_order_relaxed)) + 1) << 32 | key);
	entry->check = 0;
	entry->check = fold(entry);
	__builtin_memcpy((char *)shared + sizeof(shared->id), (char *)entry + sizeof(entry->id),
			 sizeof(*entry) - sizeof(entry->id));
	WEFT_STEP(mr_written);
	/* release: pairs with the acquire in weft_mr_read */
	atomic_store_explicit(&shared->id, entry->id, memory_order_release);
}

/* The entry of a region, but for its key. */
static int draw(struct weft_nic *nic, struct weft_mr *mr, const struct weft_mr_drawing *d,
		struct weft_pool_mr *entry)
{
	int err;

	*entry = (struct weft_pool_mr){.owner = nic->pool->me,
				       .access = d->access,
				       .pd = d->pd,
				       .iova = d->iova,
				       .len_bytes = d->len_bytes,
				       .va = d->va};
	mr->nic = nic;
	mr->pieces_bytes = 0;
	mr->made = weft_pool_age(nic->pool);
	if (one_run(d->pieces, d->npieces, d->va, d->len_bytes, entry))
		return 0;
	err = list_pieces(nic, mr, d->va, d->pieces, d->npieces);
	if (err)
		return err;
	entry->off = mr->pieces_off;
	entry->lo = WEFT_MR_LISTED;
	entry->hi = d->npieces;
	WEFT_STEP(mr_pieces_listed);
	return 0;
}

int weft_mr_create(struct weft_nic *nic, struct weft_mr *mr, const struct weft_mr_drawing *d)
{
	struct weft_pool_mr entry;
	int err = nic->pool->calls->take_mr(nic->pool, &mr->index);

	if (err)
		return err;
	err = draw(nic, mr, d, &entry);
	if (err) {
		nic->pool->calls->drop_mr(nic->pool, mr->index);
		return err;
	}
	mr->key = weft_mr_next_key(nic->pool, mr->index);
	weft_mr_publish(nic->pool, mr->index, mr->key, &entry);
	return 0;
}

int weft_mr_replace(struct weft_mr *mr, struct weft_mr *old, const struct weft_mr_drawing *d,
		    bool *quiet)
{
	struct weft_nic *nic = old->nic;
	struct weft_pool_mr entry;
	int err = draw(nic, mr, d, &entry);

	if (err)
		return err;
	mr->index = old->index;
	mr->key = old->key;
	if (!weft_mr_close(old)) {
		if (mr->pieces_bytes)
			weft_mr_free_pieces(nic, mr->pieces_off, mr->pieces_bytes, true);
		return -EBUSY;
	}
	*quiet = weft_mr_revoke(old);
	if (old->pieces_bytes)
		weft_mr_free_pieces(nic, old->pieces_off, old->pieces_bytes, *quiet);
	weft_mr_publish(nic->pool, mr->index, mr->key, &entry);
	return 0;
}

void weft_mr_redraw(struct weft_mr *mr, const struct weft_mr_drawing *d)
{
	struct weft_mr_drawing in_place = *d;
	struct weft_nic *nic = mr->nic;
	struct weft_mr old = *mr;
	struct weft_pool_mr entry;

	/* memory that is all in place needs no list */
	in_place.npieces = 0;
	if (draw(nic, mr, d, &entry))
		draw(nic, mr, &in_place, &entry);
	if (old.pieces_bytes)
		weft_mr_free_pieces(nic, old.pieces_off, old.pieces_bytes, false);
	weft_mr_publish(nic->pool, mr->index, mr->key, &entry);
	WEFT_STEP(mr_redrawn);
	weft_mw_redraw(mr, &entry);
}

void weft_mr_store_ended(struct weft_pool *pool, uint32_t index)
{
	_Atomic uint64_t *id = &pool->mrs[index].id;

	atomic_store_explicit(id, USES(atomic_load_explicit(id, memory_order_relaxed)) << 32,
			      memory_order_relaxed);
}

bool weft_mr_end_key(struct weft_nic *nic, uint32_t index, uint64_t made)
{
	weft_mr_store_ended(nic->pool, index);
	WEFT_STEP(mr_key_ended);
	return !nic->pool->calls->quiesce(nic->pool, 0, made);
}

bool weft_mr_revoke(struct weft_mr *mr)
{
	return weft_mr_end_key(mr->nic, mr->index, mr->made);
}

void weft_mr_free_pieces(struct weft_nic *nic, uint64_t off, uint64_t bytes, bool quiet)
{
	if (quiet)
		nic->pool->calls->free(nic->pool, off, bytes);
	else
		nic->pool->calls->retire(nic->pool, WEFT_RETIRE_PIECE, off, bytes);
}

void weft_mr_destroy(struct weft_mr *mr, bool quiet)
{
	struct weft_pool *pool = mr->nic->pool;

	WEFT_STEP(mr_destroying);
	if (mr->pieces_bytes)
		weft_mr_free_pieces(mr->nic, mr->pieces_off, mr->pieces_bytes, quiet);
	if (quiet)
		pool->calls->drop_mr(pool, mr->index);
	else
		pool->calls->retire(pool, WEFT_RETIRE_MR, mr->index, 0);
}

bool weft_mr_read(struct weft_pool *pool, uint32_t key, struct weft_pool_mr *copy)
{
	uint32_t index = key >> WEFT_KEY_BITS;
	const struct weft_pool_mr *mr = &pool->mrs[index];

	if (!index || pool->calls->see_mr(pool, index))
		return false;
	/* acquire: pairs with the release in weft_mr_publish */
	weft_store(&copy->id, atomic_load_explicit(&mr->id, memory_order_acquire));
	__builtin_memcpy((char *)copy + sizeof(copy->id), (const char *)mr + sizeof(mr->id),
			 sizeof(*copy) - sizeof(copy->id));
	atomic_thread_fence(memory_order_acquire);
	return copy->key == key && atomic_load_explicit(&mr->id, memory_order_relaxed) == copy->id;
}

/* The entry may be damaged, and so may the list of pieces, which is checked at each use (place.c). */
static int touch(struct weft_pool *pool, const struct weft_pool_mr *mr)
{
	const struct weft_pool_piece *piece;
	uint64_t start, end, off;

	if (!weft_mr_is_listed(mr)) {
		if (mr->hi > mr->len_bytes)
			return -EINVAL;
		return mr->hi == mr->lo || pool->calls->populate(pool, mr->off, mr->hi - mr->lo)
			       ? 0
			       : -ENOMEM;
	}
	if (!mr->hi || mr->hi > MAX_PIECES)
		return -EINVAL;
	piece = pool->calls->populate(pool, mr->off, mr->hi * sizeof(*piece));
	if (!piece)
		return -ENOMEM;
	for (uint64_t i = 0; i < mr->hi; i++) {
		start = piece[i].start;
		end = i + 1 < mr->hi ? piece[i + 1].start : mr->len_bytes;
		off = piece[i].off;
		if (start > end || end > mr->len_bytes)
			return -EINVAL;
		if (off != IN_PLACE && !pool->calls->populate(pool, off, end - start))
			return -ENOMEM;
	}
	return 0;
}

int weft_mr_prepare(struct weft_pool *pool, uint32_t key)
{
	struct weft_pool_mr mr;
	int err;

	if (!weft_mr_read(pool, key, &mr) || fold(&mr))
		return -ENOENT;
	WEFT_STEP(mr_seen);
	err = touch(pool, &mr);
	return err ? err : pool->calls->keep_mr(pool, key >> WEFT_KEY_BITS, &mr);
}
