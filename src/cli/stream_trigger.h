/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `weft stream trigger --from`: a line for each source, which is a stream and the threads that judge what it has received, here or on a
 * GPU; the primitives of its buffers leave in the order of the buffers.
 */
#ifndef WEFT_CLI_STREAM_TRIGGER_H
#define WEFT_CLI_STREAM_TRIGGER_H

#include <pthread.h>

#include "cli/stream_judge.h"
#include "weft/stream.h"

#define WEFT_STREAM_TRIGGER_LINES   16u
#define WEFT_STREAM_TRIGGER_THREADS 16u /* of a line */

/* What is asked for. */
struct weft_stream_trigger {
	const char *read, *write, *fits;
	const char *from[WEFT_STREAM_TRIGGER_LINES], *to[WEFT_STREAM_TRIGGER_LINES];
	uint32_t lines, senders;
	struct weft_rings_options rings;
	bool json, on_gpu, pull;
	uint64_t events, port, timeout_us, socket_bytes, spin_us, threads, gpu;
	double seconds; /* 0: for ever */
};

struct weft_stream_trigger_gpu;

struct weft_stream_line {
	const struct weft_stream_trigger *asked;
	struct weft_stream *stream;
	struct weft_sender *sender; /* or NULL */
	struct weft_stream_capture *capture;
	uint8_t *memory; /* the buffers, where they are judged */
	uint32_t buffers, buffer_bytes;
	struct weft_stream_trigger_gpu *gpu; /* of stream_trigger_gpu.c, or NULL */
	_Atomic int failed;		     /* errno of what ended its threads */
	/* buffers are taken in turns */
	pthread_mutex_t take, leave;
	pthread_cond_t left;
	uint64_t taken, sent; /* turns; under `take`, and under `leave` */
	struct weft_stream_worker {
		struct weft_stream_line *line;
		struct weft_stream_judge *judge;
		pthread_t thread;
		bool runs;
	} worker[WEFT_STREAM_TRIGGER_THREADS];
};

/* stream_trigger_live.c: until it is ended. The exit status; if it is 0, *total and *counters have all that was counted. The capture and
 * the file of fits, if there is one, are that of one line with one thread. */
int weft_stream_trigger_live(const struct weft_stream_trigger *asked,
			     struct weft_stream_capture *capture, struct weft_stream_judge *total,
			     struct weft_stream_counters *counters);

/* stream_trigger_gpu.c. Memory for the line's list: 0 or -errno. Then, before any stream starts, the kernel. */
int weft_stream_trigger_gpu_memory(struct weft_stream_line *line, uint64_t bytes);
int weft_stream_trigger_gpu_begin(struct weft_stream_line *line,
				  const struct weft_detector *detector);
/* What there was no GPU for, after an error. */
const char *weft_stream_trigger_gpu_why(int err);
/* What the line's thread does. */
void weft_stream_trigger_gpu_run(struct weft_stream_line *line, struct weft_stream_judge *judge);
/* The kernel's end, when the streams of all lines have been stopped; and the memory's, when this one's has been closed. */
void weft_stream_trigger_gpu_end(struct weft_stream_line *line);
void weft_stream_trigger_gpu_free(struct weft_stream_line *line);

#endif
