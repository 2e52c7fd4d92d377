/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Host memory that CUDA has pinned. On hardware the device goes on with the pages that were there,
 * whatever the program maps over them: bytes then go nowhere. Here that ends the process.
 *
 * Which pages are there is known by what /proc/self/maps names, and by the lock that pinning puts
 * on the mapping: pages that were moved and came back lack it. Where the limit on locked memory
 * forbids that, only the former is known.
 */
#include "soft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct piece {
	uint64_t start, end, offset, inode;
	unsigned int major, minor;
	bool locked;
};

struct soft_pin {
	uint64_t start, end;
	bool locked;
	struct piece *piece;
	unsigned int count;
};

static bool next_piece(FILE *smaps, struct piece *piece, bool flags)
{
	char line[512], perms[5];
	unsigned long long start, end, offset, inode;

	while (fgets(line, sizeof(line), smaps)) {
		if (flags && !strncmp(line, "VmFlags:", 8)) {
			piece->locked = strstr(line, " lo");
			return true;
		}
		if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu", &start, &end, perms, &offset,
			   &piece->major, &piece->minor, &inode) != 7)
			continue;
		piece->start = start;
		piece->end = end;
		piece->offset = offset;
		piece->inode = inode;
		piece->locked = false;
		if (!flags)
			return true;
	}
	return false;
}

/* What is mapped at [start, end) now, cut to that. False: not all of it is. */
static bool look(struct soft_pin *pin)
{
	FILE *maps = fopen(pin->locked ? "/proc/self/smaps" : "/proc/self/maps", "re");
	uint64_t at = pin->start;
	struct piece piece = {0};

	pin->count = 0;
	while (maps && at < pin->end && next_piece(maps, &piece, pin->locked)) {
		struct piece *more;

		if (piece.end <= at)
			continue;
		if (piece.start > at)
			break;
		more = realloc(pin->piece, (pin->count + 1) * sizeof(piece));
		if (!more)
			break;
		if (piece.inode)
			piece.offset += at - piece.start;
		else
			piece.offset = 0;
		piece.start = at;
		at = piece.end;
		pin->piece = more;
		pin->piece[pin->count++] = piece;
	}
	if (maps)
		fclose(maps);
	return at >= pin->end;
}

struct soft_pin *soft_pin_new(uint64_t start, size_t bytes)
{
	struct soft_pin *pin = calloc(1, sizeof(*pin));

	if (!pin)
		return NULL;
	pin->start = start & ~(SOFT_PAGE - 1);
	pin->end = (start + bytes + SOFT_PAGE - 1) & ~(SOFT_PAGE - 1);
	pin->locked = !mlock((void *)(uintptr_t)pin->start, pin->end - pin->start);
	if (look(pin))
		return pin;
	soft_pin_free(pin);
	return NULL;
}

static const struct piece *piece_at(const struct soft_pin *pin, uint64_t at)
{
	for (unsigned int i = 0; i < pin->count; i++)
		if (at >= pin->piece[i].start && at < pin->piece[i].end)
			return &pin->piece[i];
	return NULL;
}

static bool same(const struct piece *was, const struct piece *is, uint64_t at)
{
	return was && is && was->major == is->major && was->minor == is->minor &&
	       was->inode == is->inode && was->locked == is->locked &&
	       (!was->inode || was->offset + (at - was->start) == is->offset + (at - is->start));
}

void soft_pin_check(const struct soft_pin *pin)
{
	struct soft_pin now = {.start = pin->start, .end = pin->end, .locked = pin->locked};
	bool mapped = look(&now);

	for (uint64_t at = pin->start; at < pin->end; at += SOFT_PAGE)
		if (!mapped || !same(piece_at(pin, at), piece_at(&now, at), at))
			soft_die("DMA to %#llx, whose page is no longer the one that was pinned",
				 (unsigned long long)at);
	free(now.piece);
}

void soft_pin_free(struct soft_pin *pin)
{
	if (!pin)
		return;
	if (pin->locked)
		munlock((void *)(uintptr_t)pin->start, pin->end - pin->start);
	free(pin->piece);
	free(pin);
}
