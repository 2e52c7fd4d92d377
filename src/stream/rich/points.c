/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/points.h"

WEFT_BOTH void weft_points_of(const struct weft_detector *d, const struct weft_m2egp *event,
			      uint64_t seen[WEFT_DETECTOR_PMTS / 64 + 1],
			      struct weft_points *points)
{
	points->count = 0;
	for (uint32_t i = 0; i < event->hits; i++) {
		uint16_t pmt = weft_m2egp_pmt(event, i);

		if (pmt > WEFT_DETECTOR_PMTS || seen[pmt / 64] & 1ull << pmt % 64)
			continue;
		seen[pmt / 64] |= 1ull << pmt % 64;
		points->x[points->count] = d->x[pmt];
		points->y[points->count++] = d->y[pmt];
	}
	for (uint32_t i = 0; i < event->hits; i++) {
		uint16_t pmt = weft_m2egp_pmt(event, i);

		if (pmt <= WEFT_DETECTOR_PMTS)
			seen[pmt / 64] = 0;
	}
}
