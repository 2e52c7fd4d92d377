/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The trigger: rings of each event by one of the algorithms, and a primitive for each event that has
 * any. The meaning of a primitive's id is Weft's choice: the number of rings in bits 3:0, of hits in bits 15:8.
 */
#ifndef WEFT_STREAM_RICH_TRIGGER_H
#define WEFT_STREAM_RICH_TRIGGER_H

#include "stream/rich/almagest.h"
#include "stream/rich/peaks.h"
#include "wire/nanet/mtp.h"

enum weft_trigger_algorithm {
	WEFT_TRIGGER_CRAWFORD, /* one ring through all hits */
	WEFT_TRIGGER_TAUBIN,
	WEFT_TRIGGER_ALMAGEST,
	WEFT_TRIGGER_HISTOGRAM,
	WEFT_TRIGGER_ALGORITHMS,
};

struct weft_trigger {
	enum weft_trigger_algorithm algorithm;
	bool drop; /* of one ring: drop outliers */
	struct weft_detector detector;
	struct weft_points points;
	uint64_t seen[WEFT_DETECTOR_PMTS / 64 + 1];
	union {
		struct weft_almagest almagest;
		struct weft_peaks peaks;
	};
	struct weft_mtp mtp; /* the primitives that have not been sent */
};

const char *weft_trigger_name(enum weft_trigger_algorithm algorithm);

/* weft_detector_init has been called on its detector; all else is set here. */
void weft_trigger_begin(struct weft_trigger *t, enum weft_trigger_algorithm algorithm, bool drop);

/* The rings of the event. */
uint32_t weft_trigger_event(struct weft_trigger *t, const struct weft_m2egp *event,
			    struct weft_rich_ring ring[WEFT_RINGS_MAX]);

/* Adds the event's primitive, if it has rings. If the primitives before it are to be sent first, as this one
 * belongs to another 6.4 µs or there is no room, their datagram is written to `to`, and its length
 * returned; else 0. */
uint32_t weft_trigger_add(struct weft_trigger *t, const struct weft_m2egp *event, uint32_t rings,
			  uint8_t to[WEFT_MTP_MAX_BYTES]);
/* Writes the datagram of the primitives that have not been sent; its length, or 0. */
uint32_t weft_trigger_flush(struct weft_trigger *t, uint8_t to[WEFT_MTP_MAX_BYTES]);

#endif
