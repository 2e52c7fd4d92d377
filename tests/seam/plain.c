/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "plain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pool/format.h"
#include "pool/format_home.h"

#define BYTES	 (4ull << 30)
#define MEMORIES 4u

struct memory {
	char path[64];
	uint8_t *base;
	bool alive[WEFT_MEMBERS];
	bool locked;
};

struct weft_backed {
	struct memory *memory;
	int member; /* negative: not claimed yet, or dead */
};

struct plain_told told = {.reserves_left = UINT32_MAX, .hosts = 1};
static struct memory memories[MEMORIES];

static int open_memory(const char *path, bool own, uint64_t signature, struct weft_backed **backed,
		       uint64_t *bytes, const char **why)
{
	struct memory *m = memories;
	struct weft_backed *b = calloc(1, sizeof(*b));

	while (m->base && strcmp(m->path, path))
		m++;
	if (!m->base) {
		snprintf(m->path, sizeof(m->path), "%s", path);
		m->base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	((struct weft_pool_header *)m->base)->hosts = told.hosts;
	((struct weft_pool_header *)m->base)->slice_bits = (uint32_t)__builtin_ctz(told.hosts ?: 1);
	((struct weft_pool_home *)(m->base + WEFT_OFF_HOME))->host = told.host;
	b->memory = m;
	b->member = -1;
	*backed = b;
	*bytes = BYTES;
	return 0;
}

static void close_memory(struct weft_backed *b)
{
	if (b->member >= 0)
		b->memory->alive[b->member] = false;
	free(b);
}

static int map(struct weft_backed *b, uint8_t **base)
{
	*base = b->memory->base;
	return 0;
}

static void unmap(struct weft_backed *b)
{
}

static int touch(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	return 0;
}

static void populate(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
}

static int reserve(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	if (!told.reserves_left)
		return -ENOSPC;
	told.reserves_left--;
	return 0;
}

static int release(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	return madvise(b->memory->base + off, len_bytes, MADV_DONTNEED) ? -errno : 0;
}

static int prove(struct weft_backed *b, uint16_t member)
{
	if (b->memory->alive[member])
		return -EAGAIN;
	b->memory->alive[member] = true;
	b->member = member;
	return 0;
}

static bool lives(struct weft_backed *b, uint16_t member)
{
	return b->memory->alive[member];
}

static int claim(struct weft_backed *b, uint16_t member)
{
	return lives(b, member) ? -EAGAIN : 1;
}

static int enter(struct weft_backed *b)
{
	if (b->memory->locked)
		return -ETIMEDOUT; /* there is one thread: the lock's owner cannot go on */
	b->memory->locked = true;
	told.locks++;
	return 0;
}

static int enter_too(struct weft_backed *b, int key, bool wait)
{
	return enter(b);
}

static void leave(struct weft_backed *b, int key)
{
	b->memory->locked = false;
}

static void sleep_on(struct weft_backed *b, _Atomic uint32_t *word, uint32_t value,
		     int64_t timeout_ns)
{
	told.sleeps++;
	told.timeout_ns = timeout_ns;
	if (told.asleep)
		told.asleep(word);
}

static void wake(struct weft_backed *b, _Atomic uint32_t *word)
{
	told.wakes++;
}

static void barrier(struct weft_backed *b)
{
	told.barriers++;
	atomic_thread_fence(memory_order_seq_cst);
}

const struct weft_backing plain = {
	.name = "plain memory",
	.can = WEFT_BACKING_NEEDED,
	.open = open_memory,
	.close = close_memory,
	.map = map,
	.unmap = unmap,
	.touch = touch,
	.populate = populate,
	.reserve = reserve,
	.release = release,
	.prove = prove,
	.lives = lives,
	.claim = claim,
	.enter = enter,
	.enter_too = enter_too,
	.leave = leave,
	.sleep = sleep_on,
	.wake = wake,
	.barrier = barrier,
};

void plain_kill(struct weft_attachment *a)
{
	a->backed->memory->alive[a->backed->member] = false;
	a->backed->member = -1;
}

void plain_end(void)
{
	for (struct memory *m = memories; m < memories + MEMORIES; m++)
		if (m->base)
			munmap(m->base, BYTES);
	memset(memories, 0, sizeof(memories));
	told = (struct plain_told){.reserves_left = UINT32_MAX, .hosts = 1};
}
