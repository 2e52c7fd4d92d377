/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How often which value came, to three digits: values below 2048 are counted each for itself, others in 1024
 * steps for each power of two, so that a quantile is at most 1/1024 too large. Made for
 * latencies in ns; it takes any number of 64 bits.
 *
 * Context: one thread, or the caller serializes.
 */
#ifndef WEFT_STREAM_HISTOGRAM_H
#define WEFT_STREAM_HISTOGRAM_H

#include <stdint.h>

#define WEFT_HISTOGRAM_DIGITS 10u /* binary, of those that are kept */
#define WEFT_HISTOGRAM_STEPS  ((64u - WEFT_HISTOGRAM_DIGITS + 1) << WEFT_HISTOGRAM_DIGITS)

/* All zero is an empty one. */
struct weft_histogram {
	uint64_t count, max, min; /* min, max: exact; of none 0 */
	uint64_t step[WEFT_HISTOGRAM_STEPS];
};

void weft_histogram_add(struct weft_histogram *h, uint64_t value);
/* As if all of `more` had been added. */
void weft_histogram_merge(struct weft_histogram *h, const struct weft_histogram *more);

/* The least value such that so many millionths of all values are not larger than it; rounded up to the end of its step, but
 * never above max. Of an empty histogram 0. */
uint64_t weft_histogram_quantile(const struct weft_histogram *h, uint32_t millionths);

/* Where a step begins, for a page that draws it; the step of a value. */
uint64_t weft_histogram_from(uint32_t step);
uint32_t weft_histogram_step(uint64_t value);

#endif
