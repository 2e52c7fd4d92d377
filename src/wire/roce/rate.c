/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/roce/rate.h"

/* Below it a busy peer looks like a lost packet; above it waiting costs more than asking. */
#define LEAST_PATIENCE_NS 100000ull
#define MOST_PATIENCE_NS  1000000000ull

void weft_roce_rate_init(struct weft_roce_rate *rate)
{
	*rate = (struct weft_roce_rate){
		.window = WEFT_ROCE_FIRST_WINDOW,
		.threshold = WEFT_ROCE_MOST_WINDOW,
	};
}

void weft_roce_rate_acked(struct weft_roce_rate *rate, uint64_t packets)
{
	for (; packets && rate->window < WEFT_ROCE_MOST_WINDOW; packets--) {
		if (rate->window >= rate->threshold && ++rate->grown < rate->window)
			continue;
		rate->grown = 0;
		rate->window++;
	}
}

void weft_roce_rate_lost(struct weft_roce_rate *rate)
{
	rate->window /= 2;
	if (rate->window < WEFT_ROCE_LEAST_WINDOW)
		rate->window = WEFT_ROCE_LEAST_WINDOW;
	rate->threshold = rate->window;
	rate->grown = 0;
}

void weft_roce_rate_sent(struct weft_roce_rate *rate, uint64_t psn, uint64_t now_ns)
{
	if (rate->sample_ns)
		return;
	rate->sample_psn = psn;
	rate->sample_ns = now_ns;
}

/* RFC 6298's smoothing */
void weft_roce_rate_answered(struct weft_roce_rate *rate, uint64_t up_to_psn, uint64_t now_ns)
{
	uint64_t took, off;

	if (!rate->sample_ns || up_to_psn <= rate->sample_psn)
		return;
	took = now_ns - rate->sample_ns;
	rate->sample_ns = 0;
	if (!rate->round_trip_ns) {
		rate->round_trip_ns = took ? took : 1;
		rate->deviation_ns = took / 2;
		return;
	}
	off = took > rate->round_trip_ns ? took - rate->round_trip_ns : rate->round_trip_ns - took;
	rate->deviation_ns += off / 4 - rate->deviation_ns / 4;
	rate->round_trip_ns += took / 8 - rate->round_trip_ns / 8;
}

void weft_roce_rate_forget(struct weft_roce_rate *rate)
{
	rate->sample_ns = 0;
}

uint64_t weft_roce_rate_patience_ns(const struct weft_roce_rate *rate, uint32_t n)
{
	uint64_t patience = rate->round_trip_ns + 4 * rate->deviation_ns;

	if (!rate->round_trip_ns)
		return 0;
	if (patience < LEAST_PATIENCE_NS)
		patience = LEAST_PATIENCE_NS;
	patience = n > 20 || patience > MOST_PATIENCE_NS >> n ? MOST_PATIENCE_NS : patience << n;
	return patience;
}
