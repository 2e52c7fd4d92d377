/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extents: runs of whole pages in the segments leased to this process. Small ones share a segment
 * under a bitmap; one that is larger than half a segment has a run of segments of its own. Each is
 * followed by a hole, so that a mapping that grows in place does not run into its neighbour.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/internal.h"
#include "pool/step.h"
#include "pool/sizes.h"

#define HOLE_PAGES 1u

static uint32_t segment_pages(const struct weft_attachment *a)
{
	return (uint32_t)(weft_segment_bytes(&a->pool) / WEFT_PAGE);
}

static bool own_segments(const struct weft_attachment *a, uint32_t pages)
{
	return pages > segment_pages(a) / 2;
}

static uint32_t segments_for(const struct weft_attachment *a, uint32_t pages)
{
	return (pages + segment_pages(a) - 1) / segment_pages(a);
}

static uint32_t pages_of(uint64_t len_bytes)
{
	return (uint32_t)((len_bytes + WEFT_PAGE - 1) / WEFT_PAGE) + HOLE_PAGES;
}

static void mark(struct weft_segment_books *books, uint32_t first, uint32_t count, bool used)
{
	for (uint32_t i = first; i < first + count; i++) {
		uint64_t bit = 1ull << i % 64;

		if (used)
			books->used[i / 64] |= bit;
		else
			books->used[i / 64] &= ~bit;
	}
	books->free_pages += used ? -count : count;
}

/* First fit from `from` up to `end`: the first page of a run of `count` free ones, or `end`. */
static uint32_t find_run(const struct weft_segment_books *books, uint32_t from, uint32_t end,
			 uint32_t count)
{
	uint32_t run = 0;

	for (uint32_t i = from; i < end; i++) {
		if (i % 64 == 0 && books->used[i / 64] == UINT64_MAX) {
			run = 0;
			i += 63;
			continue;
		}
		run = books->used[i / 64] >> i % 64 & 1 ? 0 : run + 1;
		if (run == count)
			return i + 1 - count;
	}
	return end;
}

/* Of a segment of `end` pages. */
static bool cut_pages(struct weft_segment_books *books, uint32_t end, uint32_t count,
		      uint32_t *page)
{
	if (!books || books->free_pages < count)
		return false;
	*page = find_run(books, books->next, end, count);
	if (*page == end)
		*page = find_run(books, 0, end, count);
	if (*page == end)
		return false;
	mark(books, *page, count, true);
	books->next = *page + count < end ? *page + count : 0;
	return true;
}

static int open_books(struct weft_attachment *a, uint32_t *segment)
{
	int err = weft_lease_segments(a, 1, segment);

	if (err)
		return err;
	a->books[*segment] = calloc(1, sizeof(*a->books[0]));
	if (!a->books[*segment]) {
		weft_lease_drop_segments(a, *segment, 1);
		return -ENOMEM;
	}
	a->books[*segment]->free_pages = segment_pages(a);
	if (a->books_first == a->books_end)
		a->books_first = a->books_end = *segment;
	if (*segment < a->books_first)
		a->books_first = *segment;
	if (*segment >= a->books_end)
		a->books_end = *segment + 1;
	return 0;
}

static int place(struct weft_attachment *a, uint32_t pages, uint64_t *off)
{
	const uint64_t bytes = weft_segment_bytes(&a->pool);
	uint32_t segment, page = 0;
	int err;

	if (own_segments(a, pages)) {
		err = weft_lease_segments(a, segments_for(a, pages), &segment);
		if (!err)
			*off = segment * bytes;
		return err;
	}
	for (segment = a->books_first; segment < a->books_end; segment++)
		if (cut_pages(a->books[segment], segment_pages(a), pages, &page))
			goto found;
	err = open_books(a, &segment);
	if (err)
		return err;
	cut_pages(a->books[segment], segment_pages(a), pages, &page);
found:
	*off = segment * bytes + page * WEFT_PAGE;
	return 0;
}

static void unplace(struct weft_attachment *a, uint32_t pages, uint64_t off)
{
	uint32_t segment = (uint32_t)weft_segment_of(&a->pool, off);
	struct weft_segment_books *books = a->books[segment];

	if (own_segments(a, pages)) {
		weft_lease_drop_segments(a, segment, segments_for(a, pages));
		return;
	}
	mark(books, (uint32_t)(off % weft_segment_bytes(&a->pool) / WEFT_PAGE), pages, false);
	if (books->free_pages == segment_pages(a)) {
		free(books);
		a->books[segment] = NULL;
		weft_lease_drop_segments(a, segment, 1);
	}
}

static int extent_alloc(struct weft_attachment *a, uint64_t len_bytes, uint64_t *off)
{
	uint32_t pages = pages_of(len_bytes);
	int err;

	if (len_bytes > a->pool.bytes / 2)
		return -ENOSPC;
	err = place(a, pages, off);
	if (err)
		return err;
	WEFT_STEP(extent_placed);
	err = weft_reserve_pages(a, *off, (pages - HOLE_PAGES) * WEFT_PAGE);
	WEFT_STEP(extent_reserved);
	if (err)
		unplace(a, pages, *off);
	return err;
}

int weft_pool_extent_alloc(struct weft_pool *pool, uint64_t len_bytes, uint64_t *off)
{
	struct weft_attachment *a = weft_attachment(pool);
	int err;

	weft_pool_sweep(pool);
	pthread_mutex_lock(&a->mutex);
	err = extent_alloc(a, len_bytes, off);
	pthread_mutex_unlock(&a->mutex);
	return err;
}

void weft_pool_extent_free(struct weft_pool *pool, uint64_t off, uint64_t len_bytes)
{
	struct weft_attachment *a = weft_attachment(pool);

	pthread_mutex_lock(&a->mutex);
	/* the next user expects zeroes */
	if (!weft_release_pages(a, off, pages_of(len_bytes) * WEFT_PAGE)) {
		WEFT_STEP(extent_emptied);
		unplace(a, pages_of(len_bytes), off);
	}
	pthread_mutex_unlock(&a->mutex);
}
