/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "link/frame.h"
#include "link/pcap.h"
#include "stream/histogram.h"
#include "stream/sender.h"
#include "weft/stream.h"

int weft_stream_options(int argc, char **argv, const struct option *words,
			bool (*take)(void *job, int option), void *job)
{
	char given[64]; /* `take` may cut the value into pieces */
	int option, which;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", words, &which)) != -1) {
		if (option == '?')
			return weft_main_usage_error("stream", "%s '%s'",
						     optopt ? "no value behind" : "unknown option",
						     argv[optind - 1]);
		snprintf(given, sizeof(given), "%s", optarg ?: "");
		if (!take(job, option))
			return weft_main_usage_error("stream", "--%s: no such value: '%s'",
						     words[which].name, given);
	}
	if (optind < argc)
		return weft_main_usage_error("stream", "what is '%s'?", argv[optind]);
	return 0;
}

bool weft_stream_is_same_file(const char *one, const char *other)
{
	struct stat a, b;

	if (!one || !other)
		return false;
	if (stat(one, &a) || stat(other, &b))
		return !strcmp(one, other);
	return S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool weft_stream_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value >= least && *value <= most;
}

bool weft_stream_real(const char *text, double least, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return *text && !*end && *value >= least && *value <= most;
}

int weft_stream_fail(const char *verb, const char *what, const char *why)
{
	fprintf(stderr, "weft stream %s: %s: %s\n", verb, what, why);
	return 1;
}

int weft_stream_fail_errno(const char *verb, const char *what, const char *why, int err)
{
	if (err == -EPROTO || err == -EINVAL)
		return weft_stream_fail(verb, what, why);
	fprintf(stderr, "weft stream %s: %s: %s: %s\n", verb, what, why, strerror(-err));
	return 1;
}

static _Atomic bool interrupted;

static void interrupt(int signal)
{
	interrupted = true;
}

