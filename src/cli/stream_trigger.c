/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "pool/clock.h"
#include "stream/histogram.h"
#include "stream/playback.h"
#include "stream/rich/trigger.h"
#include "stream/sender.h"
#include "weft/stream.h"
#include "wire/nanet/mgp.h"

#define LIMIT_NS 1000000u /* of the chain, from a buffer's first datagram on */

struct job {
	const char *read, *write, *fits, *from, *to;
	enum weft_trigger_algorithm algorithm;
	bool drop, json;
	uint64_t events, port, timeout_us, socket_bytes, spin_us;
	double seconds; /* 0: for ever */
	/* while it runs */
	struct weft_trigger *trigger;
	struct weft_stream_capture out;
	FILE *fit_file;
	struct weft_histogram *gathering; /* from a buffer's first datagram to its last */
	struct weft_sender *sender;
	struct weft_histogram
		*chain; /* from a buffer's first datagram leaving, to its primitives */
	uint64_t left_ns, misses, changed;
	uint64_t time_ns, seen, with_rings, rings, primitives, datagrams;
};

enum {
	READ = 256,
	WRITE,
	FITS,
	ALGORITHM,
	DROP,
	JSON,
	EVENTS,
	PORT,
	FROM,
	TO,
	TIMEOUT,
	SOCKET,
	SECONDS,
	SPIN
};

static const struct option words[] = {
	{"read", required_argument, NULL, READ},
	{"write", required_argument, NULL, WRITE},
	{"fits", required_argument, NULL, FITS},
	{"algorithm", required_argument, NULL, ALGORITHM},
	{"drop", no_argument, NULL, DROP},
	{"json", no_argument, NULL, JSON},
	{"gather", required_argument, NULL, EVENTS},
	{"port", required_argument, NULL, PORT},
	{"from", required_argument, NULL, FROM},
	{"to", required_argument, NULL, TO},
	{"timeout", required_argument, NULL, TIMEOUT},
	{"socket", required_argument, NULL, SOCKET},
	{"seconds", required_argument, NULL, SECONDS},
	{"spin", required_argument, NULL, SPIN},
	{0},
};

static bool algorithm_named(const char *name, enum weft_trigger_algorithm *algorithm)
{
	for (int i = 0; i < WEFT_TRIGGER_ALGORITHMS; i++)
		if (!strcmp(name, weft_trigger_name((enum weft_trigger_algorithm)i))) {
			*algorithm = (enum weft_trigger_algorithm)i;
			return true;
		}
	return false;
}

static bool take_trigger_option(void *context, int option)
{
	struct job *job = context;

	switch (option) {
	case READ:
		job->read = optarg;
		return true;
	case WRITE:
		job->write = optarg;
		return true;
	case FITS:
		job->fits = optarg;
		return true;
	case ALGORITHM:
		return algorithm_named(optarg, &job->algorithm);
	case DROP:
		job->drop = true;
		return true;
	case JSON:
		job->json = true;
		return true;
	case EVENTS:
		return weft_stream_number(optarg, 1, 1u << 20, &job->events);
	case PORT:
		return weft_stream_number(optarg, 1, UINT16_MAX, &job->port);
	case FROM:
		job->from = optarg;
		return true;
	case TO:
		job->to = optarg;
		return true;
	case TIMEOUT:
		return weft_stream_number(optarg, 1, 1000000000, &job->timeout_us);
	case SOCKET:
		return weft_stream_number(optarg, 1, 1u << 30, &job->socket_bytes);
	case SECONDS:
		return weft_stream_real(optarg, 1e-3, 1e9, &job->seconds);
	case SPIN:
		return weft_stream_number(optarg, 0, 1000000000, &job->spin_us);
	default:
		return false;
	}
}

static void send(struct job *job, const uint8_t *data, uint32_t bytes)
{
	if (!bytes)
		return;
	job->datagrams++;
	weft_stream_capture_put(&job->out, job->time_ns, data, bytes);
	if (job->sender)
		weft_sender_put(job->sender, data, bytes);
}

static void judge_event(struct job *job, const struct weft_m2egp *event)
{
	struct weft_rich_ring ring[WEFT_RINGS_MAX];
	uint32_t rings = weft_trigger_event(job->trigger, event, ring);
	uint8_t data[WEFT_MTP_MAX_BYTES];

	job->seen++;
	job->rings += rings;
	job->with_rings += rings > 0;
	if (job->fit_file)
		fprintf(job->fit_file, "event %u %u %u %u\n", event->timestamp, event->fine,
			event->hits, rings);
	for (uint32_t i = 0; job->fit_file && i < rings; i++)
		fprintf(job->fit_file, "ring %.6f %.6f %.6f %u\n", ring[i].x, ring[i].y, ring[i].r,
			ring[i].hits);
	send(job, data, weft_trigger_add(job->trigger, event, rings, data));
	job->primitives += rings > 0;
}

