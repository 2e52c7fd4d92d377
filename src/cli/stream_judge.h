/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What `weft stream trigger` decides on, and counts: a judge is one thread's. It goes through the datagrams of a buffer, or takes what a
 * GPU has decided, makes primitives of it, and keeps their datagrams until they are sent.
 */
#ifndef WEFT_CLI_STREAM_JUDGE_H
#define WEFT_CLI_STREAM_JUDGE_H

#include <stdio.h>

#include "cli/stream.h"
#include "stream/histogram.h"
#include "stream/rich/trigger.h"

struct weft_stream_tally {
	uint64_t events, with_rings, rings, primitives, datagrams;
	uint64_t misses, changed; /* buffers: back too late; not as they were received */
};

struct weft_stream_judge {
	const struct weft_detector *detector;
	struct weft_rings_options options;
	FILE *fits; /* where the rings are written, or NULL */
	struct weft_rings rings;
	struct weft_mtp mtp;
	struct weft_stream_tally tally;
	struct weft_histogram gathering; /* from a buffer's first datagram to its last */
	struct weft_histogram chain; /* from a buffer's first datagram leaving, to its primitives */
	uint64_t sent_ns; /* when the first datagram of the buffer left, by itself; or 0 */
	uint8_t *kept;	  /* datagrams of primitives, behind each other */
	size_t kept_bytes;
};

/* For buffers of so many bytes. NULL: there is no memory. */
struct weft_stream_judge *weft_stream_judge_make(const struct weft_detector *detector,
						 const struct weft_rings_options *options,
						 size_t buffer_bytes);
void weft_stream_judge_free(struct weft_stream_judge *j);

/* Decides on the events of datagrams behind each other. The engine has looked at each; what lies in memory of others is looked at
 * again. False: it has been changed. */
bool weft_stream_judge_buffer(struct weft_stream_judge *j, const uint8_t *at, const uint8_t *end);
/* Counts what was decided on an event, and makes its primitive. */
void weft_stream_judge_add(struct weft_stream_judge *j, const struct weft_decision *decision);
/* Makes the datagram of the primitives that have none yet. */
void weft_stream_judge_flush(struct weft_stream_judge *j);

struct weft_sender;
/* The datagrams that are kept leave, for either or both. */
void weft_stream_judge_send(struct weft_stream_judge *j, struct weft_stream_capture *capture,
			    uint64_t time_ns, struct weft_sender *sender);
/* Counts a buffer whose primitives have just been sent. */
void weft_stream_judge_count_chain(struct weft_stream_judge *j);

/* All that the other has counted. */
void weft_stream_judge_merge(struct weft_stream_judge *j, const struct weft_stream_judge *other);

#endif
