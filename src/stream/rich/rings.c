/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/rings.h"

WEFT_BOTH static uint32_t find_one(struct weft_rings *w, bool drop, weft_fit_fn *fit,
				   struct weft_rich_ring *ring)
{
	enum weft_fit_state state =
		drop ? weft_fit_without_outliers(fit, &w->points, ring) : fit(&w->points, ring);

	return state == WEFT_FIT_FOUND;
}

WEFT_BOTH uint32_t weft_rings_find(struct weft_rings *w, const struct weft_rings_options *options,
				   const struct weft_detector *detector,
				   const struct weft_m2egp *event,
				   struct weft_rich_ring ring[WEFT_RINGS_MAX])
{
	weft_points_of(detector, event, w->seen, &w->points);
	switch ((enum weft_rings_algorithm)options->algorithm) {
	case WEFT_RINGS_CRAWFORD:
		return find_one(w, options->drop, weft_fit_crawford, ring);
	case WEFT_RINGS_TAUBIN:
		return find_one(w, options->drop, weft_fit_taubin, ring);
	case WEFT_RINGS_ALMAGEST:
		return weft_almagest_find(&w->almagest, &w->points, ring);
	case WEFT_RINGS_HISTOGRAM:
		return weft_peaks_find(&w->peaks, &w->points, ring);
	case WEFT_RINGS_ALGORITHMS:
		break;
	}
	return 0;
}
