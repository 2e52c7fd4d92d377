/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The pace of a wire: how long it takes for a datagram of given payload, gaps and headers included. */
#ifndef WEFT_STREAM_PACE_H
#define WEFT_STREAM_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct weft_pace {
	double bits_per_ns; /* 0: free */
	bool words;	    /* an APElink channel's: words of 16 bytes, and four more */
};

/* "1gbe", "10gbe", "apelink", "free", and "NxNAME" for N ≤ 1000 of them side by side. Whether it is
 * one of these. */
bool weft_pace_named(const char *name, struct weft_pace *pace);

/* In ns; 0 where it is free. */
double weft_pace_ns(const struct weft_pace *pace, uint32_t payload_bytes);

#endif
