/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `weft stream generate --to`: events, or datagrams that only have a number, at the pace of a wire; and
 * how long the primitives took to come back that a trigger made of them.
 */
#ifndef WEFT_CLI_STREAM_LIVE_H
#define WEFT_CLI_STREAM_LIVE_H

#include "stream/generator.h"
#include "stream/pace.h"

struct weft_stream_live {
	struct weft_generator_options options;
	struct weft_pace pace;
	uint64_t events; /* of datagrams that only have a number: so many of these */
	uint64_t most;	 /* events a datagram */
	uint64_t segments;
	uint64_t sequenced; /* bytes of datagrams that only have a number; 0: events */
	double seconds;	    /* 0: as many as `events` says */
	const char *to, *back;
	bool json;
};

/* The exit status. */
int weft_stream_generate_live(const struct weft_stream_live *live);

/* Primitives that come back, by a thread. A frame is the high 24 bits of a timestamp. */
struct weft_stream_back;

/* 0 or -errno */
int weft_stream_back_open(const char *where, struct weft_stream_back **back);
/* An event of that timestamp leaves at that time. Any thread, one. */
void weft_stream_back_leaves(struct weft_stream_back *back, uint32_t timestamp, uint64_t now_ns);
/* Waits a moment for the last, ends the thread. */
void weft_stream_back_stop(struct weft_stream_back *back);
struct weft_report;
void weft_stream_back_report(struct weft_report *r, const struct weft_stream_back *back);
void weft_stream_back_close(struct weft_stream_back *back);

#endif
