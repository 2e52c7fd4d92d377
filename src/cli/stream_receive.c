/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "cli/stream_stamps.h"
#include "pool/clock.h"
#include "weft/stream.h"
#include "wire/nanet/protocol.h"

struct job {
	struct weft_stream_source source;
	struct weft_stream_list list;
	const char *write;
	bool field, other; /* --field; a protocol that has none of it */
	bool json, quiet;
	uint64_t datagrams; /* it ends with so many; 0: never */
	double seconds;	    /* 0: for ever */
	/* while it runs */
	struct weft_stream *stream;
	struct weft_stream_capture capture;
	uint8_t *memory;
	uint64_t begin_ns, events;
	uint64_t wall_ns; /* the clock on the wall, less that of the stream */
};

enum {
	FROM = 256,
	PROTOCOL,
	FIELD,
	SLOTS,
	LONGEST,
	ORDERED,
	WRITE,
	DATAGRAMS,
	SECONDS,
	SOCKET,
	STAMPS,
	JSON,
	QUIET
};

static const struct option words[] = {
	{"from", required_argument, NULL, FROM},
	{"protocol", required_argument, NULL, PROTOCOL},
	{"field", required_argument, NULL, FIELD},
	{"slots", required_argument, NULL, SLOTS},
	{"longest", required_argument, NULL, LONGEST},
	{"ordered", no_argument, NULL, ORDERED},
	{"write", required_argument, NULL, WRITE},
	{"datagrams", required_argument, NULL, DATAGRAMS},
	{"seconds", required_argument, NULL, SECONDS},
	{"socket", required_argument, NULL, SOCKET},
	{"stamps", no_argument, NULL, STAMPS},
	{"json", no_argument, NULL, JSON},
	{"quiet", no_argument, NULL, QUIET},
	{0},
};

/* "OFFSET,BITS" or "OFFSET,BITS,big". */
static bool parse_field(char *text, struct weft_stream_source *source)
{
	char *offset = strtok(text, ","), *bits = strtok(NULL, ","), *order = strtok(NULL, ",");
	uint64_t at = 0, width = 0;

	source->protocol = WEFT_STREAM_SEQUENCED;
	source->big_endian = order != NULL;
	if (!offset || !bits || (order && strcmp(order, "big")) ||
	    !weft_stream_number(offset, 0, 65535, &at) || !weft_stream_number(bits, 16, 64, &width))
		return false;
	source->offset = (uint32_t)at;
	source->bits = (uint32_t)width;
	return true;
}

static bool take_number(uint64_t least, uint64_t most, uint32_t *value)
{
	uint64_t number = 0;
	bool ok = weft_stream_number(optarg, least, most, &number);

	*value = (uint32_t)number;
	return ok;
}

static bool take_receive_word(void *context, int option)
{
	struct job *job = context;
	enum weft_protocol_kind kind;

	switch (option) {
	case FROM: /* of one source */
		if (job->source.from)
			return false;
		job->source.from = optarg;
		return true;
	case PROTOCOL:
		if (!weft_protocol_named(optarg, &kind))
			return false;
		job->source.protocol = (enum weft_stream_protocol)kind;
		job->other = job->source.protocol != WEFT_STREAM_SEQUENCED;
		return true;
	case FIELD:
		job->field = true;
		return parse_field(optarg, &job->source);
	case SLOTS:
		return take_number(1, 1 << 16, &job->list.slots);
	case LONGEST:
		return take_number(1, 65536, &job->list.slot_bytes);
	case ORDERED:
		job->list.flags |= WEFT_STREAM_ORDERED;
		return true;
	case WRITE:
		job->write = optarg;
		return true;
	case DATAGRAMS:
		return weft_stream_number(optarg, 1, UINT64_MAX, &job->datagrams);
	case SECONDS:
		return weft_stream_real(optarg, 1e-3, 1e9, &job->seconds);
	case SOCKET:
		return take_number(1, 1u << 30, &job->source.socket_bytes);
	case STAMPS:
		job->list.flags |= WEFT_STREAM_STAMPS;
		return true;
	case JSON:
		job->json = true;
		return true;
	case QUIET:
		job->quiet = true;
		return true;
	default:
		return false;
	}
}

/* A place for each datagram, of which some options need one. */
static bool has_slots(const struct job *job)
{
	return job->list.slots || job->write || job->list.flags;
}

static int begin_receive(struct job *job)
{
	void *memory;
	int err;

	if (has_slots(job)) {
		job->list.slots = job->list.slots ?: 256;
		job->list.slot_bytes = job->list.slot_bytes ?: 2048;
		if (job->list.flags & WEFT_STREAM_STAMPS)
			job->list.slot_bytes += WEFT_STREAM_STAMPS_BYTES;
		job->list.bytes = job->list.slots * job->list.slot_bytes;
	}
	err = weft_stream_open(0, &job->stream);
	if (err)
		return err;
	err = weft_stream_register(job->stream, &job->list, NULL, &memory);
	if (!err)
		err = weft_stream_bind(job->stream, &job->source, NULL);
	if (!err)
		err = weft_stream_start(job->stream);
	job->memory = memory;
	return err;
}

