/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel that stays while a stream of WEFT_STREAM_PULL runs (cuda/device.h says how it is compiled). */
#include "cuda/device.h"
#include "cuda/pull.h"

/* Loads under way in each lane, of quads and of bytes: the host's memory is far. */
#define AT_ONCE	      8u
#define BYTES_AT_ONCE 4u

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

/* Whether all words of the turn's line have come, of which the tags are taken away. */
WEFT_DEVICE int line_has_come(struct entry *e, uint64_t turn)
{
	uint64_t differ = 0;

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

/* A part that is small: whole quads of the GPU's memory, and the bytes before and behind them. */
struct cut {
	uint64_t offset;
	uint32_t head, quads, bytes; /* bytes: those before and behind */
};

WEFT_DEVICE void cut_part(struct cut *c, const uint8_t *gpu, uint64_t offset, uint32_t len_bytes)
{
	uint32_t head = -(uint32_t)((uintptr_t)gpu + offset) & 15;

	c->offset = offset;
	c->head = head < len_bytes ? head : len_bytes;
	c->quads = (len_bytes - c->head) / 16;
	c->bytes = len_bytes - 16 * c->quads;
}

WEFT_DEVICE uint64_t quad_offset(const struct cut *c, const struct cut *behind, uint32_t i)
{
	return i < c->quads ? c->offset + c->head + 16 * i
			    : behind->offset + behind->head + 16 * (i - c->quads);
}

WEFT_DEVICE uint64_t byte_offset(const struct cut *c, const struct cut *behind, uint32_t i)
{
	if (i < c->bytes)
		return c->offset + (i < c->head ? i : i + 16 * c->quads);
	i -= c->bytes;
	return behind->offset + (i < behind->head ? i : i + 16 * behind->quads);
}

/* Both parts by one round of loads. False: there is too much. */
WEFT_DEVICE int pull_at_once(uint8_t *gpu, const uint8_t *host, const struct entry *e,
			     const struct share *s)
{
	const uint64_t *offset = &e->word[WEFT_PULL_OFFSET], *len = &e->word[WEFT_PULL_BYTES];
	uint32_t self = (uint32_t)s->self, step = (uint32_t)s->step, quads, bytes;
	struct quad quad[AT_ONCE];
	uint8_t byte[BYTES_AT_ONCE];
	struct cut c, behind;

	if (len[0] + len[1] > 16 * AT_ONCE * s->step || ((uintptr_t)gpu ^ (uintptr_t)host) & 15)
		return 0;
	cut_part(&c, gpu, offset[0], (uint32_t)len[0]);
	cut_part(&behind, gpu, offset[1], (uint32_t)len[1]);
	quads = c.quads + behind.quads;
	bytes = c.bytes + behind.bytes;
	if (bytes > BYTES_AT_ONCE * step)
		return 0;
	for (uint32_t k = 0, i = self; k < AT_ONCE; k++, i += step)
		if (i < quads)
			quad[k] = *(const struct quad *)(host + quad_offset(&c, &behind, i));
	for (uint32_t k = 0, i = self; k < BYTES_AT_ONCE; k++, i += step)
		if (i < bytes)
			byte[k] = host[byte_offset(&c, &behind, i)];
	for (uint32_t k = 0, i = self; k < AT_ONCE; k++, i += step)
		if (i < quads)
			*(struct quad *)(gpu + quad_offset(&c, &behind, i)) = quad[k];
	for (uint32_t k = 0, i = self; k < BYTES_AT_ONCE; k++, i += step)
		if (i < bytes)
			gpu[byte_offset(&c, &behind, i)] = byte[k];
	return 1;
}

WEFT_DEVICE void pull_parts(uint8_t *gpu, const uint8_t *host, const struct entry *e,
			    const struct share *s)
{
	if (pull_at_once(gpu, host, e, s))
		return;
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
	weft_order_near();
	weft_put_line(to->line[turn % WEFT_PULL_ENTRIES].word, line);
}

WEFT_DEVICE int find_line(const struct weft_lines *lines, unsigned int which, uint64_t turn,
			  struct entry *e)
{
	weft_line(lines, which, e->word);
	return line_has_come(e, turn);
}

/* Each is read anew afterwards: a block has no registers to keep them in. */
WEFT_DEVICE unsigned int count_found(const struct weft_lines *lines, uint64_t turn)
{
	unsigned int n = 0;
	struct entry e;

	while (n < WEFT_LINES && find_line(lines, n, turn + n, &e))
		n++;
	return n;
}

WEFT_DEVICE void pull_alone(struct weft_pull_ring *ring, uint8_t *gpu, const uint8_t *host,
			    const struct entry *e)
{
	const struct share all = {weft_lane(), weft_lanes()};

	pull_parts(gpu, host, e, &all);
	weft_converge();
	if (!weft_lane())
		tell_done(ring, gpu, e);
}

/* Each team has a turn that ends it, when all have finished: lines may be written anew then. */
WEFT_DEVICE void end_teams(struct weft_pull_relay *relayed, uint64_t given, uint64_t teams,
			   const struct entry *end WEFT_TAKES_SELF)
{
	while (weft_look(&relayed->finished) != given)
		weft_pause();
	for (uint64_t i = 0; i < teams; i++)
		relay(relayed, ++given, end);
}

/* The warp that looks at the host's ring. */
WEFT_DEVICE void take_entries(struct weft_pull_ring *ring, struct weft_pull_relay *relayed,
			      uint64_t teams, uint8_t *gpu, const uint8_t *host WEFT_TAKES_SELF)
{
	uint64_t turn = 1, given = 0;
	struct weft_lines lines;
	unsigned int found;
	struct entry e;

	for (;; weft_pause()) {
		/* with the fence in publish_line (cuda/pull.c) */
		weft_acquire_lines(ring->line[0].word, WEFT_PULL_ENTRIES, turn, &lines);
		found = count_found(&lines, turn);
		for (unsigned int i = 0; i < found; i++, turn++) {
			find_line(&lines, i, turn, &e);
			if (is_end(&e)) {
				end_teams(relayed, given, teams, &e WEFT_GIVES_SELF);
				return;
			}
			if (i + 1 == found &&
			    e.word[WEFT_PULL_BYTES] + e.word[WEFT_PULL_BYTES + 1] <=
				    WEFT_PULL_ALONE)
				pull_alone(ring, gpu, host, &e);
			else
				relay(relayed, ++given, &e);
		}
	}
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

		do {
			weft_pause();
			weft_look_at_line(relayed->line[turn % WEFT_PULL_ENTRIES].word, e.word);
		} while (!line_has_come(&e, turn));
		weft_order_near(); /* with that in relay */
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
		/* the relay writes this line anew behind that */
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
