/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/object.h"

#include "pool/step.h"
#include "pool/format.h"
#include "process/process.h"

#define GENERATION_BITS (30 - WEFT_OBJECT_INDEX_BITS)

static struct weft_pool_object *entry(uint32_t index)
{
	return &weft_process.pool->objects[index];
}

static uint32_t index_of(uint32_t number)
{
	return number & (WEFT_OBJECTS - 1);
}

/* As `id`: how many objects had the entry, above, and the number of that one. */
static uint64_t next_object(uint32_t index)
{
	uint64_t uses = (atomic_load_explicit(&entry(index)->id, memory_order_relaxed) >> 32) + 1;

	return uses << 32 | (uses & ((1u << GENERATION_BITS) - 1)) << WEFT_OBJECT_INDEX_BITS |
	       index;
}

int weft_object_make(struct weft_object *object, const struct weft_pool_object *about)
{
	struct weft_pool_object *to;
	uint64_t id;
	int err = weft_pool_take_object(weft_process.pool, &object->index);

	if (err)
		return err;
	to = entry(object->index);
	id = next_object(object->index);
	/* release: pairs with the acquire fence in read_object: a reader of what follows sees that the object before has
	 * ended */
	atomic_thread_fence(memory_order_release);
	to->owner = weft_process.pool->me;
	to->kind = about->kind;
	to->domain = about->domain;
	to->family = about->family;
	to->off = about->off;
	to->len_bytes = about->len_bytes;
	atomic_store_explicit(&to->users, 0, memory_order_relaxed);
	WEFT_STEP(object_written);
	/* release: pairs with the acquire in read_object */
	atomic_store_explicit(&to->id, id, memory_order_release);
	object->number = (uint32_t)id;
	object->made = weft_pool_age(weft_process.pool);
	return 0;
}

static void store_ended(uint32_t index)
{
	_Atomic uint64_t *id = &entry(index)->id;
	uint64_t last = atomic_load_explicit(id, memory_order_relaxed);

	atomic_store_explicit(id, last & ~(uint64_t)UINT32_MAX, memory_order_relaxed);
}

void weft_object_drop(struct weft_object *object)
{
	store_ended(object->index);
	WEFT_STEP(object_ended);
	weft_pool_drop_object(weft_process.pool, object->index);
}

bool weft_object_end(struct weft_object *object)
{
	bool quiet;

	store_ended(object->index);
	quiet = !weft_pool_quiesce(weft_process.pool, 0, object->made);
	/* even beside a visitor that stands still: the id tells the next object from this one */
	weft_pool_drop_object(weft_process.pool, object->index);
	return quiet;
}

/* ---- Domains ---- */

_Atomic uint32_t *weft_object_users(const struct weft_object *object)
{
	return &entry(object->index)->users;
}

static bool uses(const struct weft_pool_object *import, uint32_t domain)
{
	return (uint32_t)atomic_load_explicit(&import->id, memory_order_acquire) &&
	       import->kind == WEFT_OBJECT_IMPORT && import->domain == domain &&
	       atomic_load(&import->users);
}

static bool is_used_in(struct weft_pool *pool, uint32_t block, uint32_t domain)
{
	uint64_t lease =
		atomic_load_explicit(&pool->leases->object_block[block], memory_order_acquire);

	if (!lease || weft_pool_see_object(pool, block * WEFT_OBJECT_BLOCK))
		return false;
	for (uint32_t i = 0; i < WEFT_OBJECT_BLOCK; i++)
		if (uses(&pool->objects[block * WEFT_OBJECT_BLOCK + i], domain) &&
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

bool weft_object_end_domain(struct weft_object *object)
{
	_Atomic uint64_t *id = &entry(object->index)->id;
	uint64_t was = atomic_load_explicit(id, memory_order_relaxed);
	uint64_t asked = was | WEFT_OBJECT_ASKED;

	atomic_store_explicit(id, asked, memory_order_relaxed);
	/* pairs with that in weft_object_keep: we find it below, or it finds us */
	atomic_thread_fence(memory_order_seq_cst);
	WEFT_STEP(object_domain_asked);
	WEFT_TURN(object_domain_asked);
	if (is_used(weft_process.pool, object->number)) {
		atomic_store_explicit(id, was, memory_order_release);
		return false;
	}
	WEFT_TURN(object_domain_unused);
	if (!atomic_compare_exchange_strong(id, &asked, was & ~(uint64_t)UINT32_MAX))
		return false;
	weft_pool_drop_object(weft_process.pool, object->index);
	return true;
}

bool weft_object_keep(const struct weft_pool_object *copy)
{
	_Atomic uint64_t *id = &entry(index_of((uint32_t)copy->id))->id;
	uint64_t asked = copy->id | WEFT_OBJECT_ASKED;

	/* pairs with that in weft_object_end_domain */
	atomic_thread_fence(memory_order_seq_cst);
	/* a thread that has taken it away or put it back before us leaves the id as it was; the one that ends it does not */
	return atomic_compare_exchange_strong(id, &asked, copy->id) || asked == copy->id;
}

/* ---- By others ---- */

/* Without the mark by which its owner asks for its end. */
static uint64_t id_of(const struct weft_pool_object *object, memory_order order)
{
	return atomic_load_explicit(&object->id, order) & ~WEFT_OBJECT_ASKED;
}

static bool read_object(uint32_t number, struct weft_pool_object *copy)
{
	const struct weft_pool_object *from = entry(index_of(number));
	/* acquire: pairs with the release in weft_object_make */
	uint64_t id = id_of(from, memory_order_acquire);

	__builtin_memcpy((char *)copy + sizeof(copy->id), (const char *)from + sizeof(from->id),
			 sizeof(*copy) - sizeof(copy->id));
	weft_store(&copy->id, id);
	atomic_thread_fence(memory_order_acquire);
	return (uint32_t)id == number && id_of(from, memory_order_relaxed) == id;
}

bool weft_object_find(enum weft_object_kind kind, uint64_t family, uint32_t number,
		      struct weft_pool_object *copy)
{
	uint32_t index = index_of(number);

	return index && !weft_pool_see_object(weft_process.pool, index) &&
	       read_object(number, copy) && copy->kind == kind && copy->family == family;
}

bool weft_object_lasts(const struct weft_pool_object *copy)
{
	return id_of(entry(index_of((uint32_t)copy->id)), memory_order_acquire) == copy->id;
}
