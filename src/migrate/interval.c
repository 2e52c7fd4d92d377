/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/interval.h"

#include <stdlib.h>

/* Below: starts under addr; above: the others. */
static void split_tree(struct weft_interval *root, uintptr_t addr, struct weft_interval **below,
		       struct weft_interval **above)
{
	if (!root) {
		*below = *above = NULL;
	} else if (root->start < addr) {
		*below = root;
		split_tree(root->right, addr, &root->right, above);
	} else {
		*above = root;
		split_tree(root->left, addr, below, &root->left);
	}
}

static struct weft_interval *merge_trees(struct weft_interval *below, struct weft_interval *above)
{
	if (!below)
		return above;
	if (!above)
		return below;
	if (below->priority > above->priority) {
		below->right = merge_trees(below->right, above);
		return below;
	}
	above->left = merge_trees(below, above->left);
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
	split_tree(*root, start, &below, &above);
	*root = merge_trees(merge_trees(below, interval), above);
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

	split_tree(*root, interval->start, &below, &above);
	split_tree(above, interval->start + 1, &self, &above);
	*root = merge_trees(below, above);
	free(interval);
}
