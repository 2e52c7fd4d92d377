/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "stream/histogram.h"
#include "stream/playback.h"
#include "stream/rich/trigger.h"
#include "wire/nanet/mgp.h"

struct job {
	const char *read, *write, *fits;
	enum weft_trigger_algorithm algorithm;
	bool drop, json;
	uint64_t events, port;
	/* while it runs */
	struct weft_trigger *trigger;
	struct weft_stream_capture out;
	FILE *fit_file;
	struct weft_histogram *gathering; /* from a buffer's first datagram to its last */
	uint64_t time_ns, seen, with_rings, rings, primitives, datagrams;
};

enum { READ = 256, WRITE, FITS, ALGORITHM, DROP, JSON, EVENTS, PORT };

static const struct option words[] = {
	{"read", required_argument, NULL, READ},
	{"write", required_argument, NULL, WRITE},
	{"fits", required_argument, NULL, FITS},
	{"algorithm", required_argument, NULL, ALGORITHM},
	{"drop", no_argument, NULL, DROP},
	{"json", no_argument, NULL, JSON},
	{"gather", required_argument, NULL, EVENTS},
	{"port", required_argument, NULL, PORT},
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

static bool take(struct job *job, int option)
{
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
}

static void judge(struct job *job, const struct weft_m2egp *event)
{
	struct weft_ring ring[WEFT_RINGS_MAX];
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

/* Datagrams behind each other, each sound: the engine has looked at them. */
static void told(void *context, const struct weft_clop_record *record, const uint8_t *bytes)
{
	struct job *job = context;
	const uint8_t *end = bytes + record->bytes;

	job->time_ns = record->last_ns;
	weft_histogram_add(job->gathering, record->last_ns - record->first_ns);
	while (bytes < end) {
		struct weft_m2egp event;
		struct weft_mgp mgp;
		const uint8_t *at = bytes;

		bytes += weft_bytes_little(bytes + 6, 2);
		at += weft_mgp_parse(at, (size_t)(bytes - at), &mgp);
		for (uint32_t i = 0; i < mgp.events; i++) {
			at += weft_m2egp_parse(at, (size_t)(bytes - at), &event);
			judge(job, &event);
		}
	}
}

static void report(const struct job *job, const struct weft_playback_result *result)
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
	struct weft_report r;

	weft_report_begin(&r, job->json);
	weft_report_section(&r, "trigger", true, columns);
	weft_report_row(&r);
	weft_report_text(&r, weft_trigger_name(job->algorithm));
	weft_report_number(&r, job->seen);
	weft_report_number(&r, job->with_rings);
	weft_report_number(&r, job->rings);
	weft_report_number(&r, job->primitives);
	weft_report_number(&r, job->datagrams);
	weft_stream_report_histogram(&r, "gathering_ns", job->gathering);
	weft_stream_report_account(&r, result);
	weft_report_end(&r);
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
			 .timeout_ns = 1000000},
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

static int run(struct job *job)
{
	int err, status;

	job->trigger = calloc(1, sizeof(*job->trigger));
	job->gathering = calloc(1, sizeof(*job->gathering));
	if (!job->trigger || !job->gathering) {
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
	status = play(job);
	if (job->fit_file && weft_stream_close(job->fit_file))
		status = weft_stream_fail("trigger", job->fits, "not all could be written");
end_capture:
	err = weft_stream_capture_end(&job->out);
	if (err)
		status = weft_stream_fail("trigger", job->write, strerror(-err));
free_trigger:
	free(job->gathering);
	free(job->trigger);
	return status;
}

int weft_stream_trigger(int argc, char **argv)
{
	struct job job = {.algorithm = WEFT_TRIGGER_ALMAGEST, .events = 1024, .port = 6666};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", words, NULL)) != -1)
		if (!take(&job, option))
			return weft_main_usage_error("stream",
						     "unknown option, or no such value: '%s'",
						     optarg ?: argv[optind - 1]);
	if (optind < argc)
		return weft_main_usage_error("stream", "what is '%s'?", argv[optind]);
	if (!job.read)
		return weft_main_usage_error("stream", "trigger --read FILE");
	return run(&job);
}
