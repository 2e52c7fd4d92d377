/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The commands below `weft stream`: VERB is a row of the table and the file stream_VERB.c beside this one,
 * which defines int weft_stream_VERB(int argc, char **argv); argv[0] is VERB, the exit status comes
 * back as of any command (cli/cli.h).
 */
#ifndef WEFT_CLI_STREAM_H
#define WEFT_CLI_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "stream/playback.h"

#define WEFT_STREAM_VERBS(X) X(bench) X(generate) X(info) X(latency) X(receive) X(replay) X(trigger)

#define X(verb)		     int weft_stream_##verb(int argc, char **argv);
WEFT_STREAM_VERBS(X)
#undef X

struct option;
/* Gives each option, with optarg, to `take`, which says whether it is one. 0, or 2: what is wrong has
 * been said. */
int weft_stream_options(int argc, char **argv, const struct option *words,
			bool (*take)(void *job, int option), void *job);

/* Either may be NULL: no file. What is written there would be lost. */
bool weft_stream_is_same_file(const char *one, const char *other);

/* Numbers of options: whether text is one, within the limits. */
bool weft_stream_number(const char *text, uint64_t least, uint64_t most, uint64_t *value);
bool weft_stream_real(const char *text, double least, double most, double *value);

/* Say "weft stream VERB: what: why" on stderr, the second with errno where why does not tell all; 1,
 * the exit status. */
int weft_stream_fail(const char *verb, const char *what, const char *why);
int weft_stream_fail_errno(const char *verb, const char *what, const char *why, int err);

/* From now on SIGINT, SIGTERM and SIGHUP only set what weft_stream_interrupted says. */
void weft_stream_catch(void);
bool weft_stream_interrupted(void);

/* 0, or -EIO: not all was written. */
int weft_stream_finish(FILE *file);

/* Datagrams into a capture, pcapng if its name ends so; path may be NULL: none. 0 or -errno. */
struct weft_pcap_writer;
struct weft_stream_capture {
	struct weft_pcap_writer *writer;
};
int weft_stream_capture_begin(struct weft_stream_capture *c, const char *path);
void weft_stream_capture_put(struct weft_stream_capture *c, uint64_t time_ns, const uint8_t *data,
			     uint32_t bytes);
int weft_stream_capture_end(struct weft_stream_capture *c);

/* The section "account", of a playback or of a stream; one of a histogram. */
struct weft_report;
struct weft_histogram;
void weft_stream_report_histogram(struct weft_report *r, const char *name,
				  const struct weft_histogram *h);
/* The picture: after begin, unless path is NULL, each histogram that is reported or added is drawn by end, which gives 0,
 * -ENODATA (there was none) or of the file by errno. */
void weft_stream_svg_begin(const char *path);
bool weft_stream_svg_is_wanted(void);
void weft_stream_svg_add(const char *name, const struct weft_histogram *h);
int weft_stream_svg_end(void);
struct weft_stream_counters;
void weft_stream_report_counters(struct weft_report *r, const struct weft_stream_counters *c);
struct weft_sender;
/* Whether a sender is over: SIGINT or SIGTERM came, or nobody is there to receive. */
bool weft_stream_sender_over(const void *sender);
/* Says on stderr what was not sent. The exit status: 1 if nothing was, or nobody was there. */
int weft_stream_sent_status(const char *verb, const char *to, const struct weft_sender *sender);
/* "sent", and "late_ns" if they had times. */
void weft_stream_report_sent(struct weft_report *r, const struct weft_sender *sender);
void weft_stream_report_account(struct weft_report *r, const struct weft_playback_result *result);

#endif
