/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the engine asks of the card: beats onto cables, bytes of programs, counters and events.
 *
 * Memory that a program has from the pool is reached there; other memory of it by the kernel's
 * process_vm calls, where they are allowed. Either while a visit holds back the member that would
 * give to others what a dead program had.
 */
#include <errno.h>
#include <string.h>

#include "card/torus/torus.h"
#include "link/crc32c.h"
#include "process/reach.h"

static void send_beat(void *owner, unsigned int cable, const struct weft_ape_beat *beat)
{
	struct weft_torus_card *c = owner;

	if (c->cable[cable].phy) {
		weft_torus_lanes_send(&c->cable[cable], beat);
		return;
	}
	weft_ring_put(&c->cable[cable].out, beat->quad);
}

static void send_words(void *owner, unsigned int cable, const struct weft_ape_word *words,
		       unsigned int count)
{
	struct weft_torus_card *c = owner;
	struct weft_cable_ring *out = &c->cable[cable].out;

	/* the two halves of a word are quads of the cable as they stand */
	weft_ring_put_run(out, &words->lo, 2 * count / out->quads);
}

/* ---- Memory ---- */

/* Stores the last bytes last: programs look at them to know that all have come. */
static void store(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	uint32_t body = bytes > 8 ? bytes - 8 : 0;
	uint64_t word;

	memcpy(to, from, body);
	if (bytes >= 8 && !((uintptr_t)(to + body) % 8)) {
		memcpy(&word, from + body, 8);
		/* release: pairs with the acquire of a program that looks there */
		atomic_store_explicit((_Atomic uint64_t *)(to + body), word, memory_order_release);
		return;
	}
	for (; body < bytes; body++)
		atomic_store_explicit((_Atomic uint8_t *)(to + body), from[body],
				      memory_order_release);
}

static bool in_pool(struct weft_torus_card *c, const struct weft_torus_guest *g, uint64_t off,
		    uint8_t *here, uint32_t bytes, bool write)
{
	uint8_t *there = weft_lease_covers(c->pool, g->owner, off, bytes)
				 ? weft_pool_window(c->pool, off, bytes)
				 : NULL;

	if (!there)
		return false;
	if (write)
		store(there, here, bytes);
	else
		memcpy(here, there, bytes);
	return true;
}

static bool copy_guest(struct weft_torus_card *c, unsigned int process, uint64_t addr, void *here,
		       uint32_t bytes, bool write)
{
	const struct weft_torus_guest *g = &c->guest[process];
	uint64_t witness;
	bool done = false;
	uint32_t pid;

	if (!g->owner || g->stale || g->leaving)
		return false;
	weft_pool_visit(c->pool, g->member);
	if (weft_pool_visit_holds(c->pool, g->member, g->owner >> 16, &pid, &witness))
		done = addr - g->base < c->pool->bytes
			       ? in_pool(c, g, addr - g->base, here, bytes, write)
			       : pid && !weft_reach_by_kernel((pid_t)pid, witness, addr, here,
							      bytes, write);
	weft_pool_depart(c->pool);
	return done;
}

static bool read_for_guest(void *owner, unsigned int process, uint64_t addr, void *to,
			   uint32_t bytes)
{
	return copy_guest(owner, process, addr, to, bytes, false);
}

static bool place_for_guest(void *owner, unsigned int process, uint64_t addr, const void *from,
			    uint32_t bytes)
{
	return copy_guest(owner, process, addr, (void *)(uintptr_t)from, bytes, true);
}

/* ---- What programs are told ---- */

static void note_told(struct weft_torus_card *c, unsigned int process)
{
	c->guest[process].told = true;
	c->any_told = true;
}

static void count_message(void *owner, unsigned int process, uint32_t buffer, uint64_t value)
{
	struct weft_torus_card *c = owner;

	/* release: the bytes of the message before it; pairs with the acquire in ape_count (ape/memory.c) */
	atomic_store_explicit(&c->shared->slot[process].count[buffer], value, memory_order_release);
	note_told(c, process);
}

static void write_event(void *owner, unsigned int process, const struct weft_ape_event *e)
{
	struct weft_torus_card *c = owner;
	struct weft_pool_ape_slot *slot = &c->shared->slot[process];
	uint64_t n = atomic_load_explicit(&slot->events, memory_order_relaxed);

	/* acquire: pairs with the release in ape_poll (ape/post.c): it has read what stood there */
	if (n - atomic_load_explicit(&slot->polled, memory_order_acquire) >= WEFT_POOL_APE_EVENTS) {
		atomic_fetch_add_explicit(&slot->lost, 1, memory_order_relaxed);
		return;
	}
	slot->event[n % WEFT_POOL_APE_EVENTS] = (struct weft_pool_ape_event){
		.kind = (uint8_t)e->kind,
		.status = (uint8_t)e->status,
		.channel = e->channel,
		.from = weft_ape_coord_pack(e->from),
		.tag = e->tag,
		.bytes = e->bytes,
	};
	/* release: pairs with the acquire in ape_poll (ape/post.c) */
	atomic_store_explicit(&slot->events, n + 1, memory_order_release);
	note_told(c, process);
}

static void take_verbs(void *owner, struct weft_ape_coord from, const uint8_t *payload,
		       uint32_t bytes)
{
	weft_torus_verbs_receive(owner, from, payload, bytes);
}

const struct weft_ape_world weft_torus_world = {
	.send = send_beat,
	.send_words = send_words,
	.read = read_for_guest,
	.place = place_for_guest,
	.crc32c = weft_crc32c,
	.count = count_message,
	.verbs = take_verbs,
	.event = write_event,
};
