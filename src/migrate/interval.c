/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/interval.h"

#include <stdlib.h>

/* Below: starts under addr; above: the others. */
static void split(struct weft_interval *root, uintptr_t addr, struct weft_interval **below,
		  struct weft_interval **above)
{
	if (!root) {
		*below = *above = NULL;
	} else if (root->start < addr) {
		*below = root;
		split(root->right, addr, &root->right, above);
	} else {
		*above = root;
		split(root->left, addr, below, &root->left);
	}
}

static struct weft_interval *merge(struct weft_interval *below, struct weft_interval *above)
{
	if (!below)
		return above;
	if (!above)
		return below;
	if (below->priority > above->priority) {
		below->right = merge(below->right, above);
		return below;
	}
	above->left = merge(below, above->left);
	return above;
}

static uint32_t next_priority(void)
{
	static uint32_t state = 2463534242u;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

struct weft_interval *weft_interval_from(struct weft_interval *root, uintptr_t addr)
{
	struct weft_interval *best = NULL;

	while (root) {
		if (root->end > addr) {
			best = root;
			root = root->left;
		} else {
			root = root->right;
		}
	}
	return best;
}

struct weft_interval *weft_interval_add(struct weft_interval **root, uintptr_t start, uintptr_t end)
{
	struct weft_interval *interval = calloc(1, sizeof(*interval));
	struct weft_interval *below, *above;

	if (!interval)
		return NULL;
	interval->start = start;
	interval->end = end;
	interval->priority = next_priority();
	split(*root, start, &below, &above);
	*root = merge(merge(below, interval), above);
	return interval;
}

struct weft_interval *weft_interval_cut(struct weft_interval **root, struct weft_interval *interval,
					uintptr_t at)
{
	struct weft_interval *upper = weft_interval_add(root, at, interval->end);

	if (!upper)
		return NULL;
	upper->extent = interval->extent;
	upper->off = interval->off + (at - interval->start);
	upper->born = interval->born;
	upper->refs = interval->refs;
	interval->end = at;
	return upper;
}

bool weft_interval_join(struct weft_interval **root, uintptr_t at)
{
	struct weft_interval *lower = weft_interval_from(*root, at - 1);
	struct weft_interval *upper = weft_interval_from(*root, at);

	if (!lower || !upper || lower == upper || lower->end != at || upper->start != at ||
	    lower->extent != upper->extent || lower->born != upper->born ||
	    lower->refs != upper->refs || upper->borders)
		return false;
	if (lower->extent && lower->off + (at - lower->start) != upper->off)
		return false;
	lower->end = upper->end;
	weft_interval_remove(root, upper);
	return true;
}

void weft_interval_remove(struct weft_interval **root, struct weft_interval *interval)
{
	struct weft_interval *below, *self, *above;

	split(*root, interval->start, &below, &above);
	split(above, interval->start + 1, &self, &above);
	*root = merge(below, above);
	free(interval);
}
