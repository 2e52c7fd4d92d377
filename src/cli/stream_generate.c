/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/stream.h"
#include "cli/stream_live.h"
#include "stream/generator.h"
#include "stream/pace.h"

struct job {
	struct weft_stream_live live; /* most of it goes for files, too */
	const char *write, *truth;
};

enum {
	WRITE = 256,
	TRUTH,
	EVENTS,
	SEED,
	RINGS,
	PHOTONS,
	NOISE,
	RATE,
	EVEN,
	PACE,
	MOST,
	SOURCE,
	STAMP,
	SCRAMBLE,
	TO,
	BACK,
	SEQUENCED,
	SEGMENTS,
	SECONDS,
	JSON
};

static const struct option words[] = {
	{"write", required_argument, NULL, WRITE},
	{"truth", required_argument, NULL, TRUTH},
	{"events", required_argument, NULL, EVENTS},
	{"seed", required_argument, NULL, SEED},
	{"rings", required_argument, NULL, RINGS},
	{"photons", required_argument, NULL, PHOTONS},
	{"noise", required_argument, NULL, NOISE},
	{"rate", required_argument, NULL, RATE},
	{"even", no_argument, NULL, EVEN},
	{"pace", required_argument, NULL, PACE},
	{"most", required_argument, NULL, MOST},
	{"source", required_argument, NULL, SOURCE},
	{"stamp", no_argument, NULL, STAMP},
	{"scramble", no_argument, NULL, SCRAMBLE},
	{"to", required_argument, NULL, TO},
	{"back", required_argument, NULL, BACK},
	{"sequenced", required_argument, NULL, SEQUENCED},
	{"segments", required_argument, NULL, SEGMENTS},
	{"seconds", required_argument, NULL, SECONDS},
	{"json", no_argument, NULL, JSON},
	{0},
};

/* Five shares of any scale. */
static bool parse_rings(char *text, double fraction[])
{
	double sum = 0;
	int n = 0;

	for (char *word = strtok(text, ","); word; word = strtok(NULL, ","), n++) {
		if (n > (int)WEFT_GENERATOR_RINGS || !weft_stream_real(word, 0, 1e9, &fraction[n]))
			return false;
		sum += fraction[n];
	}
	for (int i = 0; i < n; i++)
		fraction[i] /= sum;
	return n == (int)WEFT_GENERATOR_RINGS + 1 && sum > 0;
}

/* What events are made of. */
static bool take_event_option(struct weft_generator_options *o, int option)
{
	uint64_t number = 0;
	bool ok = true;

	switch (option) {
	case SEED:
		return weft_stream_number(optarg, 0, UINT64_MAX, &o->seed);
	case RINGS:
		return parse_rings(optarg, o->fraction);
	case PHOTONS:
		return weft_stream_real(optarg, 0, 200, &o->photons);
	case NOISE:
		return weft_stream_real(optarg, 0, 200, &o->noise);
	case RATE:
		return weft_stream_real(optarg, 1e-3, 1e9, &o->rate_hz);
	case SOURCE:
		ok = weft_stream_number(optarg, 0, UINT8_MAX, &number);
		o->source = (uint8_t)number;
		return ok;
	case EVEN:
		o->even = true;
		return true;
	case STAMP:
		o->times = true;
		return true;
	case SCRAMBLE:
		o->scrambled = true;
		return true;
	default:
		return false;
	}
}

static bool take_generate_option(void *context, int option)
{
	struct job *job = context;
	struct weft_stream_live *live = &job->live;

	switch (option) {
	case WRITE:
		job->write = optarg;
		return true;
	case TRUTH:
		job->truth = optarg;
		return true;
	case TO:
		live->to = optarg;
		return true;
	case BACK:
		live->back = optarg;
		return true;
	case JSON:
		live->json = true;
		return true;
	case EVENTS:
		return weft_stream_number(optarg, 1, 1ull << 40, &live->events);
	case PACE:
		return weft_pace_named(optarg, &live->pace);
	case MOST:
		return weft_stream_number(optarg, 1, UINT8_MAX, &live->most);
	case SEQUENCED:
		return weft_stream_number(optarg, 16, 65000, &live->sequenced);
	case SEGMENTS:
		return weft_stream_number(optarg, 1, 64, &live->segments);
	case SECONDS:
		return weft_stream_real(optarg, 1e-3, 1e9, &live->seconds);
	default:
		return take_event_option(&live->options, option);
	}
}

