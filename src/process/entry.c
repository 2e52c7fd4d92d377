/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/entry.h"

#include "pool/step.h"
#include "process/process.h"

#define GENERATION_BITS 10u

_Static_assert(WEFT_MR_INDEX_BITS + GENERATION_BITS == 30 && GENERATION_BITS <= WEFT_KEY_BITS,
	       "a number leaves the bits of windows and objects free");

static uint32_t number_of(uint32_t key)
{
	return key >> WEFT_KEY_BITS | (key & ((1u << GENERATION_BITS) - 1)) << WEFT_MR_INDEX_BITS;
}

static struct weft_pool_mr *shared_of(const struct weft_entry *entry)
{
	return &weft_process.pool->mrs[entry->nic.index];
}

int weft_entry_make(struct weft_entry *entry, enum weft_object what, uint64_t family,
		    uint64_t about, const struct weft_mr_piece *run)
{
	const struct weft_mr_drawing drawing = {.pd = what,
						.iova = family,
						.va = about,
						.len_bytes = run ? run->len_bytes : 0,
						.pieces = run,
						.npieces = run ? 1 : 0};
	int err = weft_mr_create(&weft_process.nic, &entry->nic, &drawing);

	if (!err)
		entry->number = number_of(entry->nic.key);
	return err;
}

void weft_entry_drop(struct weft_entry *entry)
{
	weft_mr_store_ended(weft_process.pool, entry->nic.index);
	weft_mr_destroy(&entry->nic, true);
}

bool weft_entry_end(struct weft_entry *entry)
{
	bool quiet = weft_mr_revoke(&entry->nic);

	weft_mr_destroy(&entry->nic, quiet);
	return quiet;
}

/* ---- Domains ---- */

_Atomic uint32_t *weft_entry_users(const struct weft_entry *entry)
{
	return &shared_of(entry)->users;
}

static bool uses(const struct weft_pool_mr *import, uint32_t domain)
{
	return (uint32_t)atomic_load_explicit(&import->id, memory_order_acquire) &&
	       import->pd == WEFT_OBJECT_IMPORT && import->va == domain &&
	       atomic_load(&import->users);
}

static bool is_used_in(struct weft_pool *pool, uint32_t block, uint32_t domain)
{
	uint64_t lease = atomic_load_explicit(&pool->leases->mr_block[block], memory_order_acquire);

	if (!lease || weft_pool_see_mr(pool, block * WEFT_MR_BLOCK))
		return false;
	for (uint32_t i = 0; i < WEFT_MR_BLOCK; i++)
		if (uses(&pool->mrs[block * WEFT_MR_BLOCK + i], domain) &&
		    weft_pool_alive(pool, (uint16_t)((lease & 0xffff) - 1), lease >> 16))
			return true;
	return false;
}

static bool is_used(struct weft_pool *pool, uint32_t domain)
{
	for (uint32_t i = 0; i < WEFT_BLOCKS; i++)
		if (is_used_in(pool, i, domain))
			return true;
	return false;
}

bool weft_entry_end_domain(struct weft_entry *entry)
{
	_Atomic uint64_t *id = &shared_of(entry)->id;
	uint64_t was = atomic_load_explicit(id, memory_order_relaxed), asked = was | WEFT_MR_ASKED;

	atomic_store_explicit(id, asked, memory_order_relaxed);
	/* pairs with that in weft_entry_keep: we find it below, or it finds us */
	atomic_thread_fence(memory_order_seq_cst);
	WEFT_STEP(entry_domain_asked);
	WEFT_TURN(entry_domain_asked);
	if (is_used(weft_process.pool, entry->number)) {
		atomic_store_explicit(id, was, memory_order_release);
		return false;
	}
	WEFT_TURN(entry_domain_unused);
	if (!atomic_compare_exchange_strong(id, &asked, was & ~(uint64_t)UINT32_MAX))
		return false;
	weft_mr_destroy(&entry->nic, true);
	return true;
}

bool weft_entry_keep(const struct weft_pool_mr *copy)
{
	_Atomic uint64_t *id = &weft_process.pool->mrs[copy->key >> WEFT_KEY_BITS].id;
	uint64_t asked = copy->id | WEFT_MR_ASKED;

	/* pairs with that in weft_entry_end_domain */
	atomic_thread_fence(memory_order_seq_cst);
	/* a thread that has taken it away or put it back before us leaves the id as it was; the one that ends it does not */
	return atomic_compare_exchange_strong(id, &asked, copy->id) || asked == copy->id;
}

/* ---- By others ---- */

/* Whether its maker asks for its end or not. */
static uint64_t id_of(const struct weft_pool_mr *shared, memory_order order)
{
	return atomic_load_explicit(&shared->id, order) & ~WEFT_MR_ASKED;
}

bool weft_entry_read(uint32_t key, struct weft_pool_mr *copy)
{
	uint32_t index = key >> WEFT_KEY_BITS;
	const struct weft_pool_mr *shared = &weft_process.pool->mrs[index];
	uint64_t id;

	if (!index || weft_pool_see_mr(weft_process.pool, index))
		return false;
	/* acquire: pairs with the release in weft_mr_publish */
	id = id_of(shared, memory_order_acquire);
	__builtin_memcpy((char *)copy + sizeof(copy->id), (const char *)shared + sizeof(shared->id),
			 sizeof(*copy) - sizeof(copy->id));
	copy->id = id;
	atomic_thread_fence(memory_order_acquire);
	return (uint32_t)id == key && id_of(shared, memory_order_relaxed) == id;
}

bool weft_entry_find(enum weft_object what, uint64_t family, uint32_t number,
		     struct weft_pool_mr *copy)
{
	uint32_t index = number & (WEFT_MRS - 1);
	uint32_t key;

	if (!index || weft_pool_see_mr(weft_process.pool, index))
		return false;
	key = (uint32_t)atomic_load_explicit(&weft_process.pool->mrs[index].id,
					     memory_order_relaxed);
	return number_of(key) == number && weft_entry_read(key, copy) && copy->pd == what &&
	       (!family || copy->iova == family);
}

bool weft_entry_lasts(const struct weft_pool_mr *copy)
{
	return id_of(&weft_process.pool->mrs[copy->key >> WEFT_KEY_BITS], memory_order_acquire) ==
	       copy->id;
}
