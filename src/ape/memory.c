/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory, and the buffers that others reach: what is asked of the card. */
#include <errno.h>
#include <string.h>

#include "ape/private.h"

#define RIGHTS	  (APE_MAY_PUT | APE_MAY_GET)
#define RECEIVES  4u
#define ADDRESSES (UINT64_C(1) << 48)
#define LOOK_NS	  50000000 /* between looks whether the card lives */

void *ape_alloc(struct ape *ape, uint64_t bytes)
{
	uint64_t off;

	if (!bytes || weft_pool_extent_alloc(ape->pool, bytes, &off))
		return NULL;
	return weft_pool_populate(ape->pool, off, bytes);
}

void ape_free(struct ape *ape, void *at, uint64_t bytes)
{
	if (at)
		weft_pool_extent_free(ape->pool, (uint64_t)((uint8_t *)at - ape->pool->base),
				      bytes);
}

/* ---- Asking ---- */

/* Waits until the card has answered so many commands. The mutex is held. */
static int await_answers(struct ape *a, uint64_t answered)
{
	for (;;) {
		uint32_t seen = weft_door_lie_down(weft_ape_door(a));

		/* acquire: pairs with the release in serve_commands (card/torus/guests.c) */
		if ((int64_t)(atomic_load_explicit(&a->slot->answered, memory_order_acquire) -
			      answered) >= 0)
			return 0;
		if (!weft_ape_ni_lives(a))
			return -ENETDOWN;
		weft_door_sleep(weft_ape_door(a), seen, LOOK_NS);
	}
}

static int ask_card(struct ape *a, const struct weft_pool_ape_command *command, bool wait)
{
	uint64_t n = a->asked;
	int err =
		weft_ape_has_card(a) ? await_answers(a, n + 1 - WEFT_POOL_APE_COMMANDS) : -ENETDOWN;

	if (err)
		return err;
	a->slot->command[n % WEFT_POOL_APE_COMMANDS] = *command;
	a->asked = n + 1;
	/* release: pairs with the acquire in serve_commands (card/torus/guests.c) */
	atomic_store_explicit(&a->slot->asked, n + 1, memory_order_release);
	weft_door_knock(&a->door->door);
	if (!wait)
		return 0;
	err = await_answers(a, n + 1);
	if (err)
		return err;
	switch ((enum weft_pool_ape_result)a->slot->answer[n % WEFT_POOL_APE_COMMANDS]) {
	case WEFT_POOL_APE_DONE:
		return 0;
	case WEFT_POOL_APE_GONE:
		return -ENOENT;
	case WEFT_POOL_APE_WRONG:
		break;
	}
	return -EINVAL;
}

static int find_free(const struct ape *a)
{
	for (int i = 0; i < APE_BUFFERS; i++)
		if (a->use[i] == WEFT_APE_FREE)
			return i;
	return -ENOSPC;
}

static bool is_range(const void *at, uint64_t bytes)
{
	return bytes <= ADDRESSES && (uint64_t)(uintptr_t)at <= ADDRESSES - bytes;
}

static int begin_buffer(struct ape *a, const void *at, uint64_t bytes, uint64_t rights, bool wait)
{
	int buffer = find_free(a), err;
	struct weft_pool_ape_command command = {
		.op = WEFT_POOL_APE_REGISTER,
		.buffer = (uint32_t)buffer,
		.rights = rights,
		.addr = (uint64_t)(uintptr_t)at,
		.bytes = bytes,
	};

	if (buffer < 0)
		return buffer;
	err = ask_card(a, &command, wait);
	return err ? err : buffer;
}

int ape_register(struct ape *a, void *at, uint64_t bytes, unsigned int rights)
{
	int buffer;

	if (!rights || rights & ~(unsigned int)RIGHTS || !is_range(at, bytes))
		return -EINVAL;
	pthread_mutex_lock(&a->mutex);
	buffer = begin_buffer(a, at, bytes, rights, true);
	if (buffer >= 0)
		a->use[buffer] = WEFT_APE_REGION;
	pthread_mutex_unlock(&a->mutex);
	return buffer;
}

int ape_receive(struct ape *a, void *at, uint64_t bytes, uint64_t tag)
{
	int buffer = -EAGAIN;

	if (!is_range(at, bytes))
		return -EINVAL;
	pthread_mutex_lock(&a->mutex);
	if (a->owed < WEFT_POOL_APE_EVENTS)
		buffer = begin_buffer(a, at, bytes, RECEIVES, false);
	if (buffer >= 0) {
		a->use[buffer] = WEFT_APE_RECEIVE;
		a->tag[buffer] = tag;
		a->owed++;
	}
	pthread_mutex_unlock(&a->mutex);
	return buffer;
}

int ape_unregister(struct ape *a, int buffer)
{
	struct weft_pool_ape_command command = {
		.op = WEFT_POOL_APE_UNREGISTER,
		.buffer = (uint32_t)buffer,
	};
	int err = -EINVAL;

	pthread_mutex_lock(&a->mutex);
	if (buffer >= 0 && buffer < APE_BUFFERS && a->use[buffer] != WEFT_APE_FREE)
		err = ask_card(a, &command, true);
	if (!err) {
		a->owed -= a->use[buffer] == WEFT_APE_RECEIVE;
		a->use[buffer] = WEFT_APE_FREE;
	}
	pthread_mutex_unlock(&a->mutex);
	return err;
}

uint64_t ape_count(const struct ape *a, int buffer)
{
	/* acquire: pairs with the release in count_message (card/torus/world.c) */
	return buffer >= 0 && buffer < APE_BUFFERS
		       ? atomic_load_explicit(&a->slot->count[buffer], memory_order_acquire)
		       : 0;
}
