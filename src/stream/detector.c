/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Lattice point (q, r) lies at pitch × (q + r/2, r √3/2); its distance² is pitch² (q² + qr + r²). */
#include "stream/detector.h"

#include <math.h>
#include <stdlib.h>

#define REACH  WEFT_DETECTOR_REACH
#define HEIGHT 0.86602540378443864676 /* √3/2 */

struct point {
	int q, r;
};

static int square(const struct point *p)
{
	return p->q * p->q + p->q * p->r + p->r * p->r;
}

/* Of points at one distance any order will do, that is always the same. */
static int compare(const void *left, const void *right)
{
	const struct point *a = left, *b = right;
	int by_distance = square(a) - square(b);

	if (by_distance)
		return by_distance;
	return a->r != b->r ? a->r - b->r : a->q - b->q;
}

void weft_detector_init(struct weft_detector *d)
{
	struct point all[(2 * REACH + 1) * (2 * REACH + 1)];
	unsigned int count = 0;

	*d = (struct weft_detector){0};
	for (int r = -REACH; r <= REACH; r++)
		for (int q = -REACH; q <= REACH; q++)
			all[count++] = (struct point){q, r};
	qsort(all, count, sizeof(*all), compare);
	for (unsigned int i = 0; i < WEFT_DETECTOR_DISK; i++) {
		const struct point *p = &all[i];
		unsigned int number = i + 1, other = number + WEFT_DETECTOR_DISK;

		d->number[p->r + REACH][p->q + REACH] = (int16_t)number;
		d->x[number] = d->x[other] = (float)(WEFT_DETECTOR_PITCH * (p->q + p->r / 2.0));
		d->y[number] = d->y[other] = (float)(WEFT_DETECTOR_PITCH * HEIGHT * p->r);
	}
}

/* q + r + s = 0: rounded each, the one that was rounded most follows from the others. */
uint16_t weft_detector_nearest(const struct weft_detector *d, double x_mm, double y_mm)
{
	double r = y_mm / (WEFT_DETECTOR_PITCH * HEIGHT), q = x_mm / WEFT_DETECTOR_PITCH - r / 2;
	double s = -q - r;

	if (!(fabs(q) < REACH && fabs(r) < REACH && fabs(s) < REACH))
		return 0;
	int near_q = (int)lround(q), near_r = (int)lround(r), near_s = (int)lround(s);
	double off_q = fabs(near_q - q), off_r = fabs(near_r - r), off_s = fabs(near_s - s);

	if (off_q > off_r && off_q > off_s)
		near_q = -near_r - near_s;
	else if (off_r > off_s)
		near_r = -near_q - near_s;
	return (uint16_t)d->number[near_r + REACH][near_q + REACH];
}
