/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a stream is made of; stream.c sets it up and speaks with the application, receiver.c receives. */
#ifndef WEFT_STREAM_INTERNAL_H
#define WEFT_STREAM_INTERNAL_H

#include <pthread.h>

#include "stream/ferry.h"
#include "stream/landing.h"
#include "stream/tell.h"
#include "wire/nanet/nanet.h"

#define WEFT_STREAM_LISTS   64u
#define WEFT_STREAM_SOURCES 64u

struct weft_stream_list_of {
	uint32_t flags;
	bool made; /* the stream has made the buffers, not the caller */
	bool lost; /* the GPU's memory is not what it was: nothing is told any more */
	struct weft_ferry *ferry; /* of a list in a GPU's memory, or NULL */
	struct weft_stream_layout layout;
	uint8_t *memory; /* the buffers, for the receiver: with a ferry its room of the host's */
	struct weft_landing landing;
	struct weft_stream_datagram *datagram; /* slots: of each place of each buffer */
};

/* A source's counters as the receiver last knew them, which any process may read between two equal, even values of
 * `turn`: the receiver makes that odd before a release fence and the counters, and even again, by release, behind
 * them. A reader that finds it odd or changed reads again. */
struct weft_stream_snapshot {
	_Atomic uint64_t turn;
	_Atomic uint64_t word[sizeof(struct weft_stream_counters) / 8];
};

struct weft_stream_source_of {
	struct weft_stream_link *link;
	uint64_t copied, calls, failed;
	bool changed, unasked; /* since the snapshot; since the link was asked what was dropped */
};

struct weft_stream_shared {
	_Atomic uint32_t stop;
	_Atomic uint64_t flush; /* lists */
	struct weft_stream_snapshot snapshot[WEFT_STREAM_SOURCES];
};

struct weft_stream {
	uint64_t spin_ns;
	const char *wrong;
	uint32_t lists, sources;
	struct weft_clop_options clop[WEFT_STREAM_LISTS];
	struct weft_nanet_source_options source_options[WEFT_STREAM_SOURCES];
	struct weft_stream_list_of list[WEFT_STREAM_LISTS];
	struct weft_stream_source_of source[WEFT_STREAM_SOURCES];
	uint32_t base
		[WEFT_STREAM_LISTS]; /* the number of a list's first buffer, counted through all lists */
	struct weft_stream_shared *shared;
	int kick; /* wakes the receiver */

	/* from start on */
	bool started, ended;
	struct weft_tell tell;
	struct weft_nanet *engine;
	pthread_t thread;
	struct weft_stream_receiver *receiver;
};

/* Before the thread begins, and after it has ended. -ENOMEM */
int weft_stream_receiver_begin(struct weft_stream *s);
void weft_stream_receiver_end(struct weft_stream *s);
/* The thread. */
void *weft_stream_receiver_run(void *stream);

#endif
