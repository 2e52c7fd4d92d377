/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Random requests: most of them right, some wrong in one respect. */
#include "generate.h"

#define LOWER 0
#define UPPER 1

/* One length in three crosses pages; the rest are small, and some are 0. */
static uint32_t some_length(struct generator *g, uint32_t most)
{
	uint32_t length = chance(g, 60)	  ? below(g, 65)
			  : chance(g, 60) ? below(g, 600)
					  : below(g, 9000);

	if (chance(g, 20))
		length = 8;
	return length < most ? length : most;
}

/* Where that half of the region's slab begins. */
static int64_t half_of(const struct generator *g, const struct region *r, int half)
{
	return r->start - r->start % g->slab_bytes + (half == LOWER ? 0 : g->slab_bytes / 2);
}

static void part(const struct generator *g, const struct region *r, int half, int64_t *lo,
		 int64_t *hi)
{
	int64_t from = half_of(g, r, half), to = from + g->slab_bytes / 2;

	*lo = r->start > from ? r->start : from;
	*hi = r->start + r->length < to ? r->start + r->length : to;
}

/* Picks a region of the domain with these rights and some bytes in that half; if there is none, any slot. */
static uint32_t pick_region(struct generator *g, const struct process *p, uint8_t pd,
			    uint32_t access, int half, struct name *name)
{
	uint8_t first = (uint8_t)below(g, REGIONS);
	int64_t lo, hi;

	for (uint8_t i = 0; i < REGIONS; i++) {
		const struct region *r = &p->region[(first + i) % REGIONS];

		name->slot = (first + i) % REGIONS;
		part(g, r, half, &lo, &hi);
		if (r->serial && r->pd == pd && (r->access & access) == access && lo < hi)
			return (uint32_t)(hi - lo);
	}
	return 0;
}

static void place_in(struct generator *g, const struct region *r, int half, struct step_sge *s)
{
	int64_t lo, hi;

	part(g, r, half, &lo, &hi);
	if (!r->serial || lo + s->length > hi)
		lo = hi = 0;
	s->at = lo + below(g, (uint64_t)(hi - lo - (hi ? s->length : 0) + 1));
	if (chance(g, 20) && hi)
		s->at = hi - s->length; /* the last bytes of the region */
}

static struct step_sge some_sge(struct generator *g, struct model *m, const struct qp *qp,
				uint32_t access, int half, uint32_t most)
{
	struct process *p = &m->process[qp->name.process];
	struct step_sge s = {.key.region.process = qp->name.process};
	uint32_t room = pick_region(g, p, qp->pd, access, half, &s.key.region);

	s.length = some_length(g, room < most ? room : most);
	place_in(g, &p->region[s.key.region.slot], half, &s);
	return s;
}

/* Gives the element another key or another place, so that it is mostly outside its region, or wrong for
 * another reason, or without bytes. */
static void spoil(struct generator *g, struct model *m, struct step_sge *s, uint32_t bytes)
{
	const struct region *r;

	switch (below(g, 5)) {
	case 0:
		s->key.kind = KEY_GARBLED;
		break;
	case 1:
		s->key.kind = KEY_ZERO;
		break;
	case 2:
		s->key.region.process = (uint8_t)below(g, (uint64_t)m->processes);
		s->key.region.slot = (uint8_t)below(g, REGIONS);
		break;
	case 3:
		r = &m->process[s->key.region.process].region[s->key.region.slot];
		s->at = r->start - 1 - below(g, 8);
		break;
	default:
		r = &m->process[s->key.region.process].region[s->key.region.slot];
		s->at = r->start + r->length - bytes + 1 + below(g, 8);
		break;
	}
}

/* Bytes may not be copied within one half, not even by an element that was spoiled: see step.h. */
static void keep_to_half(const struct generator *g, struct model *m, struct step_sge *s, int half,
			 uint64_t bytes)
{
	const struct name *n = &s->key.region;
	const struct region *r = &m->process[n->process].region[n->slot];
	bool inside = s->at >= r->start && s->at + (int64_t)bytes <= r->start + r->length;
	int64_t from = half_of(g, r, half);

	if (r->serial && inside &&
	    (s->at < from || s->at + (int64_t)bytes > from + g->slab_bytes / 2))
		s->at = -(1 << 20);
}

void generate_receives(struct generator *g, struct model *m, const struct qp *qp, struct step *s)
{
	s->verb = POST_RECV;
	s->count = (uint8_t)(1 + below(g, BATCH));
	for (int i = 0; i < s->count; i++) {
		struct step_receive *r = &s->receive[i];

		r->wr_id = ++g->wr_id;
		r->num_sge = (uint8_t)(chance(g, 60) ? 1 : below(g, SGES + 1));
		if (r->num_sge > qp->cap.max_recv_sge && chance(g, 80))
			r->num_sge = 1;
		for (int k = 0; k < r->num_sge; k++) {
			r->sge[k] = some_sge(g, m, qp, IBV_ACCESS_LOCAL_WRITE, UPPER, 9000);
			if (r->sge[k].length < 300 && chance(g, 80))
				r->sge[k] = some_sge(g, m, qp, IBV_ACCESS_LOCAL_WRITE, UPPER, 9000);
			if (chance(g, 6))
				spoil(g, m, &r->sge[k], r->sge[k].length);
			keep_to_half(g, m, &r->sge[k], UPPER, r->sge[k].length);
		}
	}
}

