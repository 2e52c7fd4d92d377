/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/generator.h"
#include "stream/random.h"

#include <math.h>
#include <string.h>

#define FOCAL_MM      17020.0
#define INDEX	      62.8e-6 /* of neon, above 1 */
#define PION_GEV      0.13957
#define LARGEST_MM    190.7
#define LEAST_GEV     15.0
#define MOST_GEV      50.0
#define CENTRE_MM     100.0
#define TICK_NS	      25.0
#define RESOLUTION_NS 0.1 /* of a photomultiplier */

const struct weft_generator_options weft_generator_defaults = {
	.seed = 1,
	.fraction = {0.03, 0.19, 0.21, 0.28, 0.29},
	.photons = 12,
	.noise = 0.5,
	.rate_hz = 10e6,
};

/* ---- Chance ---- */

/* 0 ≤ x < 1 */
static double uniform(struct weft_generator *g)
{
	return (double)(splitmix64(&g->random) >> 11) * 0x1p-53;
}

static uint32_t poisson(struct weft_generator *g, double mean)
{
	double limit = exp(-mean), product = uniform(g);
	uint32_t n = 0;

	for (; product > limit; n++)
		product *= uniform(g);
	return n;
}

static double gaussian(struct weft_generator *g)
{
	double r = sqrt(-2 * log(1 - uniform(g)));

	return r * cos(2 * M_PI * uniform(g));
}

/* ---- An event ---- */

struct hits {
	uint8_t count, board[4];
	bool hit[WEFT_DETECTOR_PMTS + 1];
	uint16_t pmt[WEFT_M2EGP_MAX_HITS];
};

/* Adds a hit. Returns whether that photomultiplier had none. */
static bool add_hit(struct hits *h, uint16_t pmt)
{
	if (!pmt || h->hit[pmt] || h->count == WEFT_M2EGP_MAX_HITS)
		return false;
	h->hit[pmt] = true;
	h->pmt[h->count++] = pmt;
	h->board[(pmt - 1) / (WEFT_DETECTOR_PMTS / 4)]++;
	return true;
}

double weft_generator_radius_mm(double momentum_gev)
{
	double square = 2 * INDEX - PION_GEV * PION_GEV / (momentum_gev * momentum_gev);

	return square > 0 ? FOCAL_MM * sqrt(square) : 0;
}

static void add_ring(struct weft_generator *g, struct hits *h, struct weft_truth_ring *ring)
{
	double from_centre = CENTRE_MM * sqrt(uniform(g)), where = 2 * M_PI * uniform(g);

	ring->x_mm = from_centre * cos(where);
	ring->y_mm = from_centre * sin(where);
	ring->momentum_gev = LEAST_GEV + (MOST_GEV - LEAST_GEV) * uniform(g);
	ring->r_mm = weft_generator_radius_mm(ring->momentum_gev);
	double share = ring->r_mm / LARGEST_MM;

	ring->photons = poisson(g, g->options.photons * share * share);
	ring->hits = 0;
	for (uint32_t i = 0; i < ring->photons; i++) {
		double at = 2 * M_PI * uniform(g);
		uint16_t pmt =
			weft_detector_nearest(&g->detector, ring->x_mm + ring->r_mm * cos(at),
					      ring->y_mm + ring->r_mm * sin(at));
		bool second = uniform(g) < 0.5;

		ring->hits += add_hit(h, pmt && second ? pmt + WEFT_DETECTOR_DISK : pmt);
	}
}

static uint32_t rings_of(struct weft_generator *g)
{
	double x = uniform(g);

	for (uint32_t n = 0; n < WEFT_GENERATOR_RINGS; n++)
		if ((x -= g->options.fraction[n]) < 0)
			return n;
	return WEFT_GENERATOR_RINGS;
}

void weft_generator_begin(struct weft_generator *g, const struct weft_generator_options *options)
{
	*g = (struct weft_generator){.options = *options, .random = options->seed};
	weft_detector_init(&g->detector);
}

uint32_t weft_generator_event(struct weft_generator *g, uint8_t to[WEFT_M2EGP_MAX_BYTES],
			      struct weft_truth *truth)
{
	struct hits h = {0};
	double gap_ns = 1e9 / g->options.rate_hz, seen_ns;

	g->time_ns += g->options.even ? gap_ns : -gap_ns * log(1 - uniform(g));
	*truth = (struct weft_truth){.event = g->events++, .time_ns = g->time_ns};
	truth->rings = rings_of(g);
	for (uint32_t i = 0; i < truth->rings; i++)
		add_ring(g, &h, &truth->ring[i]);
	truth->noise = poisson(g, g->options.noise);
	for (uint32_t i = 0; i < truth->noise; i++)
		add_hit(&h, (uint16_t)(1 + uniform(g) * WEFT_DETECTOR_PMTS));
	/* the event's time as measured: the mean of its hits' times */
	seen_ns = g->time_ns + RESOLUTION_NS * gaussian(g) / sqrt(h.count ?: 1);
	uint64_t fine = (uint64_t)fmax(0, seen_ns / TICK_NS * 256);
	struct weft_m2egp event = {
		.timestamp = (uint32_t)(fine >> 8),
		.fine = (uint8_t)fine,
		.hits = h.count,
		.board = {h.board[0], h.board[1], h.board[2], h.board[3]},
		.rings = (uint8_t)truth->rings,
		.label = (uint8_t)(truth->rings < 3 ? truth->rings : 3),
	};
	if (g->options.scrambled) {
		/* from random numbers of its own, so that all else is as without --scramble */
		uint64_t z = (g->events + g->options.seed) * 0x9e3779b97f4a7c15ull;

		event.rings = (uint8_t)(z >> 40);
		event.label = (uint8_t)(z >> 60) & 3;
	}
	return weft_m2egp_write(&event, h.pmt, to);
}

/* ---- Datagrams ---- */

uint32_t weft_generator_datagram(struct weft_generator *g, uint32_t most,
				 uint8_t to[WEFT_MGP_MAX_BYTES], struct weft_truth truth[],
				 uint32_t *events)
{
	struct weft_mgp mgp = {
		.sequence = g->sequence++,
		.source = g->options.source,
		.sub_source = g->options.sub_source,
		.flags = g->options.times ? WEFT_MGP_SENT : 0,
	};
	uint32_t bytes = weft_mgp_header_bytes(mgp.flags), n = 0;

	while (n < most) {
		if (!g->waits)
			g->waiting_bytes = weft_generator_event(g, g->waiting, &g->waiting_truth);
		g->waits = bytes + g->waiting_bytes > WEFT_MGP_MAX_BYTES;
		if (g->waits)
			break;
		if (!n)
			mgp.timestamp = (uint32_t)weft_bytes_little(g->waiting + 1, 4);
		memcpy(to + bytes, g->waiting, g->waiting_bytes);
		bytes += g->waiting_bytes;
		truth[n++] = g->waiting_truth;
	}
	mgp.bytes = (uint16_t)bytes;
	mgp.events = (uint8_t)n;
	weft_mgp_write(&mgp, to);
	*events = n;
	return bytes;
}