/* Datagrams behind each other. The engine has looked at each; what lies in memory of others is looked at
 * again. False: it has been changed. */
static bool judge_all(struct job *job, const uint8_t *at, const uint8_t *end)
{
	struct weft_m2egp event;
	struct weft_mgp mgp;

	job->left_ns = 0;
	while (at < end) {
		uint32_t bytes =
			end - at < WEFT_MGP_HEADER ? 0 : (uint32_t)weft_bytes_little(at + 6, 2);
		uint32_t step = bytes && bytes <= end - at ? weft_mgp_parse(at, bytes, &mgp) : 0;
		const uint8_t *next = at + bytes;

		if (!step)
			return false;
		if (!job->left_ns && mgp.flags & WEFT_MGP_SENT)
			job->left_ns = mgp.sent_ns;
		for (uint32_t i = 0; i < mgp.events; i++) {
			at += step;
			step = weft_m2egp_parse(at, (size_t)(next - at), &event);
			judge_event(job, &event);
		}
		at = next;
	}
	return true;
}

static void told(void *context, const struct weft_clop_record *record, const uint8_t *bytes)
{
	struct job *job = context;

	job->time_ns = record->last_ns;
	weft_histogram_add(job->gathering, record->last_ns - record->first_ns);
	judge_all(job, bytes, bytes + record->bytes);
}

/* ---- Live ---- */

/* A buffer's primitives are sent before the next is looked at. */
static void judge_buffer(struct job *job, struct weft_stream *stream, const uint8_t *memory,
			 const struct weft_stream_event *e)
{
	uint8_t data[WEFT_MTP_MAX_BYTES];
	uint64_t now_ns;

	job->time_ns = e->last_ns;
	weft_histogram_add(job->gathering, e->last_ns - e->first_ns);
	if (!judge_all(job, memory, memory + e->bytes))
		job->changed++;
	weft_stream_give_back(stream, 0, e->buffer, e->generation);
	send(job, data, weft_trigger_flush(job->trigger, data));
	if (job->sender)
		weft_sender_flush(job->sender);
	now_ns = weft_clock_now_ns();
	if (!job->left_ns || job->left_ns > now_ns)
		return;
	weft_histogram_add(job->chain, now_ns - job->left_ns);
	job->misses += now_ns - job->left_ns > LIMIT_NS;
}

static int begin_live(const struct job *job, struct weft_stream *stream, uint32_t bytes,
		      uint32_t buffers, void **memory)
{
	const struct weft_stream_list list = {.buffers = buffers,
					      .bytes = bytes,
					      .events = (uint32_t)job->events,
					      .flags = WEFT_STREAM_BURSTS,
					      .timeout_ns = job->timeout_us * 1000};
	const struct weft_stream_source source = {.from = job->from,
						  .protocol = WEFT_STREAM_MGP,
						  .id = -1,
						  .socket_bytes = (uint32_t)job->socket_bytes};
	int err = weft_stream_register(stream, &list, NULL, memory);

	if (!err)
		err = weft_stream_bind(stream, &source, NULL);
	return err ? err : weft_stream_start(stream);
}

static void receive_buffers(struct job *job, struct weft_stream *stream, const uint8_t *memory,
			    uint32_t bytes)
{
	uint64_t end_ns = weft_clock_now_ns() + (uint64_t)(job->seconds * 1e9);
	struct weft_stream_counters now = {0};
	struct weft_stream_event event;
	int err = -EAGAIN;

	while (err != -ESHUTDOWN) {
		err = weft_stream_wait(stream, &event, 20);
		if (!err)
			judge_buffer(job, stream, memory + (size_t)event.buffer * bytes, &event);
		else
			weft_stream_counters(stream, WEFT_STREAM_ALL, &now);
		if (weft_stream_interrupted() || now.failed ||
		    (job->seconds > 0 && weft_clock_now_ns() >= end_ns))
			weft_stream_stop(stream);
	}
}

static void begin_report(const struct job *job, struct weft_report *r)
{
	static const struct weft_column columns[] = {
		{"algorithm", WEFT_COLUMN_TEXT},
		{"events", WEFT_COLUMN_NUMBER},
		{"with_rings", WEFT_COLUMN_NUMBER},
		{"rings", WEFT_COLUMN_NUMBER},
		{"primitives", WEFT_COLUMN_NUMBER},
		{"datagrams", WEFT_COLUMN_NUMBER},
		{NULL},
	};

	weft_report_begin(r, job->json);
	weft_report_section(r, "trigger", true, columns);
	weft_report_row(r);
	weft_report_text(r, weft_trigger_name(job->algorithm));
	weft_report_number(r, job->seen);
	weft_report_number(r, job->with_rings);
	weft_report_number(r, job->rings);
	weft_report_number(r, job->primitives);
	weft_report_number(r, job->datagrams);
	weft_stream_report_histogram(r, "gathering_ns", job->gathering);
}

