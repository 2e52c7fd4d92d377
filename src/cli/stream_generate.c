/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/stream.h"
#include "stream/generator.h"
#include "stream/pace.h"

struct job {
	struct weft_generator_options options;
	struct weft_pace pace;
	uint64_t events, most;
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
	SCRAMBLE
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

static bool take(struct job *job, int option)
{
	struct weft_generator_options *o = &job->options;
	uint64_t number = 0;
	bool ok = true;

	switch (option) {
	case WRITE:
		job->write = optarg;
		break;
	case TRUTH:
		job->truth = optarg;
		break;
	case EVENTS:
		ok = weft_stream_number(optarg, 1, 1ull << 40, &job->events);
		break;
	case SEED:
		ok = weft_stream_number(optarg, 0, UINT64_MAX, &o->seed);
		break;
	case RINGS:
		ok = parse_rings(optarg, o->fraction);
		break;
	case PHOTONS:
		ok = weft_stream_real(optarg, 0, 200, &o->photons);
		break;
	case NOISE:
		ok = weft_stream_real(optarg, 0, 200, &o->noise);
		break;
	case RATE:
		ok = weft_stream_real(optarg, 1e-3, 1e9, &o->rate_hz);
		break;
	case PACE:
		ok = weft_pace_named(optarg, &job->pace);
		break;
	case MOST:
		ok = weft_stream_number(optarg, 1, UINT8_MAX, &job->most);
		break;
	case SOURCE:
		ok = weft_stream_number(optarg, 0, UINT8_MAX, &number);
		o->source = (uint8_t)number;
		break;
	case EVEN:
		o->even = true;
		break;
	case STAMP:
		o->times = true;
		break;
	case SCRAMBLE:
		o->scrambled = true;
		break;
	default:
		ok = false;
	}
	return ok;
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

	weft_generator_begin(&g, &job->options);
	for (uint64_t done = 0; done < job->events;) {
		uint64_t left = job->events - done, most = left < job->most ? left : job->most;
		uint32_t events,
			bytes = weft_generator_datagram(&g, (uint32_t)most, data, truth, &events);

		done += events;
		/* a datagram is sent when it is whole, or when those before it are gone */
		if (job->pace.bits_per_ns == 0)
			sent_ns = truth[events - 1].time_ns;
		else
			sent_ns += weft_pace_ns(&job->pace, bytes);
		if (done == job->events)
			data[13] |= WEFT_MGP_LAST;
		if (job->options.times)
			weft_bytes_put_little(data + WEFT_MGP_HEADER, 8, (uint64_t)sent_ns);
		weft_stream_capture_put(capture, (uint64_t)sent_ns, data, bytes);
		for (uint32_t i = 0; side && i < events; i++)
			tell_truth(side, &truth[i]);
	}
}

static int run(const struct job *job)
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
	if (side && weft_stream_close(side))
		status = weft_stream_fail("generate", job->truth, "not all could be written");
end_capture:
	err = weft_stream_capture_end(&capture);
	return err ? weft_stream_fail("generate", job->write, strerror(-err)) : status;
}

int weft_stream_generate(int argc, char **argv)
{
	struct job job = {.options = weft_generator_defaults, .events = 10000, .most = UINT8_MAX};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", words, NULL)) != -1)
		if (!take(&job, option))
			return weft_main_usage_error("stream",
						     "unknown option, or no such value: '%s'",
						     optarg ?: argv[optind - 1]);
	if (optind < argc)
		return weft_main_usage_error("stream", "what is '%s'?", argv[optind]);
	if (!job.write && !job.truth)
		return weft_main_usage_error("stream", "generate --write FILE, or --truth FILE");
	return run(&job);
}