static bool is_atomic(const struct step_send *s)
{
	return s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool fetches(const struct step_send *s)
{
	return s->opcode == IBV_WR_RDMA_READ || is_atomic(s);
}

static bool is_send(const struct step_send *s)
{
	return s->opcode == IBV_WR_SEND || s->opcode == IBV_WR_SEND_WITH_IMM;
}

static uint32_t right_of(const struct step_send *s)
{
	return is_atomic(s)		       ? IBV_ACCESS_REMOTE_ATOMIC
	       : s->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
					       : IBV_ACCESS_REMOTE_WRITE;
}

/* Picks the remote address and key, of a region of the destination's domain, for these bytes. */
static void aim(struct generator *g, struct model *m, const struct qp *qp, struct step_send *s,
		uint64_t bytes)
{
	int half = s->opcode == IBV_WR_RDMA_READ ? LOWER : UPPER;
	struct qp *peer = model_qp(m, qp->dest);
	struct process *p = &m->process[peer ? peer->name.process : qp->name.process];

	s->remote.key.region.process = peer ? peer->name.process : qp->name.process;
	pick_region(g, p, peer ? peer->pd : 0, right_of(s), half, &s->remote.key.region);
	s->remote.length = (uint32_t)bytes;
	place_in(g, &p->region[s->remote.key.region.slot], half, &s->remote);
	if (is_atomic(s)) {
		const struct region *r = &p->region[s->remote.key.region.slot];
		int64_t lo, hi;

		part(g, r, half, &lo, &hi);
		if (!chance(g, 5) && ((s->remote.at + 7) & ~7) + 8 <= hi)
			s->remote.at = (s->remote.at + 7) & ~7;
	}
	if (chance(g, 3))
		spoil(g, m, &s->remote, (uint32_t)bytes);
	keep_to_half(g, m, &s->remote, half, bytes);
}

/* Bytes of inline requests are copied when they are posted. They are none that an earlier request of the same
 * list may change: that one may be carried out before or after. */
static void some_inline(struct generator *g, const struct qp *qp, struct step_send *s, bool changed)
{
	uint32_t left = qp->cap.max_inline_data, slab = g->slab_bytes;

	for (int k = 0; k < s->num_sge; k++) {
		s->sge[k].length = left ? below(g, left + 1) : 0;
		left -= s->sge[k].length;
		s->sge[k].at = below(g, ARENA_BYTES / slab) * slab +
			       below(g, (changed ? slab / 2 : slab) - INLINE_ROOM);
	}
	if (s->num_sge && chance(g, 4))
		s->sge[0].length = qp->cap.max_inline_data + 1; /* more than is granted */
}

static uint64_t some_bytes(struct generator *g, struct model *m, const struct qp *qp,
			   struct step_send *s, bool changed)
{
	bool writes_here = fetches(s);
	uint64_t bytes = 0;

	for (int k = 0; k < s->num_sge; k++) {
		s->sge[k] = some_sge(g, m, qp, writes_here ? IBV_ACCESS_LOCAL_WRITE : 0,
				     writes_here ? UPPER : LOWER, is_send(s) ? 250 : 9000);
		if (is_atomic(s) && s->num_sge == 1 && chance(g, 97))
			s->sge[k].length = 8;
		if (chance(g, 2))
			spoil(g, m, &s->sge[k], s->sge[k].length);
		keep_to_half(g, m, &s->sge[k], writes_here ? UPPER : LOWER, s->sge[k].length);
	}
	if (s->flags & IBV_SEND_INLINE)
		some_inline(g, qp, s, changed);
	else if (s->num_sge && chance(g, 1))
		s->sge[0].length = (1u << 31) + 1;
	for (int k = 0; k < s->num_sge; k++)
		bytes += s->sge[k].length;
	return bytes;
}

void generate_sends(struct generator *g, struct model *m, const struct qp *qp, struct step *step)
{
	static const uint8_t opcodes[] = {IBV_WR_SEND,
					  IBV_WR_SEND,
					  IBV_WR_SEND_WITH_IMM,
					  IBV_WR_RDMA_WRITE,
					  IBV_WR_RDMA_WRITE,
					  IBV_WR_RDMA_WRITE_WITH_IMM,
					  IBV_WR_RDMA_READ,
					  IBV_WR_RDMA_READ,
					  IBV_WR_ATOMIC_CMP_AND_SWP,
					  IBV_WR_ATOMIC_FETCH_AND_ADD};

	bool changed = false;

	step->verb = POST_SEND;
	step->count = (uint8_t)(1 + below(g, BATCH));
	for (int i = 0; i < step->count; i++) {
		struct step_send *s = &step->send[i];

		s->wr_id = ++g->wr_id;
		s->opcode = opcodes[below(g, sizeof(opcodes))];
		s->flags = (chance(g, 70) ? IBV_SEND_SIGNALED : 0) |
			   (chance(g, 25) ? IBV_SEND_SOLICITED : 0) |
			   (chance(g, 10) ? IBV_SEND_FENCE : 0);
		if (chance(g, s->opcode < IBV_WR_RDMA_READ ? 25 : 1))
			s->flags |= IBV_SEND_INLINE;
		if (chance(g, 1))
			s->opcode = 100 + below(g, 10);
		s->num_sge = (uint8_t)(chance(g, 65) || is_atomic(s) ? 1 : below(g, SGES + 1));
		if (s->num_sge > qp->cap.max_send_sge && chance(g, 80))
			s->num_sge = 1;
		aim(g, m, qp, s, some_bytes(g, m, qp, s, changed));
		/* its bytes change memory of this process: by what it fetches, or as this process is its own
		 * peer */
		changed |= fetches(s) || s->remote.key.region.process == qp->name.process;
		s->imm = below(g, 1u << 31);
		s->swap = random_word(g);
		s->compare_add = random_word(g);
		/* the value that the word has now, so that one swap in two succeeds */
		if (chance(g, 50) && s->remote.at >= 0 && s->remote.at + 8 <= ARENA_BYTES)
			__builtin_memcpy(&s->compare_add,
					 m->memory[s->remote.key.region.process] + s->remote.at, 8);
	}
}
