/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Events of the detector, as the seed decides them, with the truth about each; and datagrams (MGP)
 * made of them. Charged pions of 15 to 50 GeV/c make rings of radius f √(2(n − 1) − m²/p²), centred
 * evenly within 100 mm; photons are Poisson, each on either disk, and counted by the photomultiplier
 * in whose cell they fall, once.
 *
 * Context: one thread for each generator. Nothing is allocated.
 */
#ifndef WEFT_STREAM_GENERATOR_H
#define WEFT_STREAM_GENERATOR_H

#include <stdbool.h>

#include "stream/detector.h"
#include "wire/nanet/mgp.h"

#define WEFT_GENERATOR_RINGS 4u

struct weft_generator_options {
	uint64_t seed;
	double fraction[WEFT_GENERATOR_RINGS + 1]; /* of events with so many rings; in sum 1 */
	double photons;				   /* N₀, of a ring of the largest radius */
	double noise;				   /* hits an event */
	double rate_hz;				   /* of events */
	bool even;				   /* at a fixed rate, not Poisson */
	uint8_t source, sub_source;
	bool times;	/* each datagram has room for its time */
	bool scrambled; /* labels are random: a trigger that reads them is found out */
};

extern const struct weft_generator_options weft_generator_defaults;

/* The truth about an event, which only the side file tells. */
struct weft_truth {
	uint64_t event;
	double time_ns;
	uint32_t rings, noise; /* hits of noise, before those on the same photomultiplier are one */
	struct weft_truth_ring {
		double x_mm, y_mm, r_mm, momentum_gev;
		uint32_t photons, hits;
	} ring[WEFT_GENERATOR_RINGS];
};

struct weft_generator {
	struct weft_generator_options options;
	struct weft_detector detector;
	uint64_t random;
	uint64_t events;
	uint32_t sequence;
	double time_ns;
	/* the event that the last datagram had no room for */
	bool waits;
	uint8_t waiting[WEFT_M2EGP_MAX_BYTES];
	uint32_t waiting_bytes;
	struct weft_truth waiting_truth;
};

void weft_generator_begin(struct weft_generator *g, const struct weft_generator_options *options);

/* Writes the next event as M2EGP; returns its bytes. */
uint32_t weft_generator_event(struct weft_generator *g, uint8_t to[WEFT_M2EGP_MAX_BYTES],
			      struct weft_truth *truth);

/* The next datagram: as many events as it has room for, `most` of them at most, 1 … 255, with the
 * truth of each. The bytes of it; *events is their number. Its time, if it has one, is to be put in. */
uint32_t weft_generator_datagram(struct weft_generator *g, uint32_t most,
				 uint8_t to[WEFT_MGP_MAX_BYTES], struct weft_truth truth[],
				 uint32_t *events);

/* The radius of the ring of a pion of that momentum: 0 below the threshold. */
double weft_generator_radius_mm(double momentum_gev);

#endif