static void write_datagrams(struct job *job, const struct weft_stream_event *e)
{
	const struct weft_stream_datagram *d = weft_stream_datagrams(job->stream, 0, e->buffer);
	const uint8_t *memory = job->memory + (size_t)e->buffer * job->list.bytes;

	for (uint32_t i = 0; i < job->list.slots; i++)
		if (d[i].generation == e->generation)
			weft_stream_capture_put(&job->capture, d[i].time_ns + job->wall_ns,
						memory + d[i].offset, d[i].bytes);
}

/* Whether there may be more. */
static bool take_buffer(struct job *job, int timeout_ms)
{
	struct weft_stream_event event;
	int err = weft_stream_wait(job->stream, &event, timeout_ms);

	if (err)
		return err != -ESHUTDOWN && timeout_ms;
	job->events++;
	if (job->write)
		write_datagrams(job, &event);
	if (job->list.flags & WEFT_STREAM_STAMPS)
		weft_stream_stamps_add(job->stream, &job->list, &event, job->memory);
	weft_stream_give_back(job->stream, 0, event.buffer, event.generation);
	return true;
}

static void tell_second(const struct job *job, const struct weft_stream_counters *c,
			struct weft_stream_counters *before, uint64_t now_ns)
{
	if (!job->quiet)
		fprintf(stderr,
			"%6.1f s %10llu datagrams/s %9.3f MB/s  lost %llu dropped %llu duplicate "
			"%llu late "
			"%llu bad %llu no_buffer %llu\n",
			(double)(now_ns - job->begin_ns) / 1e9,
			(unsigned long long)(c->arrived - before->arrived),
			(double)(c->bytes - before->bytes) / 1e6, (unsigned long long)c->lost,
			(unsigned long long)c->dropped, (unsigned long long)c->duplicate,
			(unsigned long long)c->late, (unsigned long long)c->bad,
			(unsigned long long)c->no_buffer);
	*before = *c;
}

static void receive_live(struct job *job)
{
	struct weft_stream_counters now, before = {0};
	uint64_t next_ns, now_ns;

	job->begin_ns = weft_clock_now_ns();
	job->wall_ns = weft_clock_wall_ns() - job->begin_ns;
	next_ns = job->begin_ns + 1000000000;
	do {
		take_buffer(job, 20);
		now_ns = weft_clock_now_ns();
		weft_stream_counters(job->stream, WEFT_STREAM_ALL, &now);
		if (now_ns >= next_ns) {
			tell_second(job, &now, &before, now_ns);
			next_ns += 1000000000;
		}
	} while (!weft_stream_interrupted() && !now.failed &&
		 (!job->datagrams || now.arrived < job->datagrams) &&
		 (job->seconds == 0 || (double)(now_ns - job->begin_ns) < job->seconds * 1e9));
	weft_stream_stop(job->stream);
	while (take_buffer(job, 0))
		;
}

static int report_received(const struct job *job)
{
	static const struct weft_column columns[] = {
		{"from", WEFT_COLUMN_TEXT},
		{"seconds_ns", WEFT_COLUMN_NUMBER},
		{"buffers", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	struct weft_stream_counters c;
	struct weft_report r;

	weft_stream_counters(job->stream, WEFT_STREAM_ALL, &c);
	weft_report_begin(&r, job->json);
	weft_report_section(&r, "receive", true, columns);
	weft_report_row(&r);
	weft_report_text(&r, job->source.from);
	weft_report_number(&r, weft_clock_now_ns() - job->begin_ns);
	weft_report_number(&r, job->events);
	weft_stream_report_counters(&r, &c);
	if (job->list.flags & WEFT_STREAM_STAMPS)
		weft_stream_stamps_report(&r);
	weft_report_end(&r);
	return c.failed ? weft_stream_fail("receive", job->source.from, strerror((int)c.failed))
			: 0;
}

static int run_receive(struct job *job)
{
	const char *wrong = NULL;
	int err = weft_stream_capture_begin(&job->capture, job->write), status;

	if (err)
		return weft_stream_fail("receive", job->write, strerror(-err));
	weft_stream_catch();
	err = begin_receive(job);
	if (err) {
		wrong = err == -EINVAL ? weft_stream_wrong(job->stream) : strerror(-err);
		status = weft_stream_fail("receive", job->source.from, wrong);
	} else {
		receive_live(job);
		status = report_received(job);
	}
	if (job->stream)
		weft_stream_close(job->stream);
	err = weft_stream_capture_end(&job->capture);
	return err ? weft_stream_fail("receive", job->write, strerror(-err)) : status;
}

int weft_stream_receive(int argc, char **argv)
{
	struct job job = {
		.source = {.id = -1},
		.list = {.buffers = 16, .bytes = 1u << 20, .timeout_ns = 10000000},
	};
	int status = weft_stream_options(argc, argv, words, take_receive_word, &job);

	if (status)
		return status;
	if (!job.source.from)
		return weft_main_usage_error("stream", "receive --from udp:ADDRESS:PORT");
	if (job.field && job.other)
		return weft_main_usage_error("stream", "--field goes with --protocol sequenced");
	if (job.list.slot_bytes && !has_slots(&job))
		return weft_main_usage_error(
			"stream", "--longest goes with --slots, --ordered, --stamps or --write");
	if (weft_stream_svg_is_wanted() && !(job.list.flags & WEFT_STREAM_STAMPS))
		return weft_main_usage_error("stream", "receive --svg goes with --stamps");
	return run_receive(&job);
}
