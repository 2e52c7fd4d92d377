/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Several rings, by histograms: for centres on a grid, how many hits lie at which distance. Where most
 * lie at one distance is a ring; they are fitted and taken away; and again.
 */
#ifndef WEFT_STREAM_RICH_PEAKS_H
#define WEFT_STREAM_RICH_PEAKS_H

#include "stream/rich/fit.h"

#define WEFT_PEAKS_GRID	 21 /* centres beside each other */
#define WEFT_PEAKS_STEP	 11.0f
#define WEFT_PEAKS_BIN	 11.0f /* two beside each other make a peak */
#define WEFT_PEAKS_FROM	 88.0f
#define WEFT_PEAKS_BINS	 11u
#define WEFT_PEAKS_LEAST 5u
#define WEFT_PEAKS_SMALL 90.0
#define WEFT_PEAKS_LARGE 205.0

struct weft_peaks {
	struct weft_points points, ring;
};

/* As weft_almagest_find. */
WEFT_BOTH uint32_t weft_peaks_find(struct weft_peaks *work, const struct weft_points *points,
				   struct weft_rich_ring ring[WEFT_RINGS_MAX]);

#endif
