/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory regions: making keys, ending them, and the first use of somebody's key. */
#include "nic/nic.h"
#include "nic/place.h"

#define IN_PLACE   UINT64_MAX
#define GENERATION ((1u << WEFT_KEY_BITS) - 1)

_Static_assert(WEFT_MR_INDEX_BITS + WEFT_KEY_BITS == 32, "a key is an index and a generation");

/* Head in place, one pooled run, tail in place: what nearly every registration gives. */
static bool one_run(const struct weft_mr_piece *pieces, unsigned int n, uint64_t va, uint64_t len,
		    struct weft_pool_mr *mr)
{
	unsigned int runs = 0;

	mr->lo = mr->hi = len;
	for (unsigned int i = 0; i < n; i++) {
		if (pieces[i].off == IN_PLACE)
			continue;
		mr->off = pieces[i].off;
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
	err = weft_pool_alloc(nic->pool, mr->pieces_bytes, &mr->pieces_off);
	if (err)
		return err;
	list = (void *)(nic->pool->base + mr->pieces_off);
	for (unsigned int i = 0; i < n; i++)
		list[i] = (struct weft_pool_piece){ pieces[i].va - va, pieces[i].off };
	return 0;
}

int weft_mr_create(struct weft_nic *nic, struct weft_mr *mr, uint32_t pd, uint8_t access,
		   uint64_t iova, uint64_t va, uint64_t len_bytes,
		   const struct weft_mr_piece *pieces, unsigned int npieces)
{
	struct weft_pool_mr *entry;
	int err = weft_pool_take_mr(nic->pool, &mr->index);

	if (err)
		return err;
	mr->nic = nic;
	mr->pieces_bytes = 0;
	entry = &nic->pool->mrs[mr->index];
	entry->owner = nic->pool->me;
	entry->access = access;
	entry->pd = pd;
	entry->iova = iova;
	entry->len_bytes = len_bytes;
	entry->va = va;
	entry->npieces = 0;
	if (!one_run(pieces, npieces, va, len_bytes, entry)) {
		err = list_pieces(nic, mr, va, pieces, npieces);
		if (err)
			goto drop_entry;
		entry->off = mr->pieces_off;
		entry->npieces = npieces;
		entry->lo = entry->hi = len_bytes;
	}
	mr->key = mr->index << WEFT_KEY_BITS |
		  ((atomic_load_explicit(&entry->key, memory_order_relaxed) + 1) & GENERATION);
	/* release: pairs with the acquire in weft_mr_find */
	atomic_store_explicit(&entry->key, mr->key, memory_order_release);
	return 0;
drop_entry:
	weft_pool_drop_mr(nic->pool, mr->index);
	return err;
}

int weft_mr_revoke(struct weft_mr *mr)
{
	atomic_store_explicit(&mr->nic->pool->mrs[mr->index].key, mr->key & GENERATION,
			      memory_order_relaxed);
	return weft_pool_quiesce(mr->nic->pool);
}

void weft_mr_destroy(struct weft_mr *mr)
{
	if (mr->pieces_bytes)
		weft_pool_free(mr->nic->pool, mr->pieces_off, mr->pieces_bytes);
	weft_pool_drop_mr(mr->nic->pool, mr->index);
}

static int populate(struct weft_pool *pool, const struct weft_pool_mr *mr)
{
	const struct weft_pool_piece *piece;
	uint32_t n = mr->npieces;

	if (!n)
		return mr->hi == mr->lo || weft_pool_populate(pool, mr->off, mr->hi - mr->lo) ? 0 : -12;
	piece = weft_pool_populate(pool, mr->off, n * sizeof(*piece));
	if (!piece)
		return -12;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t end = i + 1 < n ? piece[i + 1].start : mr->len_bytes;

		if (piece[i].off != IN_PLACE &&
		    !weft_pool_populate(pool, piece[i].off, end - piece[i].start))
			return -12;
	}
	return 0;
}

int weft_mr_prepare(struct weft_pool *pool, uint32_t key)
{
	uint32_t index = key >> WEFT_KEY_BITS;
	int err;

	if (!index || weft_pool_see_mr(pool, index))
		return -2;
	/* acquire: pairs with the release in weft_mr_create */
	if (atomic_load_explicit(&pool->mrs[index].key, memory_order_acquire) != key)
		return -2;
	err = populate(pool, &pool->mrs[index]);
	if (!err)
		atomic_store_explicit(&pool->mr_ready[index], key, memory_order_relaxed);
	return err;
}
