/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The programs of a node: slots that are taken, what is posted and asked there, and deaths. */
#include <string.h>

#include "card/torus/torus.h"

#define LOOK_NS	   100000000u
#define POSTS_ONCE 8u /* of one program, before the others' turn */

/* ---- Coming and going ---- */

static void list_guests(struct weft_torus_card *c)
{
	c->guests = 0;
	for (unsigned int i = 0; i < WEFT_POOL_APE_SLOTS; i++)
		if (c->guest[i].owner)
			c->here[c->guests++] = (uint8_t)i;
}

static void let_in(struct weft_torus_card *c)
{
	/* acquire: pairs with the release in occupy (pool/ape.c) */
	uint64_t claims = atomic_load_explicit(&c->shared->card.claims, memory_order_acquire);

	if (claims == c->claims)
		return;
	c->claims = claims;
	for (unsigned int i = 0; i < WEFT_POOL_APE_SLOTS; i++) {
		struct weft_pool_ape_slot *slot = &c->shared->slot[i];
		/* acquire: pairs with the release in occupy (pool/ape.c) */
		uint64_t owner = atomic_load_explicit(&slot->owner, memory_order_acquire);

		if (owner == c->guest[i].owner)
			continue;
		c->guest[i] = (struct weft_torus_guest){
			.owner = owner,
			.base = slot->base,
			.member = (uint16_t)(owner - 1),
			.stale = slot->life != c->engine.config.life,
		};
	}
	list_guests(c);
}

static void free_slot(struct weft_torus_card *c, unsigned int which)
{
	c->guest[which].owner = 0;
	list_guests(c);
	/* release: pairs with the acquire in is_free_slot (pool/ape.c) */
	atomic_store_explicit(&c->shared->slot[which].owner, 0, memory_order_release);
}

static bool has_left(const struct weft_torus_card *c, unsigned int which)
{
	/* acquire: pairs with the release in ape_close (ape/open.c) */
	return atomic_load_explicit(&c->shared->slot[which].leaves, memory_order_acquire) ==
	       c->guest[which].owner;
}

static void look_after(struct weft_torus_card *c, unsigned int which)
{
	struct weft_torus_guest *g = &c->guest[which];
	uint16_t member;

	if (!g->leaving &&
	    (has_left(c, which) || !weft_pool_ape_lives(c->pool, g->owner, &member))) {
		g->leaving = true;
		weft_ape_ni_leave(&c->engine, which);
	}
	if (g->leaving && weft_ape_ni_is_quiet(&c->engine, which))
		free_slot(c, which);
}

void weft_torus_guests_look(struct weft_torus_card *c)
{
	if (c->now_ns < c->look_ns)
		return;
	c->look_ns = c->now_ns + LOOK_NS;
	let_in(c);
	for (unsigned int i = c->guests; i--;)
		look_after(c, c->here[i]);
	weft_pool_watch(c->pool);
}

/* ---- What they ask for ---- */

static enum weft_pool_ape_result obey(struct weft_torus_card *c, unsigned int which,
				      const struct weft_pool_ape_command *command)
{
	const uint64_t rights = WEFT_APE_MAY_PUT | WEFT_APE_MAY_GET | WEFT_APE_RECEIVES;

	if (command->buffer >= WEFT_POOL_APE_BUFFERS)
		return WEFT_POOL_APE_WRONG;
	switch (command->op) {
	case WEFT_POOL_APE_REGISTER:
		if (command->rights & ~rights ||
		    !weft_ape_ni_register_at(&c->engine, which, command->buffer,
					     (uint8_t)command->rights, command->addr,
					     command->bytes, command->buffer))
			return WEFT_POOL_APE_WRONG;
		atomic_store_explicit(&c->shared->slot[which].count[command->buffer], 0,
				      memory_order_relaxed);
		return WEFT_POOL_APE_DONE;
	case WEFT_POOL_APE_UNREGISTER:
		return weft_ape_ni_withdraw(&c->engine, which, command->buffer)
			       ? WEFT_POOL_APE_DONE
			       : WEFT_POOL_APE_GONE;
	}
	return WEFT_POOL_APE_WRONG;
}