void weft_stream_catch(void)
{
	const struct sigaction action = {.sa_handler = interrupt};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

bool weft_stream_interrupted(void)
{
	return interrupted;
}

int weft_stream_finish(FILE *file)
{
	bool failed = ferror(file);

	return fclose(file) || failed ? -EIO : 0;
}

/* ---- Captures ---- */

int weft_stream_capture_begin(struct weft_stream_capture *c, const char *path)
{
	const char *end = path ? strrchr(path, '.') : NULL;

	c->writer = NULL;
	if (!path)
		return 0;
	return weft_pcap_create(path, end && !strcmp(end, ".pcapng") ? WEFT_PCAPNG : WEFT_PCAP,
				&c->writer);
}

/* The addresses are some that documents may use. */
void weft_stream_capture_put(struct weft_stream_capture *c, uint64_t time_ns, const uint8_t *data,
			     uint32_t bytes)
{
	struct weft_frame frame = {.from = {[12] = 192, 0, 2, 1},
				   .to = {[12] = 192, 0, 2, 2},
				   .from_port = 6666,
				   .to_port = 6666,
				   .payload = data,
				   .bytes = (uint16_t)bytes};
	uint8_t head[WEFT_FRAME_UDP_BYTES];

	if (!c->writer)
		return;
	weft_frame_write(&frame, head);
	weft_pcap_write(c->writer, time_ns, head, sizeof(head), data, bytes);
}

int weft_stream_capture_end(struct weft_stream_capture *c)
{
	return c->writer ? weft_pcap_finish(c->writer) : 0;
}

/* ---- Reports ---- */

void weft_stream_report_account(struct weft_report *r, const struct weft_playback_result *result)
{
	static const struct weft_column columns[] = {
		{"packets", WEFT_COLUMN_NUMBER},
		{"others", WEFT_COLUMN_NUMBER},
		{"damaged", WEFT_COLUMN_NUMBER},
#define X(name, what) {#name, WEFT_COLUMN_NUMBER},
		WEFT_NANET_COUNTERS(X)
#undef X
			{"missing", WEFT_COLUMN_NUMBER},
		{"lost", WEFT_COLUMN_NUMBER},
		{"sent", WEFT_COLUMN_NUMBER},
		{"restarts", WEFT_COLUMN_NUMBER},
		{"wraps", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	const struct weft_nanet_account *a = &result->account;

	weft_report_section(r, "account", true, columns);
	weft_report_row(r);
	weft_report_number(r, result->packets);
	weft_report_number(r, result->others);
	weft_report_number(r, result->damaged);
#define X(name, what) weft_report_number(r, a->counters.name);
	WEFT_NANET_COUNTERS(X)
#undef X
	weft_report_number(r, a->missing);
	weft_report_number(r, a->lost);
	weft_report_number(r, a->sent);
	weft_report_number(r, a->restarts);
	weft_report_number(r, a->wraps);
}

void weft_stream_report_histogram(struct weft_report *r, const char *name,
				  const struct weft_histogram *h)
{
	static const struct weft_column columns[] = {
		{"count", WEFT_COLUMN_NUMBER},
		{"p50", WEFT_COLUMN_NUMBER},
		{"p90", WEFT_COLUMN_NUMBER},
		{"p99", WEFT_COLUMN_NUMBER},
		{"p99_9", WEFT_COLUMN_NUMBER},
		{"max", WEFT_COLUMN_NUMBER},
		{NULL},
	};

	weft_stream_svg_add(name, h);
	weft_report_section(r, name, true, columns);
	weft_report_row(r);
	weft_report_number(r, h->count);
	weft_report_number(r, weft_histogram_quantile(h, 500000));
	weft_report_number(r, weft_histogram_quantile(h, 900000));
	weft_report_number(r, weft_histogram_quantile(h, 990000));
	weft_report_number(r, weft_histogram_quantile(h, 999000));
	weft_report_number(r, h->max);
}

/* The fields of the account. */
#define COUNTERS(X)                                                                                \
	X(arrived)                                                                                 \
	X(placed)                                                                                  \
	X(duplicate)                                                                               \
	X(late)                                                                                    \
	X(bad)                                                                                     \
	X(no_buffer)                                                                               \
	X(reordered)                                                                               \
	X(bytes)                                                                                   \
	X(events)                                                                                  \
	X(missing)                                                                                 \
	X(lost)                                                                                    \
	X(sent)                                                                                    \
	X(restarts)                                                                                \
	X(wraps)                                                                                   \
	X(dropped)                                                                                 \
	X(copied)                                                                                  \
	X(calls)                                                                                   \
	X(failed)

void weft_stream_report_counters(struct weft_report *r, const struct weft_stream_counters *c)
{
	static const struct weft_column columns[] = {
#define X(name) {#name, WEFT_COLUMN_NUMBER},
		COUNTERS(X)
#undef X
			{NULL},
	};

	weft_report_section(r, "account", true, columns);
	weft_report_row(r);
#define X(name) weft_report_number(r, c->name);
	COUNTERS(X)
#undef X
}

bool weft_stream_sender_over(const void *sender)
{
	return weft_stream_interrupted() || weft_sender_counters(sender)->error == EPIPE;
}

int weft_stream_sent_status(const char *verb, const char *to, const struct weft_sender *sender)
{
	const struct weft_sender_counters *c = weft_sender_counters(sender);

	if (!c->refused || c->error == ECANCELED)
		return 0;
	fprintf(stderr, "weft stream %s: %s: %llu datagrams were not sent: %s\n", verb, to,
		(unsigned long long)c->refused,
		c->error == EPIPE ? "the reader of the ring has gone" : strerror(c->error));
	return !c->datagrams || c->error == EPIPE;
}

void weft_stream_report_sent(struct weft_report *r, const struct weft_sender *sender)
{
	static const struct weft_column columns[] = {
		{"datagrams", WEFT_COLUMN_NUMBER},
		{"bytes", WEFT_COLUMN_NUMBER},
		{"calls", WEFT_COLUMN_NUMBER},
		{"waits", WEFT_COLUMN_NUMBER},
		{"refused", WEFT_COLUMN_NUMBER},
		{"took_ns", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	const struct weft_sender_counters *c = weft_sender_counters(sender);

	weft_report_section(r, "sent", true, columns);
	weft_report_row(r);
	weft_report_number(r, c->datagrams);
	weft_report_number(r, c->bytes);
	weft_report_number(r, c->calls);
	weft_report_number(r, c->waits);
	weft_report_number(r, c->refused);
	weft_report_number(r, c->last_ns - c->first_ns);
	if (weft_sender_late(sender)->count)
		weft_stream_report_histogram(r, "late_ns", weft_sender_late(sender));
}
