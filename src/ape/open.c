/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ape/private.h"
#include "pool/clock.h"
#include "process/node.h"

#define LEAVE_NS 1000000000ull

/* ---- Which node ---- */

static int find_node(const char *node, char path[PATH_MAX])
{
	char name[WEFT_TORUS_NAME_BYTES], home[PATH_MAX];
	unsigned int at[3];
	int end = -1, err;

	if (!node)
		node = getenv(WEFT_TORUS_NODE_ENV);
	if (!node || !*node)
		return -EINVAL;
	if (*node == '/') {
		if (strlen(node) >= PATH_MAX)
			return -ENAMETOOLONG;
		strcpy(path, node);
		return 0;
	}
	if (sscanf(node, "%32[^:]:%3u,%3u,%3u%n", name, &at[0], &at[1], &at[2], &end) != 4 ||
	    node[end] || at[0] > UINT8_MAX || at[1] > UINT8_MAX || at[2] > UINT8_MAX)
		return -EINVAL;
	err = weft_torus_home(name, home);
	return err ? err
		   : weft_torus_node(home,
				     (uint8_t[]){(uint8_t)at[0], (uint8_t)at[1], (uint8_t)at[2]},
				     NULL, path);
}

static int file_of(const char *node, const char *file, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/%s", node, file) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* ---- Coming ---- */

static void describe_node(struct ape *a, int process)
{
	const struct weft_pool_ape_card *card = &a->shared->card;
	struct ape_info *info = &a->info;

	for (unsigned int d = 0; d < 3; d++) {
		info->size[d] = card->size[d];
		info->at[d] = card->at[d];
		info->line[d] = card->line[d];
	}
	info->nodes = info->size[0] * info->size[1] * info->size[2];
	info->rank = ape_rank(a, info->at[0], info->at[1], info->at[2]);
	info->process = (uint32_t)process;
}

/* The card finds a program that has died within a tenth of a second, and lets its number go when nothing of it is under way. */
static int claim_slot(struct ape *a, int process)
{
	uint64_t begun_ns = weft_clock_now_ns(), waited_ns = 0;
	int which = weft_pool_ape_claim(a->pool, a->shared, process);

	/* it may have died before it knocked */
	if (which == -EAGAIN)
		weft_door_knock(&a->door->door);
	while (which == -EAGAIN && waited_ns < LEAVE_NS) {
		weft_pool_pause(waited_ns);
		which = weft_pool_ape_claim(a->pool, a->shared, process);
		waited_ns = weft_clock_now_ns() - begun_ns;
	}
	return which != -EAGAIN ? which : process < 0 ? -ENOSPC : -EBUSY;
}

static int join_node(struct ape *a, const char *node, int process)
{
	char path[PATH_MAX], where[PATH_MAX];
	const char *why;
	int err = file_of(node, "door", path), fd;

	if (err)
		return err;
	a->door = weft_torus_door_open(path, false, &fd);
	if (!a->door)
		return -errno;
	close(fd);
	err = file_of(node, "pool", path);
	err = err ? err : weft_pool_get(path, &a->pool, where, &why);
	if (err)
		return err;
	a->shared = weft_pool_ape(a->pool);
	if (!a->shared)
		return -ENOMEM;
	/* acquire: pairs with the release of the card that has begun (card/torus/run.c) */
	a->card = atomic_load_explicit(&a->shared->card.word, memory_order_acquire);
	process = claim_slot(a, process);
	if (process < 0)
		return process;
	a->slot = &a->shared->slot[process];
	a->owner = weft_pool_ape_word(a->pool);
	a->posted = atomic_load_explicit(&a->slot->posted, memory_order_relaxed);
	a->asked = atomic_load_explicit(&a->slot->asked, memory_order_relaxed);
	a->polled = atomic_load_explicit(&a->slot->polled, memory_order_relaxed);
	describe_node(a, process);
	weft_door_knock(&a->door->door);
	return 0;
}

static void free_ape(struct ape *a)
{
	if (a->pool)
		weft_pool_put(a->pool);
	if (a->door)
		weft_torus_door_close(a->door);
	pthread_mutex_destroy(&a->mutex);
	free(a);
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, weft_pool_forget);
}

int ape_open(const char *node, int process, struct ape **ape)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char path[PATH_MAX];
	struct ape *a;
	int err = find_node(node, path);

	if (err || process < -1 || process >= (int)WEFT_POOL_APE_SLOTS)
		return err ? err : -EINVAL;
	pthread_once(&once, register_fork);
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	pthread_mutex_init(&a->mutex, NULL);
	err = join_node(a, path, process);
	if (err) {
		free_ape(a);
		return err;
	}
	*ape = a;
	return 0;
}

/* ---- Going ---- */

/* The card lets the slot go when nothing of this process is under way. A card that does not is not waited for
 * long. */
void ape_close(struct ape *a)
{
	uint64_t begun_ns = weft_clock_now_ns(), waited_ns = 0;

	weft_ape_stop_listening(a);
	/* release: pairs with the acquire in has_left (card/torus/guests.c) */
	atomic_store_explicit(&a->slot->leaves, a->owner, memory_order_release);
	weft_door_knock(&a->door->door);
	while (waited_ns < LEAVE_NS && weft_ape_ni_lives(a) &&
	       atomic_load_explicit(&a->slot->owner, memory_order_acquire) == a->owner) {
		waited_ns = weft_clock_now_ns() - begun_ns;
		weft_pool_pause(waited_ns);
	}
	free_ape(a);
}

/* ---- What it is ---- */

void ape_query(const struct ape *ape, struct ape_info *info)
{
	*info = ape->info;
}

uint32_t ape_rank(const struct ape *ape, uint32_t x, uint32_t y, uint32_t z)
{
	return x + ape->info.size[0] * (y + ape->info.size[1] * z);
}

bool weft_ape_has_card(const struct ape *ape)
{
	return atomic_load_explicit(&ape->shared->card.word, memory_order_relaxed) == ape->card;
}

bool weft_ape_ni_lives(const struct ape *ape)
{
	uint16_t member;

	return weft_ape_has_card(ape) && weft_pool_ape_lives(ape->pool, ape->card, &member);
}
