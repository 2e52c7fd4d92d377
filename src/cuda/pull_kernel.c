/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel that stays while a stream of WEFT_STREAM_PULL runs (cuda/device.h says how it is compiled). */
#include "cuda/device.h"
#include "cuda/pull.h"

#define AT_ONCE	 8u /* loads under way in each lane: the host's memory is far */
#define RELAYERS 8u /* lanes of the warp that looks at the host's ring */

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
	for (uint64_t i = s->self; i < n; i += AT_ONCE * s->step) {
		struct quad some[AT_ONCE];

		for (unsigned int k = 0; k < AT_ONCE; k++)
			if (i + k * s->step < n)
				some[k] = from[i + k * s->step];
		for (unsigned int k = 0; k < AT_ONCE; k++)
			if (i + k * s->step < n)
				to[i + k * s->step] = some[k];
	}
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

WEFT_DEVICE int is_end(const struct weft_pull_entry *e)
{
	return !e->word_at && !e->word;
}

/* Brings entries into the GPU's memory, each lane every so many: the host's ring is looked at by few, since a look takes
 * as long as a copy. A slot is free by then: the host has seen the entry done that it had before. */
WEFT_DEVICE void relay(const struct weft_pull_ring *ring,
		       struct weft_pull_relay *to WEFT_TAKES_SELF)
{
	uint64_t step = weft_lanes() < RELAYERS ? weft_lanes() : RELAYERS;

	for (uint64_t turn = 1 + weft_lane(); weft_lane() < step; turn += step) {
		const struct weft_pull_entry *e = &ring->entry[turn % WEFT_PULL_ENTRIES];
		struct weft_pull_entry *slot = &to->entry[turn % WEFT_PULL_ENTRIES];

		/* what publish_entry (cuda/pull.c) has released */
		while (weft_acquire(&e->turn) != turn) {
			if (weft_acquire(&to->ended))
				return;
			weft_pause();
		}
		for (unsigned int part = 0; part < 2; part++) {
			slot->offset[part] = e->offset[part];
			slot->bytes[part] = e->bytes[part];
		}
		slot->word_at = e->word_at;
		slot->word = e->word;
		weft_release(&slot->turn, turn); /* for the warps that copy */
		if (is_end(slot)) {
			weft_release(&to->ended, 1); /* for the other lanes */
			return;
		}
	}
}

WEFT_KERNEL(weft_pull, weft_pull_args)
{
	struct weft_pull_ring *ring = weft_at(struct weft_pull_ring, args.ring, 1);
	struct weft_pull_relay *relayed = weft_at(struct weft_pull_relay, args.relay, 1);
	const uint8_t *host = weft_at(uint8_t, args.host, args.bytes);
	uint8_t *gpu = weft_at(uint8_t, args.gpu, args.bytes);
	uint64_t self = (uint64_t)weft_block() * weft_warps() + weft_warp();
	uint64_t copiers = (uint64_t)weft_blocks() * weft_warps() - 1;
	struct share s;

	if (!self) {
		relay(ring, relayed WEFT_GIVES_SELF);
		return;
	}
	s.self = (self - 1) * weft_lanes() + weft_lane();
	s.step = copiers * weft_lanes();
	for (uint64_t turn = 1;; turn++) {
		uint64_t slot = turn % WEFT_PULL_ENTRIES;
		const struct weft_pull_entry *e = &relayed->entry[slot];

		/* one lane sees what relay has stored before the turn, and all lanes do by weft_converge */
		while (!weft_lane() && weft_acquire(&e->turn) != turn)
			weft_pause();
		weft_converge();
		if (is_end(e))
			return;
		for (unsigned int part = 0; part < 2; part++)
			pull_part(gpu + e->offset[part], host + e->offset[part], e->bytes[part],
				  &s);
		weft_converge();
		if (weft_lane())
			continue;
		weft_fence();
		if (weft_add(&relayed->count[slot], 1) + 1 != copiers)
			continue;
		relayed->count[slot] = 0;
		weft_fence(); /* the other warps' bytes, which they have put behind a fence before they counted */
		weft_release((uint64_t *)(gpu + e->word_at), e->word);
		/* is_done (cuda/pull.c) acquires it */
		weft_release(&ring->done[slot], turn);
	}
}
