/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How many packets of a queue pair may be on their way, and how long an answer takes. Loss in practice is
 * the receiver's socket buffer: the window begins small, doubles with each round trip until something is
 * lost, is halved then, and grows by one packet a round trip.
 */
#ifndef WEFT_WIRE_ROCE_RATE_H
#define WEFT_WIRE_ROCE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_ROCE_FIRST_WINDOW 16u
#define WEFT_ROCE_LEAST_WINDOW 2u
#define WEFT_ROCE_MOST_WINDOW  256u

struct weft_roce_rate {
	uint32_t window, threshold, grown;    /* packets */
	uint64_t round_trip_ns, deviation_ns; /* 0: not measured */
	uint64_t sample_psn, sample_ns;	      /* being measured, if sample_ns */
};

void weft_roce_rate_init(struct weft_roce_rate *rate);
void weft_roce_rate_acked(struct weft_roce_rate *rate, uint64_t packets);
void weft_roce_rate_lost(struct weft_roce_rate *rate);

/* A packet that was not sent before goes out, is acknowledged; anything goes out again: an answer would not
 * tell to which. */
void weft_roce_rate_sent(struct weft_roce_rate *rate, uint64_t psn, uint64_t now_ns);
void weft_roce_rate_answered(struct weft_roce_rate *rate, uint64_t up_to_psn, uint64_t now_ns);
void weft_roce_rate_forget(struct weft_roce_rate *rate);

/* How long to wait before asking, the n-th time; 0: not known. */
uint64_t weft_roce_rate_patience_ns(const struct weft_roce_rate *rate, uint32_t n);

#endif
