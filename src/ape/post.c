/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Descriptors to the card, and events from it: nothing here allocates. */
#include <errno.h>
#include <string.h>

#include "ape/private.h"
#include "pool/clock.h"

#define LOOK_NS 100000000 /* between looks whether the card lives */

/* The opcodes of wire/ape/world.h. */
enum {
	OP_PUT,
	OP_GET,
	OP_SEND,
};

static void store_le(uint8_t *to, uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

/* X in 5:0, Y in 10:6, Z in 15:11. */
static uint32_t pack(const struct ape *a, uint32_t rank)
{
	const uint32_t *size = a->info.size;

	return rank % size[0] | rank / size[0] % size[1] << 6 | rank / size[0] / size[1] << 11;
}

static uint32_t unpack(const struct ape *a, uint32_t packed)
{
	return ape_rank(a, packed & 63, packed >> 6 & 31, packed >> 11 & 31);
}

static int post_descriptor(struct ape *a, uint8_t opcode, uint32_t rank, uint32_t process,
			   const void *local, uint64_t bytes, uint64_t remote, uint64_t tag)
{
	uint8_t d[WEFT_POOL_APE_DESCRIPTOR] = {opcode};
	int err = 0;

	if (rank >= a->info.nodes || process > UINT16_MAX)
		return -EINVAL;
	store_le(d + 2, process, 2);
	store_le(d + 4, pack(a, rank), 2);
	store_le(d + 8, bytes, 8);
	store_le(d + 16, (uint64_t)(uintptr_t)local, 8);
	store_le(d + 24, remote, 8);
	store_le(d + 32, tag, 8);
	pthread_mutex_lock(&a->mutex);
	if (!weft_ape_has_card(a)) {
		err = -ENETDOWN;
	} else if (a->owed >= WEFT_POOL_APE_EVENTS ||
		   /* acquire: pairs with the release in serve_posts (card/torus/guests.c) */
		   a->posted - atomic_load_explicit(&a->slot->taken, memory_order_acquire) >=
			   WEFT_POOL_APE_POSTS) {
		err = -EAGAIN;
	} else {
		memcpy(a->slot->post[a->posted++ % WEFT_POOL_APE_POSTS], d, sizeof(d));
		a->owed++;
		/* release: pairs with the acquire in serve_posts (card/torus/guests.c) */
		atomic_store_explicit(&a->slot->posted, a->posted, memory_order_release);
	}
	pthread_mutex_unlock(&a->mutex);
	if (!err)
		weft_door_knock(&a->door->door);
	return err;
}

int ape_put(struct ape *a, uint32_t rank, uint32_t process, const void *local, uint64_t bytes,
	    uint64_t remote, uint64_t tag)
{
	return post_descriptor(a, OP_PUT, rank, process, local, bytes, remote, tag);
}

int ape_get(struct ape *a, uint32_t rank, uint32_t process, void *local, uint64_t bytes,
	    uint64_t remote, uint64_t tag)
{
	return post_descriptor(a, OP_GET, rank, process, local, bytes, remote, tag);
}

int ape_send(struct ape *a, uint32_t rank, uint32_t process, const void *local, uint64_t bytes,
	     uint64_t tag)
{
	return post_descriptor(a, OP_SEND, rank, process, local, bytes, 0, tag);
}

/* ---- Events ---- */

/* Turns the card's event into the program's: to the card the tag of a receive is its buffer's number. */
static void translate(struct ape *a, const struct weft_pool_ape_event *from, struct ape_event *to)
{
	*to = (struct ape_event){
		.kind = from->kind,
		.status = from->status,
		.tag = from->tag,
		.bytes = from->bytes,
		.rank = unpack(a, from->from),
		.process = from->channel,
	};
	if (to->kind == APE_RECEIVED && from->tag < APE_BUFFERS) {
		to->tag = a->tag[from->tag];
		a->use[from->tag] = WEFT_APE_FREE;
	}
}

int ape_poll(struct ape *a, struct ape_event *event, int most)
{
	struct weft_pool_ape_slot *slot = a->slot;
	uint64_t events;
	int n = 0;

	pthread_mutex_lock(&a->mutex);
	/* acquire: pairs with the release in write_event (card/torus/world.c) */
	events = atomic_load_explicit(&slot->events, memory_order_acquire);
	for (; n < most && a->polled != events; n++, a->polled++) {
		translate(a, &slot->event[a->polled % WEFT_POOL_APE_EVENTS], &event[n]);
		a->owed--;
	}
	/* release: pairs with the acquire in write_event (card/torus/world.c) */
	if (n)
		atomic_store_explicit(&slot->polled, a->polled, memory_order_release);
	pthread_mutex_unlock(&a->mutex);
	return n;
}

/* Several threads may sleep here, so that none calls weft_door_get_up. */
int ape_wait(struct ape *a, uint64_t *seen, int64_t timeout_ns)
{
	uint64_t until = weft_clock_now_ns() + (uint64_t)timeout_ns;

	for (;;) {
		uint32_t knocks = weft_door_lie_down(weft_ape_door(a));
		/* acquire: pairs with the release in weft_torus_guests_tell (card/torus/guests.c) */
		uint64_t told = atomic_load_explicit(&a->slot->told, memory_order_acquire) + 1;
		int64_t left = LOOK_NS;

		if (told != *seen) {
			*seen = told;
			return 1;
		}
		if (!weft_ape_ni_lives(a))
			return -ENETDOWN;
		if (atomic_load(&a->ends))
			return 0;
		if (timeout_ns >= 0)
			left = (int64_t)(until - weft_clock_now_ns());
		if (left <= 0)
			return 0;
		weft_door_sleep(weft_ape_door(a), knocks, left < LOOK_NS ? left : LOOK_NS);
	}
}
