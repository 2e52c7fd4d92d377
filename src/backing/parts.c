/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a memory of several hosts has what: of each table as many entries as its size warrants, one table behind the
 * other, and segments in all that is left. The pool's offsets are the same whatever that is.
 */
#include <errno.h>
#include <sys/mman.h>

#include "backing/private.h"
#include "pool/format.h"
#include "pool/format_host.h"

#define SEGMENTS_WANTED	 64u /* by each host, before segments are as large as they can be */
#define TABLES_PART	 10u /* at most one in so many bytes is of a table that could be smaller */
#define BLOCKS_OF_MEMBER (WEFT_BLOCKS / WEFT_MEMBERS)

/* What a member takes of the tables, its own blocks included. */
#define BYTES_OF_MEMBER                                                                            \
	(WEFT_MEMBER_BYTES +                                                                       \
	 (uint64_t)BLOCKS_OF_MEMBER *                                                              \
		 (WEFT_QP_BLOCK_BYTES + WEFT_MR_BLOCK_BYTES + WEFT_OBJECT_BLOCK_BYTES))

/* ---- Which ---- */

void weft_parts_plan(uint32_t hosts, uint64_t bytes, struct weft_parts *p)
{
	uint32_t host_bits = (uint32_t)__builtin_ctz(hosts);

	*p = (struct weft_parts){.hosts = hosts, .slice_bits = host_bits};
	while (p->slice_bits < WEFT_MEMBER_BITS &&
	       ((uint64_t)WEFT_MEMBERS << host_bits >> p->slice_bits) * BYTES_OF_MEMBER >
		       bytes / TABLES_PART)
		p->slice_bits++;
	while (p->cut_bits < WEFT_CUT_BITS &&
	       (bytes >> host_bits) / (WEFT_SEGMENT >> p->cut_bits) < SEGMENTS_WANTED)
		p->cut_bits++;
}

static void put_behind(struct weft_parts *p, uint64_t off, uint64_t bytes)
{
	const struct weft_part *last = p->count ? &p->part[p->count - 1] : NULL;

	p->part[p->count++] = (struct weft_part){
		.off = off,
		.bytes = (bytes + WEFT_PART_BYTES - 1) / WEFT_PART_BYTES * WEFT_PART_BYTES,
		.at = last ? last->at + last->bytes : 0,
	};
}

int weft_parts_find(uint64_t bytes, struct weft_parts *p)
{
	const uint64_t first = WEFT_FIRST_SEGMENT * WEFT_SEGMENT;
	uint64_t members, blocks, unit, left;

	if (!p->hosts || p->hosts > WEFT_HOSTS || p->hosts & (p->hosts - 1) ||
	    p->slice_bits > WEFT_MEMBER_BITS || p->hosts > 1u << p->slice_bits ||
	    p->cut_bits > WEFT_CUT_BITS)
		return -EPROTO;
	members = p->hosts * (uint64_t)(WEFT_MEMBERS >> p->slice_bits);
	blocks = members * BLOCKS_OF_MEMBER;
	p->count = 0;
	put_behind(p, 0, WEFT_OFF_MEMBERS + members * WEFT_MEMBER_BYTES);
	put_behind(p, WEFT_OFF_HOSTS, p->hosts * sizeof(struct weft_pool_host));
	put_behind(p, WEFT_OFF_QPS, blocks * WEFT_QP_BLOCK_BYTES);
	put_behind(p, WEFT_OFF_MRS, blocks * WEFT_MR_BLOCK_BYTES);
	put_behind(p, WEFT_OFF_OBJECTS, blocks * WEFT_OBJECT_BLOCK_BYTES);
	put_behind(p, first, 0);
	unit = (WEFT_SEGMENT >> p->cut_bits) * p->hosts;
	unit = unit < WEFT_PART_BYTES ? WEFT_PART_BYTES : unit;
	left = bytes < p->part[p->count - 1].at ? 0 : bytes - p->part[p->count - 1].at;
	p->part[p->count - 1].bytes = left / unit * unit;
	p->end = first + left / unit * unit;
	return left < unit || p->end > WEFT_SEGMENTS * (WEFT_SEGMENT >> p->cut_bits) ? -ENOSPC : 0;
}

/* ---- Where ---- */

uint64_t weft_parts_at(const struct weft_parts *p, uint64_t off, uint64_t len_bytes)
{
	const struct weft_part *part;

	/* a pool of one host lies there as it is */
	if (!p->count)
		return off;
	for (uint32_t i = 0; i < p->count; i++) {
		part = &p->part[i];
		if (off >= part->off && off - part->off <= part->bytes &&
		    len_bytes <= part->bytes - (off - part->off))
			return off - part->off + part->at;
	}
	return UINT64_MAX;
}

uint64_t weft_parts_shift(const struct weft_backed *b)
{
	const struct weft_part *last = &b->parts.part[WEFT_PARTS - 1];

	return b->parts.count ? last->off - last->at : 0;
}

/* ---- As one ---- */

/* Room of ours, where what a part does not fill may be touched, too, and is nobody's. It begins where a device
 * can be mapped. */
static uint8_t *find_room(uint64_t bytes)
{
	uint8_t *room = mmap(NULL, bytes + WEFT_PART_BYTES, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t skew;

	if (room == MAP_FAILED)
		return NULL;
	skew = -(uintptr_t)room % WEFT_PART_BYTES;
	if (skew)
		munmap(room, skew);
	munmap(room + skew + bytes, WEFT_PART_BYTES - skew);
	return room + skew;
}

static int map_over(uint8_t *base, const struct weft_part *part, int fd, int rights)
{
	return mmap(base + part->off, part->bytes, rights, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		    fd, (off_t)part->at) == MAP_FAILED
		       ? -errno
		       : 0;
}

int weft_parts_map(struct weft_backed *b, int rights, uint8_t **base)
{
	const struct weft_part home = {.off = WEFT_OFF_HOME,
				       .bytes = WEFT_OFF_HOME_END - WEFT_OFF_HOME,
				       .at = WEFT_OFF_HOME};
	int err;

	b->base = find_room(b->bytes);
	if (!b->base)
		return -ENOMEM;
	err = map_over(b->base, &home, b->life, PROT_NONE);
	for (uint32_t i = 0; !err && i < b->parts.count; i++)
		err = map_over(b->base, &b->parts.part[i], b->far.fd, rights);
	if (err) {
		weft_map_end(b);
		return err;
	}
	/* a child must not keep our proof of life, nor a core dump hold other members' memory */
	madvise(b->base, b->bytes, MADV_DONTFORK);
	madvise(b->base, b->bytes, MADV_DONTDUMP);
	*base = b->base;
	return 0;
}

_Static_assert(WEFT_OFF_HOSTS % WEFT_PART_BYTES == 0 && WEFT_OFF_HOME % WEFT_PART_BYTES == 0,
	       "a part begins where it can be mapped");
_Static_assert(WEFT_OFF_HOME_END % WEFT_PART_BYTES == 0 && WEFT_OFF_QPS % WEFT_PART_BYTES == 0 &&
		       WEFT_OFF_MRS % WEFT_PART_BYTES == 0 &&
		       WEFT_OFF_OBJECTS % WEFT_PART_BYTES == 0,
	       "a part begins where it can be mapped");
_Static_assert(WEFT_BLOCKS % WEFT_MEMBERS == 0 && WEFT_HOSTS <= WEFT_MEMBERS,
	       "each member has blocks of its own");
