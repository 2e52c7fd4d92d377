/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/points.h"

/* Without branches: whether a hit counts cannot be foreseen. */
WEFT_BOTH void weft_points_of(const struct weft_detector *d, const struct weft_m2egp *event,
			      uint64_t seen[WEFT_DETECTOR_PMTS / 64 + 1],
			      struct weft_points *points)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < event->hits; i++) {
		uint16_t pmt = weft_m2egp_pmt(event, i), at = pmt <= WEFT_DETECTOR_PMTS ? pmt : 0;
		uint64_t *word = &seen[at / 64], before = *word;

		/* number 0, which no hit has, stands for what the detector does not have */
		points->x[count] = d->x[at];
		points->y[count] = d->y[at];
		*word = before | 1ull << at % 64;
		count += at && !(before >> at % 64 & 1);
	}
	points->count = count;
	for (uint32_t i = 0; i < WEFT_DETECTOR_PMTS / 64 + 1; i++)
		seen[i] = 0;
}
