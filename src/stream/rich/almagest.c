/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/almagest.h"

struct triplet {
	uint32_t a, b, c, agree;
	float excess; /* of those that agree, in sum */
};

WEFT_BOTH static void measure(struct weft_almagest *w)
{
	const struct weft_points *p = &w->points;

	for (uint32_t i = 0; i < p->count; i++)
		for (uint32_t k = 0; k < p->count; k++) {
			float dx = p->x[i] - p->x[k], dy = p->y[i] - p->y[k];

			w->apart[i][k] = __builtin_sqrtf(dx * dx + dy * dy);
		}
}

/* By how much point k misses the circle of the triplet: on the circle the largest of the three products (which one that is depends on
 * where the point lies) is the sum of the others. */
WEFT_BOTH static inline float excess(const struct weft_almagest *w, const struct triplet *t,
				     uint32_t k)
{
	float first = w->apart[t->a][t->b] * w->apart[t->c][k];
	float second = w->apart[t->a][t->c] * w->apart[t->b][k];
	float third = w->apart[t->b][t->c] * w->apart[t->a][k];
	float most = first > second ? first : second;

	most = most > third ? most : third;
	return first + second + third - 2 * most;
}

WEFT_BOTH static void judge_triplet(const struct weft_almagest *w, struct triplet *t)
{
	float sum = 0;
	uint32_t agree = 0;

	for (uint32_t k = 0; k < w->points.count; k++) {
		float by = excess(w, t, k);
		bool is = by < WEFT_ALMAGEST_EXCESS;

		agree += is;
		sum += is ? by : 0;
	}
	t->agree = agree;
	t->excess = sum;
}

/* Whether the circle through the three is one of those looked for; twice the area is base × height. */
WEFT_BOTH static bool has_radius(const struct weft_almagest *w, const struct triplet *t)
{
	const struct weft_points *p = &w->points;
	float bx = p->x[t->b] - p->x[t->a], by = p->y[t->b] - p->y[t->a];
	float cx = p->x[t->c] - p->x[t->a], cy = p->y[t->c] - p->y[t->a];
	float twice_area = __builtin_fabsf(bx * cy - by * cx);
	float sides = w->apart[t->a][t->b] * w->apart[t->a][t->c] * w->apart[t->b][t->c];

	return sides > 2 * (float)WEFT_ALMAGEST_SMALL * twice_area &&
	       sides < 2 * (float)WEFT_ALMAGEST_LARGE * twice_area;
}

WEFT_BOTH static bool better(const struct triplet *t, const struct triplet *than)
{
	return t->agree > than->agree || (t->agree == than->agree && t->excess < than->excess);
}

/* The triplet with which most hits agree, among those of the seeds, which are evenly chosen hits. */
WEFT_BOTH static struct triplet find_best(const struct weft_almagest *w)
{
	uint32_t count = w->points.count;
	uint32_t seeds = count < WEFT_ALMAGEST_SEEDS ? count : WEFT_ALMAGEST_SEEDS;
	struct triplet best = {0}, t;

	for (uint32_t i = 0; i < seeds; i++) {
		t.a = i * count / seeds;
		for (uint32_t k = i + 1; k < seeds; k++) {
			t.b = k * count / seeds;
			if (w->apart[t.a][t.b] < WEFT_ALMAGEST_APART)
				continue;
			for (uint32_t l = k + 1; l < seeds; l++) {
				t.c = l * count / seeds;
				if (w->apart[t.a][t.c] < WEFT_ALMAGEST_APART ||
				    w->apart[t.b][t.c] < WEFT_ALMAGEST_APART)
					continue;
				if (!has_radius(w, &t))
					continue;
				judge_triplet(w, &t);
				if (better(&t, &best))
					best = t;
			}
		}
	}
	return best;
}

WEFT_BOTH static void gather_hits(struct weft_almagest *w, const struct triplet *t)
{
	w->ring.count = 0;
	for (uint32_t k = 0; k < w->points.count; k++)
		if (excess(w, t, k) < WEFT_ALMAGEST_EXCESS) {
			w->ring.x[w->ring.count] = w->points.x[k];
			w->ring.y[w->ring.count++] = w->points.y[k];
		}
}

/* Takes away the hits near the ring, which are its own. */
WEFT_BOTH static uint32_t take_away(struct weft_points *p, const struct weft_rich_ring *ring)
{
	uint32_t left = 0, count = p->count;

	for (uint32_t i = 0; i < count; i++)
		if (__builtin_fabs(weft_ring_off(ring, (double)p->x[i], (double)p->y[i])) >
		    WEFT_FIT_WITHIN) {
			p->x[left] = p->x[i];
			p->y[left++] = p->y[i];
		}
	p->count = left;
	return count - left;
}

WEFT_BOTH uint32_t weft_almagest_find(struct weft_almagest *w, const struct weft_points *points,
				      struct weft_rich_ring ring[WEFT_RINGS_MAX])
{
	uint32_t rings = 0;

	w->points = *points;
	while (rings < WEFT_RINGS_MAX && w->points.count >= WEFT_FIT_LEAST) {
		struct weft_rich_ring *r = &ring[rings];

		measure(w);
		struct triplet best = find_best(w);

		if (best.agree < WEFT_FIT_LEAST)
			break;
		gather_hits(w, &best);
		if (weft_fit_without_outliers(weft_fit_taubin, &w->ring, r) != WEFT_FIT_FOUND)
			break;
		if (r->r < WEFT_ALMAGEST_SMALL || r->r > WEFT_ALMAGEST_LARGE)
			break;
		r->hits = take_away(&w->points, r);
		if (!r->hits)
			break;
		rings++;
	}
	return rings;
}
