/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The arena in slabs of several kinds of memory, drawn for each process from the seed of its fleet: its own, pooled or in
 * place, pinned, managed, of a GPU, of the other GPU, exportable or not; one process in four has no GPU. A request that memory of
 * a GPU is part of may end after the call that posted it. What is still under way the pool says.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../gpu/place.h"
#include "../random.h"

#include "memory.h"
#include "pool/format.h"
#include "pool/format_member.h"

struct kinds {
	bool gpu;
	struct place slab[SLABS];
	uint8_t seen[ARENA_BYTES];
	const struct weft_pool_member *self;
};

static struct kinds *kinds_of(const struct worker *w)
{
	return w->memory;
}

/* The page by which others see this process. */
static const struct weft_pool_member *find_self(void)
{
	const size_t bytes = WEFT_MEMBERS * sizeof(struct weft_pool_member);
	int fd = open(getenv("WEFT_POOL"), O_RDONLY | O_CLOEXEC);
	const struct weft_pool_member *members =
		mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, WEFT_OFF_MEMBERS);

	close(fd);
	for (int i = 0; members != MAP_FAILED && i < (int)WEFT_MEMBERS; i++)
		if (atomic_load(&members[i].incarnation) && members[i].pid == (uint32_t)getpid())
			return &members[i];
	_exit(1);
}

/* Kinds that no other slab has, each as likely as the others. */
static void draw_kinds(struct kinds *k, uint64_t seed)
{
	bool drawn[PLACE_KINDS] = {false};

	for (int i = 0; i < SLABS; i++) {
		enum place_kind kind;

		do
			kind = (enum place_kind)(splitmix64(&seed) % PLACE_KINDS);
		while (drawn[kind]);
		drawn[kind] = true;
		k->slab[i].kind = kind;
	}
}

/* What is registered before there is a libcuda moves into the pool, and stays there as long as that key does. */
static void begin_slabs(struct worker *w, struct kinds *k, bool before_cuda)
{
	for (int i = 0; i < SLABS; i++) {
		enum place_kind kind = k->slab[i].kind;

		if ((kind == PLACE_POOLED) != before_cuda)
			continue;
		place_begin(&k->slab[i], kind, SLAB_BYTES);
		if (kind == PLACE_POOLED)
			place_register(&k->slab[i], ibv_alloc_pd(w->context));
	}
}

static void begin_kinds(struct worker *w)
{
	uint64_t seed = w->board->kinds * PROCESSES + (uint64_t)w->me;
	struct kinds *k = calloc(1, sizeof(*k));

	w->memory = k;
	k->self = find_self();
	k->gpu = splitmix64(&seed) % 4;
	if (k->gpu) {
		draw_kinds(k, seed);
		begin_slabs(w, k, true);
		if (!gpu_load())
			_exit(1);
		gpu_context();
		begin_slabs(w, k, false);
	} else {
		for (int i = 0; i < SLABS; i++)
			place_begin(&k->slab[i], PLACE_POOLED, SLAB_BYTES);
	}
}

static uint8_t *kinds_at(const struct worker *w, uint32_t at)
{
	return kinds_of(w)->slab[at / SLAB_BYTES].at + at % SLAB_BYTES;
}

static void kinds_write(const struct worker *w, uint32_t at, const uint8_t *from, uint32_t bytes)
{
	for (uint32_t done = 0, n; done < bytes; done += n) {
		uint32_t into = (at + done) % SLAB_BYTES;

		n = SLAB_BYTES - into < bytes - done ? SLAB_BYTES - into : bytes - done;
		place_write(&kinds_of(w)->slab[(at + done) / SLAB_BYTES], into, from + done, n);
	}
}

static const uint8_t *kinds_read(const struct worker *w)
{
	struct kinds *k = kinds_of(w);

	for (int i = 0; i < SLABS; i++)
		place_read(&k->slab[i], 0, k->seen + (size_t)i * SLAB_BYTES, SLAB_BYTES);
	return k->seen;
}

/* No CPU reads a GPU's memory: what was read of all of it after the step before. */
static const uint8_t *kinds_before(const struct worker *w, uint32_t at)
{
	return kinds_of(w)->seen + at;
}

static bool has_settled(const struct worker *w)
{
	const struct weft_pool_member *self = kinds_of(w)->self;

	for (unsigned int i = 0; i < WEFT_MEMBER_LINES + WEFT_MEMBER_LATE; i++)
		if (atomic_load(&self->ask[i].seq) & 1)
			return false;
	return true;
}

const struct worker_memory worker_memory = {
	.slab_bytes = SLAB_BYTES,
	.begin = begin_kinds,
	.at = kinds_at,
	.write = kinds_write,
	.read = kinds_read,
	.before = kinds_before,
	.is_settled = has_settled,
};
