/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Several rings, by Ptolemy's theorem (the Almagest): of four points in order on a circle
 * AC·BD = AB·CD + BC·AD, and by how much that is missed grows with the square of the distance from the
 * circle. Of the triplets of hits that lie far enough apart, the one with which most others agree makes
 * a ring with these; they are fitted and taken away; and again.
 */
#ifndef WEFT_STREAM_RICH_ALMAGEST_H
#define WEFT_STREAM_RICH_ALMAGEST_H

#include "stream/rich/fit.h"

#define WEFT_ALMAGEST_APART  90.0f /* mm between the points of a triplet */
#define WEFT_ALMAGEST_EXCESS 40.0f /* mm² */
#define WEFT_ALMAGEST_SEEDS  40u   /* of more hits than that, so many make the triplets */
/* The radii of rings that are looked for, in mm: those of pions of 15 GeV/c and more, and what fits miss by. */
#define WEFT_ALMAGEST_SMALL 90.0
#define WEFT_ALMAGEST_LARGE 205.0

struct weft_almagest {
	struct weft_points points, ring; /* that are left; of one ring */
	float apart[WEFT_POINTS_MAX + 1][WEFT_POINTS_MAX + 1];
};

/* The rings found, at most WEFT_RINGS_MAX. work: what it needs, for one event at a time. */
WEFT_BOTH uint32_t weft_almagest_find(struct weft_almagest *work, const struct weft_points *points,
				      struct weft_rich_ring ring[WEFT_RINGS_MAX]);

#endif