static bool serve_commands(struct weft_torus_card *c, unsigned int which)
{
	struct weft_pool_ape_slot *slot = &c->shared->slot[which];
	uint64_t n = atomic_load_explicit(&slot->answered, memory_order_relaxed);
	/* acquire: pairs with the release in ask_card (ape/memory.c) */
	uint64_t asked = atomic_load_explicit(&slot->asked, memory_order_acquire), first = n;

	for (; n != asked && n - first < WEFT_POOL_APE_COMMANDS; n++) {
		struct weft_pool_ape_command command = slot->command[n % WEFT_POOL_APE_COMMANDS];

		slot->answer[n % WEFT_POOL_APE_COMMANDS] = obey(c, which, &command);
		/* release: pairs with the acquire in await_answers (ape/memory.c) */
		atomic_store_explicit(&slot->answered, n + 1, memory_order_release);
	}
	if (n == first)
		return false;
	c->guest[which].told = c->any_told = true;
	return true;
}

static bool serve_posts(struct weft_torus_card *c, unsigned int which)
{
	struct weft_pool_ape_slot *slot = &c->shared->slot[which];
	uint64_t n = atomic_load_explicit(&slot->taken, memory_order_relaxed), first = n;
	/* acquire: pairs with the release in post_descriptor (ape/post.c) */
	uint64_t posted = atomic_load_explicit(&slot->posted, memory_order_acquire);
	uint8_t bytes[WEFT_POOL_APE_DESCRIPTOR];
	struct weft_ape_descriptor d;

	c->guest[which].blocked = false;
	for (; n != posted && n - first < POSTS_ONCE; n++) {
		memcpy(bytes, slot->post[n % WEFT_POOL_APE_POSTS], sizeof(bytes));
		weft_ape_descriptor_load(bytes, &d);
		if (!weft_ape_ni_post(&c->engine, which, &d, c->now_ns)) {
			c->guest[which].blocked = true;
			break;
		}
	}
	if (n == first)
		return false;
	/* release: pairs with the acquire in post_descriptor (ape/post.c): the descriptors have been read */
	atomic_store_explicit(&slot->taken, n, memory_order_release);
	/* A program that finds no room sleeps until something ends; only where none had room nothing may be about to end. */
	if (posted - first >= WEFT_POOL_APE_POSTS)
		c->guest[which].told = c->any_told = true;
	return true;
}

bool weft_torus_guests_serve(struct weft_torus_card *c)
{
	bool any = false;

	let_in(c);
	for (unsigned int i = c->guests; i--;)
		if (has_left(c, c->here[i]))
			look_after(c, c->here[i]);
	for (unsigned int i = 0; i < c->guests; i++) {
		const struct weft_torus_guest *g = &c->guest[c->here[i]];

		if (g->stale || g->leaving)
			continue;
		any |= serve_commands(c, c->here[i]);
		any |= serve_posts(c, c->here[i]);
	}
	return any;
}

bool weft_torus_guests_wait(const struct weft_torus_card *c)
{
	if (atomic_load_explicit(&c->shared->card.claims, memory_order_relaxed) != c->claims)
		return true;
	for (unsigned int i = 0; i < c->guests; i++) {
		const struct weft_pool_ape_slot *slot = &c->shared->slot[c->here[i]];
		const struct weft_torus_guest *g = &c->guest[c->here[i]];

		if (!g->leaving && has_left(c, c->here[i]))
			return true;
		if (g->stale || g->leaving)
			continue;
		if (atomic_load_explicit(&slot->asked, memory_order_relaxed) !=
			    atomic_load_explicit(&slot->answered, memory_order_relaxed) ||
		    (!g->blocked &&
		     atomic_load_explicit(&slot->posted, memory_order_relaxed) !=
			     atomic_load_explicit(&slot->taken, memory_order_relaxed)))
			return true;
	}
	return false;
}

void weft_torus_guests_dismiss(struct weft_torus_card *c)
{
	for (unsigned int i = 0; i < c->guests; i++)
		c->guest[c->here[i]].told = c->any_told = true;
	weft_torus_guests_tell(c);
}

void weft_torus_guests_tell(struct weft_torus_card *c)
{
	if (!c->any_told)
		return;
	c->any_told = false;
	for (unsigned int i = 0; i < c->guests; i++) {
		struct weft_torus_guest *g = &c->guest[c->here[i]];
		struct weft_pool_ape_slot *slot = &c->shared->slot[c->here[i]];

		if (!g->told)
			continue;
		g->told = false;
		/* release: pairs with the acquire in ape_wait (ape/post.c) */
		atomic_fetch_add_explicit(&slot->told, 1, memory_order_release);
		weft_door_knock((struct weft_door *)&slot->door);
	}
}
