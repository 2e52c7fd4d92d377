/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel that stays while a stream of WEFT_STREAM_PULL runs (cuda/device.h says how it is compiled). */
#include "cuda/device.h"
#include "cuda/pull.h"

#define AT_ONCE 8u /* loads under way in each lane: the host's memory is far */

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

/* A line that is there, without its tags. */
struct entry {
	uint64_t word[WEFT_PULL_WORDS];
};

/* Whether all words of the turn's line have come. */
WEFT_DEVICE int look_for(const struct weft_pull_line *line, uint64_t turn, struct entry *e)
{
	uint64_t differ = 0;

	weft_look_at_line(line[turn % WEFT_PULL_ENTRIES].word, e->word);
	for (unsigned int i = 0; i < WEFT_PULL_WORDS; i++) {
		differ |= e->word[i] ^ WEFT_PULL_TAG(turn);
		e->word[i] &= WEFT_PULL_VALUE;
	}
	return !(differ >> WEFT_PULL_TAG_SHIFT);
}

WEFT_DEVICE uint64_t end_word(const struct entry *e)
{
	return e->word[WEFT_PULL_WORD] | e->word[WEFT_PULL_WORD + 1] << 32;
}

WEFT_DEVICE int is_end(const struct entry *e)
{
	return !e->word[WEFT_PULL_WORD_AT] && !end_word(e);
}

WEFT_DEVICE void pull_parts(uint8_t *gpu, const uint8_t *host, const struct entry *e,
			    const struct share *s)
{
	for (unsigned int part = 0; part < 2; part++) {
		uint64_t offset = e->word[WEFT_PULL_OFFSET + part];

		pull_part(gpu + offset, host + offset, e->word[WEFT_PULL_BYTES + part], s);
	}
}

/* All bytes are stored, by lanes with which this one has converged or by warps that have counted: tells of it, in the GPU's memory and in the
 * host's. The order and the release are of those bytes, too. The word is for kernels of this GPU: an order of the whole system, which takes
 * long, is needed once. */
WEFT_DEVICE void tell_done(struct weft_pull_ring *ring, uint8_t *gpu, const struct entry *e)
{
	uint64_t turn = e->word[WEFT_PULL_TURN];

	weft_order_near();
	weft_put((uint64_t *)(gpu + e->word[WEFT_PULL_WORD_AT]), end_word(e));
	/* is_done (cuda/pull.c) acquires it */
	weft_release(&ring->done[turn % WEFT_PULL_ENTRIES], turn);
}

/* Gives the others an entry. Its line is free by then: the host has seen the entry done that was there before. */
WEFT_DEVICE void relay(struct weft_pull_relay *to, uint64_t turn, const struct entry *e)
{
	uint64_t line[WEFT_PULL_WORDS];

	for (unsigned int i = 0; i < WEFT_PULL_WORDS; i++)
		line[i] = e->word[i] | WEFT_PULL_TAG(turn);
	weft_order();
	weft_put_line(to->line[turn % WEFT_PULL_ENTRIES].word, line);
}

/* Until the others have finished all that they were given, of which *finished is what is known. */
WEFT_DEVICE void await_others(const struct weft_pull_relay *relayed, uint64_t given,
			      uint64_t *finished WEFT_TAKES_SELF)
{
	if (*finished == given)
		return;
	while (*finished != given) {
		weft_pause();
		*finished = weft_look(&relayed->finished);
	}
	weft_order(); /* with that before `finished` in copy_turns */
}

/* The warp that looks at the host's ring. */
WEFT_DEVICE void take_entries(struct weft_pull_ring *ring, struct weft_pull_relay *relayed,
			      uint64_t teams, uint8_t *gpu, const uint8_t *host WEFT_TAKES_SELF)
{
	const struct share all = {weft_lane(), weft_lanes()};
	uint64_t given = 0, finished = 0;
	struct entry e;

	for (uint64_t turn = 1;; turn++) {
		while (!look_for(ring->line, turn, &e))
			weft_pause();
		/* with the fence in publish_line (cuda/pull.c) */
		weft_order();
		if (is_end(&e))
			break;
		if (e.word[WEFT_PULL_BYTES] + e.word[WEFT_PULL_BYTES + 1] > WEFT_PULL_ALONE) {
			relay(relayed, ++given, &e);
			continue;
		}
		/* never before one that was given to the others */
		await_others(relayed, given, &finished WEFT_GIVES_SELF);
		pull_parts(gpu, host, &e, &all);
		weft_converge();
		if (!weft_lane())
			tell_done(ring, gpu, &e);
	}
	/* each team has a turn that ends it; lines may be written anew then */
	await_others(relayed, given, &finished WEFT_GIVES_SELF);
	for (uint64_t i = 0; i < teams; i++)
		relay(relayed, ++given, &e);
}

/* The warp's place among those that copy. */
struct member {
	uint64_t team, teams, warps; /* warps: of its team */
	struct share share;
};

WEFT_DEVICE void find_place(struct member *m, uint64_t self, uint64_t copiers, uint64_t team_warps)
{
	m->teams = copiers > team_warps ? copiers / team_warps : 1;
	m->team = self % m->teams;
	m->warps = copiers / m->teams + (m->team < copiers % m->teams);
	m->share.self = self / m->teams * weft_lanes() + weft_lane();
	m->share.step = m->warps * weft_lanes();
}

/* The turns of a team, each of which is another's for all other teams: so several buffers are under way at once. */
WEFT_DEVICE void copy_turns(struct weft_pull_ring *ring, struct weft_pull_relay *relayed,
			    const struct member *m, uint8_t *gpu,
			    const uint8_t *host WEFT_TAKES_SELF)
{
	struct entry e;

	for (uint64_t turn = m->team + 1;; turn += m->teams) {
		uint64_t *count = &relayed->count[turn % WEFT_PULL_ENTRIES];

		while (!look_for(relayed->line, turn, &e))
			weft_pause();
		weft_order_near(); /* with weft_order in relay */
		if (is_end(&e))
			return;
		pull_parts(gpu, host, &e, &m->share);
		weft_order_near();
		weft_converge();
		if (weft_lane())
			continue;
		/* the fences on both sides order the other warps' bytes, too */
		if (weft_add_near(count, 1) + 1 != m->warps)
			continue;
		weft_order_near();
		*count = 0;
		tell_done(ring, gpu, &e);
		weft_order(); /* with that behind `finished` in await_others */
		weft_add_near(&relayed->finished, 1);
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
	struct member m;

	find_place(&m, self ? self - 1 : 0, copiers, args.team);
	if (self)
		copy_turns(ring, relayed, &m, gpu, host WEFT_GIVES_SELF);
	else
		take_entries(ring, relayed, m.teams, gpu, host WEFT_GIVES_SELF);
}
