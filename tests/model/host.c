/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The arena in one piece, in the process's own memory. */
#include <string.h>

#include "memory.h"

static void begin_nothing(struct worker *w)
{
}

static uint8_t *arena_at(const struct worker *w, uint32_t at)
{
	return w->board->arena + at;
}

static void arena_write(const struct worker *w, uint32_t at, const uint8_t *from, uint32_t bytes)
{
	memcpy(w->board->arena + at, from, bytes);
}

static const uint8_t *arena_bytes(const struct worker *w)
{
	return w->board->arena;
}

static const uint8_t *arena_before(const struct worker *w, uint32_t at)
{
	return w->board->arena + at;
}

const struct worker_memory worker_memory = {
	.slab_bytes = ARENA_BYTES,
	.begin = begin_nothing,
	.at = arena_at,
	.write = arena_write,
	.read = arena_bytes,
	.before = arena_before,
};
