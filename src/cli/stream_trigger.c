/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/stream_trigger.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "stream/playback.h"

#define PLAYED_BYTES (1u << 20) /* of a buffer of a capture's */

/* While it runs. */
struct job {
	struct weft_stream_trigger asked;
	struct weft_detector detector;
	struct weft_stream_judge *judge; /* of a capture; live, that of all */
	struct weft_stream_capture capture;
	uint64_t last_ns; /* of the last buffer of a capture */
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
	SPIN,
	THREADS,
	GPU,
	PULL
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
	{"threads", required_argument, NULL, THREADS},
	{"gpu", required_argument, NULL, GPU},
	{"pull", no_argument, NULL, PULL},
	{0},
};

static bool algorithm_named(const char *name, uint32_t *algorithm)
{
	for (uint32_t i = 0; i < WEFT_RINGS_ALGORITHMS; i++)
		if (!strcmp(name, weft_trigger_name((enum weft_rings_algorithm)i))) {
			*algorithm = i;
			return true;
		}
	return false;
}

/* The next of several places. */
static bool add_line_place(const char *place[], uint32_t *count)
{
	if (*count == WEFT_STREAM_TRIGGER_LINES)
		return false;
	place[(*count)++] = optarg;
	return true;
}

/* How it is received and judged live. */
static bool take_live_option(struct weft_stream_trigger *asked, int option)
{
	switch (option) {
	case FROM:
		return add_line_place(asked->from, &asked->lines);
	case TO:
		return add_line_place(asked->to, &asked->senders);
	case TIMEOUT:
		return weft_stream_number(optarg, 1, 1000000000, &asked->timeout_us);
	case SOCKET:
		return weft_stream_number(optarg, 1, 1u << 30, &asked->socket_bytes);
	case SECONDS:
		return weft_stream_real(optarg, 1e-3, 1e9, &asked->seconds);
	case SPIN:
		return weft_stream_number(optarg, 0, 1000000000, &asked->spin_us);
	case THREADS:
		return weft_stream_number(optarg, 1, WEFT_STREAM_TRIGGER_THREADS, &asked->threads);
	case GPU:
		asked->on_gpu = true;
		return weft_stream_number(optarg, 0, 255, &asked->gpu);
	case PULL:
		asked->pull = true;
		return true;
	default:
		return false;
	}
}

static bool take_trigger_option(void *context, int option)
{
	struct weft_stream_trigger *asked = context;

	switch (option) {
	case READ:
		asked->read = optarg;
		return true;
	case WRITE:
		asked->write = optarg;
		return true;
	case FITS:
		asked->fits = optarg;
		return true;
	case ALGORITHM:
		return algorithm_named(optarg, &asked->rings.algorithm);
	case DROP:
		asked->rings.drop = true;
		return true;
	case JSON:
		asked->json = true;
		return true;
	case EVENTS:
		return weft_stream_number(optarg, 1, 1u << 20, &asked->events);
	case PORT:
		return weft_stream_number(optarg, 1, UINT16_MAX, &asked->port);
	default:
		return take_live_option(asked, option);
	}
}

/* ---- Reports ---- */

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
	const struct weft_stream_tally *tally = &job->judge->tally;

	weft_report_begin(r, job->asked.json);
	weft_report_section(r, "trigger", true, columns);
	weft_report_row(r);
	weft_report_text(r,
			 weft_trigger_name((enum weft_rings_algorithm)job->asked.rings.algorithm));
	weft_report_number(r, tally->events);
	weft_report_number(r, tally->with_rings);
	weft_report_number(r, tally->rings);
	weft_report_number(r, tally->primitives);
	weft_report_number(r, tally->datagrams);
	weft_stream_report_histogram(r, "gathering_ns", &job->judge->gathering);
}

