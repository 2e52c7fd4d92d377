/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/peaks.h"

struct peak {
	float x, y, r;
	uint32_t hits;
};

/* The best pair of bins beside each other, about one centre. */
WEFT_BOTH static void look_around(const struct weft_points *p, float x, float y, struct peak *best)
{
	uint32_t bin[WEFT_PEAKS_BINS + 1] = {0};

	for (uint32_t i = 0; i < p->count; i++) {
		float dx = p->x[i] - x, dy = p->y[i] - y;
		float at = (__builtin_sqrtf(dx * dx + dy * dy) - WEFT_PEAKS_FROM) / WEFT_PEAKS_BIN;

		if (at >= 0 && at < (float)WEFT_PEAKS_BINS)
			bin[(uint32_t)at]++;
	}
	for (uint32_t i = 0; i + 1 < WEFT_PEAKS_BINS; i++)
		if (bin[i] + bin[i + 1] > best->hits)
			*best = (struct peak){x, y,
					      WEFT_PEAKS_FROM + WEFT_PEAKS_BIN * (float)(i + 1),
					      bin[i] + bin[i + 1]};
}

WEFT_BOTH static struct peak find_peak(const struct weft_points *p)
{
	struct peak best = {0};
	const int reach = WEFT_PEAKS_GRID / 2;

	for (int i = -reach; i <= reach; i++)
		for (int k = -reach; k <= reach; k++)
			look_around(p, WEFT_PEAKS_STEP * (float)i, WEFT_PEAKS_STEP * (float)k,
				    &best);
	return best;
}

/* Points within that distance of the ring go to *own; the others are left, or with keep all. */
WEFT_BOTH static void split_points(struct weft_points *p, const struct weft_rich_ring *ring,
				   double within, struct weft_points *own, bool keep)
{
	uint32_t left = 0;

	own->count = 0;
	for (uint32_t i = 0; i < p->count; i++) {
		bool near = __builtin_fabs(weft_ring_off(ring, (double)p->x[i], (double)p->y[i])) <=
			    within;

		if (near) {
			own->x[own->count] = p->x[i];
			own->y[own->count++] = p->y[i];
		}
		if (!near || keep) {
			p->x[left] = p->x[i];
			p->y[left++] = p->y[i];
		}
	}
	p->count = left;
}

WEFT_BOTH uint32_t weft_peaks_find(struct weft_peaks *w, const struct weft_points *points,
				   struct weft_rich_ring ring[WEFT_RINGS_MAX])
{
	uint32_t rings = 0;

	w->points = *points;
	while (rings < WEFT_RINGS_MAX && w->points.count >= WEFT_FIT_LEAST) {
		struct peak peak = find_peak(&w->points);
		struct weft_rich_ring *r = &ring[rings];

		if (peak.hits < WEFT_PEAKS_LEAST)
			break;
		*r = (struct weft_rich_ring){(double)peak.x, (double)peak.y, (double)peak.r, 0};
		split_points(&w->points, r, (double)WEFT_PEAKS_BIN, &w->ring, true);
		if (weft_fit_without_outliers(weft_fit_taubin, &w->ring, r) != WEFT_FIT_FOUND)
			break;
		if (r->r < WEFT_PEAKS_SMALL || r->r > WEFT_PEAKS_LARGE)
			break;
		split_points(&w->points, r, WEFT_FIT_WITHIN, &w->ring, false);
		r->hits = w->ring.count;
		if (!r->hits)
			break;
		rings++;
	}
	return rings;
}
