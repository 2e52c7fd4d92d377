/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The rings of an event, by one of the algorithms; and what a trigger keeps of the event. */
#ifndef WEFT_STREAM_RICH_RINGS_H
#define WEFT_STREAM_RICH_RINGS_H

#include "stream/rich/almagest.h"
#include "stream/rich/peaks.h"

enum weft_rings_algorithm {
	WEFT_RINGS_CRAWFORD, /* one ring through all hits */
	WEFT_RINGS_TAUBIN,
	WEFT_RINGS_ALMAGEST,
	WEFT_RINGS_HISTOGRAM,
	WEFT_RINGS_ALGORITHMS,
};

/* What it needs for one event at a time; `seen` is all zero at first. Of algorithms that draw one ring the union is not used. */
struct weft_rings {
	struct weft_points points;
	uint64_t seen[WEFT_DETECTOR_PMTS / 64 + 1];
	union {
		struct weft_almagest almagest;
		struct weft_peaks peaks;
	};
};

struct weft_rings_options {
	uint32_t algorithm; /* enum weft_rings_algorithm */
	uint32_t drop;	    /* of one ring: whether outliers are dropped */
};

/* The bytes that an algorithm needs of struct weft_rings. */
WEFT_BOTH static inline uint64_t weft_rings_bytes(const struct weft_rings_options *options)
{
	return options->algorithm > WEFT_RINGS_TAUBIN
		       ? sizeof(struct weft_rings)
		       : __builtin_offsetof(struct weft_rings, almagest);
}

/* What is decided of an event. */
struct weft_decision {
	uint32_t timestamp; /* 25 ns */
	uint8_t fine, hits, rings, none;
};

/* The rings of the event; returns how many. */
WEFT_BOTH uint32_t weft_rings_find(struct weft_rings *work,
				   const struct weft_rings_options *options,
				   const struct weft_detector *detector,
				   const struct weft_m2egp *event,
				   struct weft_rich_ring ring[WEFT_RINGS_MAX]);

WEFT_BOTH static inline struct weft_decision weft_rings_decide(const struct weft_m2egp *event,
							       uint32_t rings)
{
	struct weft_decision decision = {event->timestamp, event->fine, event->hits, (uint8_t)rings,
					 0};

	return decision;
}

#endif
