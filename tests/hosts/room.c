/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Takes all segments that its host has in the pool $WEFT_POOL, and says how many bytes they are. When its input ends it
 * looks whether each page is what it was, and says so: `room WORD`, WORD being what it writes there.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/pool.h"
#include "pool/slice.h"

#define MOST 16384u

static uint64_t taken[MOST];
static uint32_t ntaken;

/* Of what was taken, a segment is one extent; behind each there is a hole of a page. */
static uint64_t extent_bytes(const struct weft_pool *pool)
{
	return weft_segment_bytes(pool) - WEFT_PAGE;
}

/* Pages that are not `was`. */
static uint64_t put(struct weft_pool *pool, uint64_t was, uint64_t now)
{
	uint64_t others = 0;

	for (uint32_t i = 0; i < ntaken; i++)
		for (uint64_t at = 0; at < extent_bytes(pool); at += WEFT_PAGE) {
			uint64_t *word = weft_pool_window(pool, taken[i] + at, WEFT_PAGE);

			others += !word || *word != was;
			if (word)
				*word = now;
		}
	return others;
}

int main(int argc, char **argv)
{
	uint64_t word = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, dirty, changed;
	struct weft_pool *pool;
	char where[PATH_MAX], input;
	const char *why;

	if (weft_pool_get(NULL, &pool, where, &why)) {
		fprintf(stderr, "%s: %s\n", where, why);
		return 1;
	}
	while (ntaken < MOST && !weft_pool_extent_alloc(pool, extent_bytes(pool), &taken[ntaken]))
		ntaken++;
	dirty = put(pool, 0, word);
	printf("%ju %ju\n", (uintmax_t)(ntaken * weft_segment_bytes(pool)), (uintmax_t)dirty);
	fflush(stdout);
	while (read(STDIN_FILENO, &input, 1) > 0)
		continue;
	changed = put(pool, word, 0);
	for (uint32_t i = 0; i < ntaken; i++)
		weft_pool_extent_free(pool, taken[i], extent_bytes(pool));
	weft_pool_put(pool);
	printf("%ju\n", (uintmax_t)changed);
	return 0;
}