static void tell_truth(FILE *to, const struct weft_truth *t)
{
	fprintf(to, "event %llu %.3f %u %u\n", (unsigned long long)t->event, t->time_ns, t->rings,
		t->noise);
	for (uint32_t i = 0; i < t->rings; i++)
		fprintf(to, "ring %.6f %.6f %.6f %.6f %u %u\n", t->ring[i].x_mm, t->ring[i].y_mm,
			t->ring[i].r_mm, t->ring[i].momentum_gev, t->ring[i].photons,
			t->ring[i].hits);
}

static void generate(const struct job *job, struct weft_stream_capture *capture, FILE *side)
{
	static struct weft_truth truth[UINT8_MAX];
	static struct weft_generator g;
	uint8_t data[WEFT_MGP_MAX_BYTES];
	double sent_ns = 0;

	weft_generator_begin(&g, &job->live.options);
	for (uint64_t done = 0; done < job->live.events;) {
		uint64_t left = job->live.events - done,
			 most = left < job->live.most ? left : job->live.most;
		uint32_t events,
			bytes = weft_generator_datagram(&g, (uint32_t)most, data, truth, &events);

		done += events;
		/* a datagram is sent when it is whole, or when those before it are gone */
		if (job->live.pace.bits_per_ns == 0)
			sent_ns = truth[events - 1].time_ns;
		else
			sent_ns += weft_pace_ns(&job->live.pace, bytes);
		if (done == job->live.events)
			data[13] |= WEFT_MGP_LAST;
		if (job->live.options.times)
			weft_bytes_put_little(data + WEFT_MGP_HEADER, 8, (uint64_t)sent_ns);
		weft_stream_capture_put(capture, (uint64_t)sent_ns, data, bytes);
		for (uint32_t i = 0; side && i < events; i++)
			tell_truth(side, &truth[i]);
	}
}

static int run_generator(const struct job *job)
{
	struct weft_stream_capture capture;
	FILE *side = NULL;
	int err, status = 0;

	err = weft_stream_capture_begin(&capture, job->write);
	if (err)
		return weft_stream_fail("generate", job->write, strerror(-err));
	if (job->truth && !(side = fopen(job->truth, "we"))) {
		status = weft_stream_fail("generate", job->truth, strerror(errno));
		goto end_capture;
	}
	if (side)
		fputs("# event NUMBER TIME_NS RINGS NOISE; ring X_MM Y_MM R_MM GEV PHOTONS HITS\n",
		      side);
	generate(job, &capture, side);
	if (side && weft_stream_finish(side))
		status = weft_stream_fail("generate", job->truth, "not all could be written");
end_capture:
	err = weft_stream_capture_end(&capture);
	return err ? weft_stream_fail("generate", job->write, strerror(-err)) : status;
}

int weft_stream_generate(int argc, char **argv)
{
	struct job job = {
		.live = {.options = weft_generator_defaults, .events = 10000, .most = UINT8_MAX}};
	int status = weft_stream_options(argc, argv, words, take_generate_option, &job);

	if (status)
		return status;
	if (weft_stream_is_same_file(job.write, job.truth))
		return weft_main_usage_error("stream", "--write and --truth are not the same file");
	if (job.live.to && (job.write || job.truth))
		return weft_main_usage_error("stream", "either into files or --to somewhere");
	if (!job.live.to &&
	    (job.live.back || job.live.sequenced || job.live.segments || job.live.seconds > 0))
		return weft_main_usage_error("stream", "to where? --to udp:ADDRESS:PORT");
	job.live.segments += !job.live.segments;
	if (job.live.to)
		return weft_stream_generate_live(&job.live);
	if (!job.write && !job.truth)
		return weft_main_usage_error("stream",
					     "generate --write FILE, --truth FILE, or --to");
	return run_generator(&job);
}
