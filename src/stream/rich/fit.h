/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One ring through points, by algebraic least squares. Crawford's minimizes Σ (d² − r²)², Taubin's the
 * same divided by Σ d², which draws short arcs less inward.
 */
#ifndef WEFT_STREAM_RICH_FIT_H
#define WEFT_STREAM_RICH_FIT_H

#include "stream/rich/points.h"

enum weft_fit_state {
	WEFT_FIT_FOUND,
	WEFT_FIT_FEW,	    /* less than WEFT_FIT_LEAST points */
	WEFT_FIT_COLLINEAR, /* or all on one spot: a circle through them has no end */
};

#define WEFT_FIT_LEAST	4u   /* photomultipliers, as the experiment has it */
#define WEFT_FIT_WITHIN 15.0 /* mm: a hit farther off is none of the ring */
#define WEFT_FIT_DROPS	4u

typedef enum weft_fit_state weft_fit_fn(const struct weft_points *points,
					struct weft_rich_ring *ring);

/* *ring is set when it was found. */
WEFT_BOTH weft_fit_fn weft_fit_crawford, weft_fit_taubin;

/* Fits, drops the point without which the others fit best, up to WEFT_FIT_DROPS times, until all are within
 * WEFT_FIT_WITHIN. points keeps those that are left. */
WEFT_BOTH enum weft_fit_state weft_fit_without_outliers(weft_fit_fn *fit,
							struct weft_points *points,
							struct weft_rich_ring *ring);

#endif
