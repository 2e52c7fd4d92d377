/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel that stays while a stream of WEFT_STREAM_PULL runs (cuda/device.h says how it is compiled). */
#include "cuda/device.h"
#include "cuda/pull.h"

#define AT_ONCE 4u /* loads under way in each lane: the host's memory is far */

struct quad {
	uint64_t word[2];
} __attribute__((aligned(16)));

/* The lane's share of n. */
struct share {
	uint64_t self, step;
};

WEFT_DEVICE void pull_bytes(uint8_t *to, const uint8_t *from, uint64_t n, const struct share *s)
{
	for (uint64_t i = s->self; i < n; i += s->step)
		to[i] = from[i];
}

WEFT_DEVICE void pull_quads(struct quad *to, const struct quad *from, uint64_t n,
			    const struct share *s)
{
	uint64_t i = s->self;

	for (; i + (AT_ONCE - 1) * s->step < n; i += AT_ONCE * s->step) {
		struct quad some[AT_ONCE];

		for (unsigned int k = 0; k < AT_ONCE; k++)
			some[k] = from[i + k * s->step];
		for (unsigned int k = 0; k < AT_ONCE; k++)
			to[i + k * s->step] = some[k];
	}
	for (; i < n; i += s->step)
		to[i] = from[i];
}

WEFT_DEVICE void pull_part(uint8_t *to, const uint8_t *from, uint64_t n, const struct share *s)
{
	uint64_t head = -(uintptr_t)to & 15, quads;

	if (((uintptr_t)to ^ (uintptr_t)from) & 15 || n < head) {
		pull_bytes(to, from, n, s);
		return;
	}
	quads = (n - head) / 16;
	pull_bytes(to, from, head, s);
	pull_quads((struct quad *)(to + head), (const struct quad *)(from + head), quads, s);
	pull_bytes(to + head + 16 * quads, from + head + 16 * quads, (n - head) % 16, s);
}

WEFT_KERNEL(weft_pull, weft_pull_args)
{
	struct weft_pull_ring *ring = weft_at(struct weft_pull_ring, args.ring, 1);
	uint64_t *counts = weft_at(uint64_t, args.counts, WEFT_PULL_ENTRIES);
	const uint8_t *host = weft_at(uint8_t, args.host, args.bytes);
	uint8_t *gpu = weft_at(uint8_t, args.gpu, args.bytes);
	uint64_t warps = (uint64_t)weft_blocks() * weft_warps();
	struct share s;

	s.self = ((uint64_t)weft_block() * weft_warps() + weft_warp()) * weft_lanes() + weft_lane();
	s.step = warps * weft_lanes();
	for (uint64_t turn = 1;; turn++) {
		struct weft_pull_entry *e = &ring->entry[turn % WEFT_PULL_ENTRIES];

		/* each lane sees by its own acquire what it reads of what publish_entry (cuda/pull.c) has released */
		while (weft_acquire(&e->turn) != turn)
			weft_pause();
		if (!e->word_at && !e->word)
			return;
		for (unsigned int part = 0; part < 2; part++)
			pull_part(gpu + e->offset[part], host + e->offset[part], e->bytes[part],
				  &s);
		weft_converge();
		if (weft_lane())
			continue;
		weft_fence();
		if (weft_add(&counts[turn % WEFT_PULL_ENTRIES], 1) + 1 != warps)
			continue;
		counts[turn % WEFT_PULL_ENTRIES] = 0;
		weft_fence(); /* the other warps' bytes, which they have put behind a fence before they counted */
		weft_release((uint64_t *)(gpu + e->word_at), e->word);
		/* is_done (cuda/pull.c) acquires it */
		weft_release(&ring->done[turn % WEFT_PULL_ENTRIES], turn);
	}
}
