/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Hits of one event as points, and rings through them. Everything in this folder is one source for the
 * CPU and for a GPU's kernel: no libc, no state but what is given; lengths in mm. It never reads the
 * labels of an event.
 */
#ifndef WEFT_STREAM_RICH_POINTS_H
#define WEFT_STREAM_RICH_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/detector.h"
#include "wire/nanet/m2egp.h"

#define WEFT_POINTS_MAX WEFT_M2EGP_MAX_HITS
#define WEFT_RINGS_MAX	8u

struct weft_points {
	uint32_t count;
	float x[WEFT_POINTS_MAX + 1], y[WEFT_POINTS_MAX + 1];
};

struct weft_rich_ring {
	double x, y, r;
	uint32_t hits; /* of which it is made */
};

/* The places of the event's hits: a photomultiplier that stands there twice counts once, a number that
 * the detector does not have is left out. seen: a bit for each number, all zero before and after. */
WEFT_BOTH void weft_points_of(const struct weft_detector *detector, const struct weft_m2egp *event,
			      uint64_t seen[WEFT_DETECTOR_PMTS / 64 + 1],
			      struct weft_points *points);

/* How far a point lies from the ring: negative inside. */
WEFT_BOTH static inline double weft_ring_off(const struct weft_rich_ring *ring, double x, double y)
{
	double dx = x - ring->x, dy = y - ring->y;

	return __builtin_sqrt(dx * dx + dy * dy) - ring->r;
}

#endif
