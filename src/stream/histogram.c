/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/histogram.h"

#define DIGITS WEFT_HISTOGRAM_DIGITS

/* The power of two above those whose values have a step each, then the digits behind the first. */
uint32_t weft_histogram_step(uint64_t value)
{
	unsigned int first = 63u - (unsigned int)__builtin_clzll(value | 1);

	if (first <= DIGITS)
		return (uint32_t)value;
	return ((first - DIGITS) << DIGITS) + (uint32_t)(value >> (first - DIGITS));
}

uint64_t weft_histogram_from(uint32_t step)
{
	uint32_t power = step >> DIGITS;

	if (power <= 1)
		return step;
	return (uint64_t)(step - ((power - 1) << DIGITS)) << (power - 1);
}

void weft_histogram_add(struct weft_histogram *h, uint64_t value)
{
	h->min = !h->count || value < h->min ? value : h->min;
	h->max = value > h->max ? value : h->max;
	h->count++;
	h->step[weft_histogram_step(value)]++;
}

void weft_histogram_merge(struct weft_histogram *h, const struct weft_histogram *more)
{
	if (!more->count)
		return;
	h->min = !h->count || more->min < h->min ? more->min : h->min;
	h->max = more->max > h->max ? more->max : h->max;
	h->count += more->count;
	for (uint32_t i = 0; i < WEFT_HISTOGRAM_STEPS; i++)
		h->step[i] += more->step[i];
}

uint64_t weft_histogram_quantile(const struct weft_histogram *h, uint32_t millionths)
{
	uint64_t wanted = (uint64_t)(((unsigned __int128)h->count * millionths + 999999) / 1000000);
	uint64_t seen = 0;

	if (!h->count)
		return 0;
	wanted = wanted ? wanted : 1;
	for (uint32_t i = 0; i < WEFT_HISTOGRAM_STEPS; i++) {
		seen += h->step[i];
		if (seen >= wanted) {
			/* the last step has none behind it: it ends with the largest number */
			uint64_t last = i + 1 < WEFT_HISTOGRAM_STEPS
						? weft_histogram_from(i + 1) - 1
						: UINT64_MAX;

			return last < h->max ? last : h->max;
		}
	}
	return h->max;
}