static void report(const struct job *job, const struct weft_playback_result *result)
{
	struct weft_report r;

	begin_report(job, &r);
	weft_stream_report_account(&r, result);
	weft_report_end(&r);
}

static void report_live(const struct job *job, const struct weft_stream *stream)
{
	static const struct weft_column columns[] = {
		{"buffers", WEFT_COLUMN_NUMBER},
		{"misses", WEFT_COLUMN_NUMBER},
		{"changed", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	struct weft_stream_counters c;
	struct weft_report r;

	weft_stream_counters(stream, WEFT_STREAM_ALL, &c);
	begin_report(job, &r);
	weft_report_section(&r, "chain", true, columns);
	weft_report_row(&r);
	weft_report_number(&r, job->gathering->count);
	weft_report_number(&r, job->misses);
	weft_report_number(&r, job->changed);
	weft_stream_report_histogram(&r, "chain_ns", job->chain);
	weft_stream_report_counters(&r, &c);
	weft_report_end(&r);
}

/* Buffers have room for all events that end one, and a datagram more; together for some 40 milliseconds
 * of them. */
static int judge_live(struct job *job)
{
	uint32_t bytes = (uint32_t)job->events * 128 + 65536, buffers = 128;
	struct weft_stream *stream;
	void *memory;
	int err;

	weft_stream_catch();
	err = job->to ? weft_sender_open(job->to, WEFT_SENDER_SEGMENTS, &job->sender) : 0;
	if (err)
		return weft_stream_fail("trigger", job->to, strerror(-err));
	err = weft_stream_open(job->spin_us * 1000, &stream);
	if (err)
		return weft_stream_fail("trigger", "it cannot begin", strerror(-err));
	err = begin_live(job, stream, bytes, buffers, &memory);
	if (err) {
		weft_stream_fail("trigger", job->from,
				 err == -EINVAL ? weft_stream_wrong(stream) : strerror(-err));
	} else {
		receive_buffers(job, stream, memory, bytes);
		report_live(job, stream);
	}
	weft_stream_close(stream);
	if (job->sender)
		weft_sender_close(job->sender);
	return err != 0;
}

static int play(struct job *job)
{
	const struct weft_playback_options options = {
		.port = (uint16_t)job->port,
		.protocol = {.kind = WEFT_PROTOCOL_MGP, .id = WEFT_PROTOCOL_ANY},
		.list = {.buffers = 4,
			 .bytes = 1u << 20,
			 .events = (uint32_t)job->events,
			 .bursts = true,
			 .timeout_ns = job->timeout_us * 1000},
		.window = 1024,
		.history = 4096,
		.jump = 1u << 20,
		.told = told,
		.context = job,
	};
	struct weft_playback_result result;
	uint8_t data[WEFT_MTP_MAX_BYTES];
	const char *why;
	int err = weft_playback(job->read, &options, &result, &why);

	send(job, data, weft_trigger_flush(job->trigger, data));
	if (err)
		return weft_stream_fail_errno("trigger", job->read, why, err);
	report(job, &result);
	return 0;
}

static int run_trigger(struct job *job)
{
	int err, status;

	job->trigger = calloc(1, sizeof(*job->trigger));
	job->gathering = calloc(1, sizeof(*job->gathering));
	job->chain = calloc(1, sizeof(*job->chain));
	if (!job->trigger || !job->gathering || !job->chain) {
		status = weft_stream_fail("trigger", "it cannot begin", strerror(ENOMEM));
		goto free_trigger;
	}
	weft_detector_init(&job->trigger->detector);
	weft_trigger_begin(job->trigger, job->algorithm, job->drop);
	status = 1;
	err = weft_stream_capture_begin(&job->out, job->write);
	if (err) {
		weft_stream_fail("trigger", job->write, strerror(-err));
		goto free_trigger;
	}
	if (job->fits && !(job->fit_file = fopen(job->fits, "we"))) {
		weft_stream_fail("trigger", job->fits, strerror(errno));
		goto end_capture;
	}
	status = job->from ? judge_live(job) : play(job);
	if (job->fit_file && weft_stream_finish(job->fit_file))
		status = weft_stream_fail("trigger", job->fits, "not all could be written");
end_capture:
	err = weft_stream_capture_end(&job->out);
	if (err)
		status = weft_stream_fail("trigger", job->write, strerror(-err));
free_trigger:
	free(job->chain);
	free(job->gathering);
	free(job->trigger);
	return status;
}

int weft_stream_trigger(int argc, char **argv)
{
	struct job job = {.algorithm = WEFT_TRIGGER_ALMAGEST,
			  .events = 1024,
			  .port = 6666,
			  .timeout_us = 1000};
	int status = weft_stream_options(argc, argv, words, take_trigger_option, &job);

	if (status)
		return status;
	if (!job.read == !job.from)
		return weft_main_usage_error("stream",
					     "trigger --read FILE, or --from udp:ADDRESS:PORT");
	return run_trigger(&job);
}