static void report_live(const struct job *job, const struct weft_stream_counters *counters)
{
	static const struct weft_column columns[] = {
		{"buffers", WEFT_COLUMN_NUMBER},
		{"misses", WEFT_COLUMN_NUMBER},
		{"changed", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	struct weft_report r;

	begin_report(job, &r);
	weft_report_section(&r, "chain", true, columns);
	weft_report_row(&r);
	weft_report_number(&r, job->judge->gathering.count);
	weft_report_number(&r, job->judge->tally.misses);
	weft_report_number(&r, job->judge->tally.changed);
	weft_stream_report_histogram(&r, "chain_ns", &job->judge->chain);
	weft_stream_report_counters(&r, counters);
	weft_report_end(&r);
}

/* ---- A capture ---- */

static void told(void *context, const struct weft_clop_record *record, const uint8_t *bytes)
{
	struct job *job = context;

	weft_histogram_add(&job->judge->gathering, record->last_ns - record->first_ns);
	weft_stream_judge_buffer(job->judge, bytes, bytes + record->bytes);
	weft_stream_judge_send(job->judge, &job->capture, record->last_ns, NULL);
	job->last_ns = record->last_ns;
}

static int play(struct job *job)
{
	const struct weft_stream_trigger *asked = &job->asked;
	const struct weft_playback_options options = {
		.port = (uint16_t)asked->port,
		.protocol = {.kind = WEFT_PROTOCOL_MGP, .id = WEFT_PROTOCOL_ANY},
		.list = {.buffers = 4,
			 .bytes = PLAYED_BYTES,
			 .events = (uint32_t)asked->events,
			 .bursts = true,
			 .timeout_ns = asked->timeout_us * 1000},
		.window = 1024,
		.history = 4096,
		.jump = 1u << 20,
		.told = told,
		.context = job,
	};
	struct weft_playback_result result;
	struct weft_report r;
	const char *why;
	int err = weft_playback(asked->read, &options, &result, &why);

	weft_stream_judge_flush(job->judge);
	weft_stream_judge_send(job->judge, &job->capture, job->last_ns, NULL);
	if (err)
		return weft_stream_fail_errno("trigger", asked->read, why, err);
	begin_report(job, &r);
	weft_stream_report_account(&r, &result);
	weft_report_end(&r);
	return 0;
}

/* ---- Both ---- */

static int judge_live(struct job *job)
{
	struct weft_stream_counters counters = {0};
	int status = weft_stream_trigger_live(&job->asked, &job->capture, job->judge, &counters);

	if (!status)
		report_live(job, &counters);
	return status;
}

static int run_files(struct job *job)
{
	const struct weft_stream_trigger *asked = &job->asked;
	int err = weft_stream_capture_begin(&job->capture, asked->write), status = 1;

	if (err)
		return weft_stream_fail("trigger", asked->write, strerror(-err));
	if (asked->fits && !(job->judge->fits = fopen(asked->fits, "we"))) {
		weft_stream_fail("trigger", asked->fits, strerror(errno));
		goto end_capture;
	}
	status = asked->lines ? judge_live(job) : play(job);
	if (asked->fits && weft_stream_finish(job->judge->fits))
		status = weft_stream_fail("trigger", asked->fits, "not all could be written");
end_capture:
	err = weft_stream_capture_end(&job->capture);
	return err ? weft_stream_fail("trigger", asked->write, strerror(-err)) : status;
}

/* What the input, or the algorithm, has no use for; NULL: nothing. */
static const char *find_meaningless(const struct weft_stream_trigger *asked)
{
	bool live =
		asked->seconds > 0 || asked->spin_us || asked->socket_bytes || asked->threads > 1;

	if (asked->read && live)
		return "--seconds, --spin, --socket and --threads go with --from";
	return asked->rings.drop && asked->rings.algorithm != WEFT_RINGS_CRAWFORD &&
			       asked->rings.algorithm != WEFT_RINGS_TAUBIN
		       ? "--drop goes with --algorithm crawford or taubin"
		       : NULL;
}

/* What makes no sense together; NULL: it does. */
static const char *find_contradiction(const struct weft_stream_trigger *asked)
{
	bool several = asked->lines > 1 || asked->threads > 1 || asked->on_gpu;

	if (!asked->read == !asked->lines)
		return "trigger --read FILE, or --from udp:ADDRESS:PORT";
	if (asked->senders && asked->senders != asked->lines)
		return "as many --to as --from";
	if (weft_stream_is_same_file(asked->read, asked->write) ||
	    weft_stream_is_same_file(asked->read, asked->fits) ||
	    weft_stream_is_same_file(asked->write, asked->fits))
		return "--read, --write and --fits are not the same file";
	if (asked->fits && several)
		return "--fits is for one source and one thread";
	if (asked->write && asked->lines > 1)
		return "--write is for one source";
	if (asked->on_gpu && (asked->read || asked->threads > 1))
		return "--gpu goes with --from, and one thread";
	return asked->pull && !asked->on_gpu ? "--pull goes with --gpu" : find_meaningless(asked);
}

int weft_stream_trigger(int argc, char **argv)
{
	struct job job = {.asked = {.rings = {.algorithm = WEFT_RINGS_ALMAGEST},
				    .events = 1024,
				    .port = 6666,
				    .timeout_us = 1000,
				    .threads = 1}};
	int status = weft_stream_options(argc, argv, words, take_trigger_option, &job.asked);
	const char *wrong = status ? NULL : find_contradiction(&job.asked);

	if (status)
		return status;
	if (wrong)
		return weft_main_usage_error("stream", "%s", wrong);
	weft_detector_init(&job.detector);
	job.judge = weft_stream_judge_make(&job.detector, &job.asked.rings, PLAYED_BYTES);
	if (!job.judge)
		return weft_stream_fail("trigger", "it cannot begin", strerror(ENOMEM));
	status = run_files(&job);
	weft_stream_judge_free(job.judge);
	return status;
}
