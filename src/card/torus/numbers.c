/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the card says of itself: in its page of the pool, and its registers at its door. */
#include "card/torus/torus.h"
#include "wire/ape/regs.h"

static void store_number(_Atomic uint64_t *where, uint64_t value)
{
	atomic_store_explicit(where, value, memory_order_relaxed);
}

_Static_assert((unsigned int)WEFT_POOL_APE_KINDS == WEFT_APE_KINDS, "kinds of beats");
_Static_assert(WEFT_POOL_APE_CABLES == WEFT_APE_CABLES, "cables");
_Static_assert(WEFT_POOL_APE_SLOTS == WEFT_APE_PROCESSES, "processes");
_Static_assert(WEFT_POOL_APE_DESCRIPTOR == WEFT_APE_DESCRIPTOR_BYTES, "descriptors");

void weft_torus_numbers(const struct weft_torus_card *c)
{
	struct weft_pool_ape_card *page = &c->shared->card;
	const struct weft_ape_counters *n = &c->engine.counters;
	uint64_t again = 0;

	for (unsigned int i = 0; i < WEFT_APE_CABLES; i++) {
		if (!c->cable[i].there)
			continue;
		for (unsigned int k = 0; k < WEFT_APE_KINDS; k++) {
			store_number(&page->cable[i].sent[k], c->engine.node.tx[i].beats[k]);
			store_number(&page->cable[i].received[k], c->engine.node.rx[i].beats[k]);
		}
		store_number(&page->cable[i].went_down, c->engine.node.went_down[i]);
	}
	for (uint64_t left = c->engine.peers; left;) {
		const struct weft_ape_peer *p = &c->engine.peer[weft_ape_next_bit(&left)];

		for (unsigned int k = 0; k < WEFT_APE_CLASSES; k++)
			again += p->flow[k].again;
	}
	store_number(&page->up, c->engine.node.router.up);
	store_number(&page->packets, n->packets);
	store_number(&page->again, again);
	store_number(&page->refused, n->refused);
	store_number(&page->no_room, n->no_room);
	store_number(&page->bad, n->bad_crc + n->bad_way + n->bad_life + n->filler);
	store_number(&page->put_bytes, n->put_bytes);
	store_number(&page->get_bytes, n->get_bytes);
	store_number(&page->send_bytes, n->send_bytes);
}

/* ---- Registers ---- */

bool weft_torus_registers_wait(const struct weft_torus_card *c)
{
	return (atomic_load_explicit(&c->door->asked, memory_order_relaxed) ^
		atomic_load_explicit(&c->door->answered, memory_order_relaxed)) &
	       WEFT_TORUS_REG_SERIAL;
}

void weft_torus_registers_serve(struct weft_torus_card *c)
{
	uint64_t asked = atomic_load_explicit(&c->door->asked, memory_order_relaxed);
	unsigned int number = asked >> WEFT_TORUS_REG_NUMBER & WEFT_TORUS_REG_MASK;
	uint64_t answer = asked & WEFT_TORUS_REG_SERIAL;

	if (!weft_torus_registers_wait(c))
		return;
	if (asked & WEFT_TORUS_REG_FLAG && !weft_ape_reg_write(&c->engine, number, (uint32_t)asked))
		answer |= WEFT_TORUS_REG_FLAG;
	answer |= weft_ape_reg_read(&c->engine, number);
	atomic_store_explicit(&c->door->answered, answer, memory_order_relaxed);
}
