/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is counted in the pool: by each thread in its line, and in sums of those that have gone. */
#ifndef WEFT_POOL_COUNTERS_H
#define WEFT_POOL_COUNTERS_H

#include <stdint.h>

/* What has been carried, counted where it is executed: by the requester. */
struct weft_counters {
	uint64_t ops_write, bytes_write;
	uint64_t ops_read, bytes_read;
	uint64_t ops_send, bytes_send;
	uint64_t ops_atomic;
};

static inline void weft_counters_add(struct weft_counters *sum, const struct weft_counters *part)
{
	sum->ops_write += part->ops_write;
	sum->bytes_write += part->bytes_write;
	sum->ops_read += part->ops_read;
	sum->bytes_read += part->bytes_read;
	sum->ops_send += part->ops_send;
	sum->bytes_send += part->bytes_send;
	sum->ops_atomic += part->ops_atomic;
}

#endif
