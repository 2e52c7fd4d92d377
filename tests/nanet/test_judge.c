/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The trigger's kernel decides on each event as the CPU's trigger does, on the stand-in here, and unchanged on a real GPU:
 *
 *	test-nanet-judge [EVENTS [ALGORITHM]]
 *
 * WEFT_JUDGE_KERNEL names the module. Each event on which they differ is shown; at a threshold ten may.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../gpu/gpu.h"
#include "pool/clock.h"
#include "process/plugin.h"
#include "stream/generator.h"
#include "stream/rich/trigger.h"
#include "wire/nanet/mgp.h"

#define DIFFER_MOST  10u
#define LANES	     3u
#define BUFFERS	     (2 * LANES)
#define BUFFER_BYTES (256u << 10)
#define ROOM	     (BUFFER_BYTES / WEFT_M2EGP_HEADER)
#define EVENTS	     1024u /* of a buffer, or a datagram's more */
#define SECONDS	     60	   /* the longest that a launch takes */

static uint32_t wanted; /* events of an algorithm; 0: as many as take a moment */
static const struct weft_plugin *plugin;
static struct weft_detector detector;
static uint64_t memory;
static void *region, *judge;
static uint64_t gpu_ns; /* from the launches to the decisions of all */

/* ---- The GPU's side ---- */

static int begin_judge(const struct weft_rings_options *options)
{
	const struct weft_plugin_judge o = {
		.detector = &detector,
		.detector_bytes = sizeof(detector),
		.work_bytes = weft_rings_bytes(options),
		.room = ROOM,
		.algorithm = options->algorithm,
		.drop = options->drop,
		.lanes = LANES,
	};

	return plugin->judge_begin(region, &o, &judge);
}

static uint64_t at_buffer(uint32_t number)
{
	return memory + (uint64_t)number * BUFFER_BYTES;
}

static void fill_buffer(uint32_t number, uint8_t *data, uint64_t bytes)
{
	assert_int_equal(plugin->copy(region, at_buffer(number), data, bytes, true), 0);
}

static void launch(uint32_t lane, uint32_t number, uint64_t bytes)
{
	assert_int_equal(plugin->judge_put(judge, lane, at_buffer(number), bytes), 0);
}

static struct weft_plugin_judged take(uint32_t lane)
{
	uint64_t end_ns = weft_clock_now_ns() + SECONDS * 1000000000ull;
	struct weft_plugin_judged judged;
	int err;

	while ((err = plugin->judge_take(judge, lane, &judged)) == -EAGAIN)
		assert_true(weft_clock_now_ns() < end_ns);
	assert_int_equal(err, 0);
	return judged;
}

/* ---- Alike ---- */

/* Buffers of events, and what the CPU decides on them. */
struct filled {
	uint8_t data[BUFFER_BYTES];
	uint64_t bytes, events;
	struct weft_decision decision[ROOM];
};

static struct weft_rings rings;
static struct filled filled[LANES];

static void decide_here(struct filled *f, const struct weft_rings_options *options,
			const uint8_t *at, uint32_t events)
{
	struct weft_rich_ring ring[WEFT_RINGS_MAX];
	struct weft_m2egp event;

	while (events--) {
		at += weft_m2egp_parse(at, WEFT_M2EGP_MAX_BYTES, &event);
		f->decision[f->events++] = weft_rings_decide(
			&event, weft_rings_find(&rings, options, &detector, &event, ring));
	}
}

static void make_buffer(struct filled *f, struct weft_generator *g,
			const struct weft_rings_options *options)
{
	static struct weft_truth truth[UINT8_MAX];
	uint32_t events;

	f->bytes = f->events = 0;
	while (f->events < EVENTS) {
		uint8_t *to = f->data + f->bytes;

		f->bytes += weft_generator_datagram(g, UINT8_MAX, to, truth, &events);
		if (g->options.times)
			weft_bytes_put_little(to + WEFT_MGP_HEADER, 8, f->bytes);
		decide_here(f, options, to + weft_mgp_header_bytes(to[13]), events);
	}
}

static uint32_t compare(const struct filled *f, const struct weft_plugin_judged *judged)
{
	const struct weft_decision *got = judged->decisions, *here = f->decision;
	uint32_t differ = 0;

	assert_false(judged->wrong);
	assert_int_equal(judged->events, f->events);
	assert_int_equal(judged->sent_ns, weft_bytes_little(f->data + WEFT_MGP_HEADER, 8));
	for (uint64_t i = 0; i < f->events; i++) {
		assert_int_equal(got[i].timestamp, here[i].timestamp);
		assert_int_equal(got[i].fine, here[i].fine);
		assert_int_equal(got[i].hits, here[i].hits);
		if (got[i].rings == here[i].rings)
			continue;
		print_message("timestamp %u, fine %u, %u hits: %u rings here, %u there\n",
			      here[i].timestamp, here[i].fine, here[i].hits, here[i].rings,
			      got[i].rings);
		differ++;
	}
	return differ;
}

/* A buffer for each lane, all under way at once. */
static uint32_t play_round(struct weft_generator *g, const struct weft_rings_options *options,
			   uint64_t *done)
{
	uint32_t differ = 0;
	uint64_t begun_ns;

	for (uint32_t i = 0; i < LANES; i++) {
		make_buffer(&filled[i], g, options);
		fill_buffer(i, filled[i].data, filled[i].bytes);
		*done += filled[i].events;
	}
	begun_ns = weft_clock_now_ns();
	for (uint32_t i = 0; i < LANES; i++)
		launch(i, i, filled[i].bytes);
	for (uint32_t i = 0; i < LANES; i++) {
		struct weft_plugin_judged judged = take(i);

		differ += compare(&filled[i], &judged);
	}
	gpu_ns += weft_clock_now_ns() - begun_ns;
	return differ;
}

static void decide_alike(const struct weft_rings_options *options, uint32_t events)
{
	struct weft_generator_options generated = weft_generator_defaults;
	static struct weft_generator g;
	uint64_t done = 0;
	uint32_t differ = 0;

	generated.times = true;
	generated.seed = 7 + options->algorithm;
	weft_generator_begin(&g, &generated);
	assert_int_equal(begin_judge(options), 0);
	gpu_ns = 0;
	while (done < (wanted ? wanted : events))
		differ += play_round(&g, options, &done);
	plugin->judge_end(judge);
	print_message("%s%s: %llu events, %u differ, %.1f ns an event there\n",
		      weft_trigger_name((enum weft_rings_algorithm)options->algorithm),
		      options->drop ? ", outliers dropped" : "", (unsigned long long)done, differ,
		      (double)gpu_ns / (double)done);
	assert_true(differ <= DIFFER_MOST);
}

static void crawford(void **state)
{
	const struct weft_rings_options options = {WEFT_RINGS_CRAWFORD, false};

	decide_alike(&options, 12000);
}

static void dropped(void **state)
{
	const struct weft_rings_options options = {WEFT_RINGS_CRAWFORD, true};

	decide_alike(&options, 3000);
}

static void taubin(void **state)
{
	const struct weft_rings_options options = {WEFT_RINGS_TAUBIN, false};

	decide_alike(&options, 6000);
}

static void almagest(void **state)
{
	const struct weft_rings_options options = {WEFT_RINGS_ALMAGEST, false};

	decide_alike(&options, 2000);
}

static void histogram(void **state)
{
	const struct weft_rings_options options = {WEFT_RINGS_HISTOGRAM, false};

	decide_alike(&options, 3000);
}

/* ---- Odd events ---- */

static uint32_t add_event(uint8_t *to, const uint16_t *pmt, uint8_t hits)
{
	const struct weft_m2egp event = {.timestamp = 5, .hits = hits};

	return weft_m2egp_write(&event, pmt, to);
}

static uint32_t end_datagram(uint8_t *data, uint32_t bytes, uint8_t events)
{
	const struct weft_mgp mgp = {.bytes = (uint16_t)bytes, .events = events};

	weft_mgp_write(&mgp, data);
	return bytes;
}

/* Numbers along a line of the lattice, through the centre; a circle's, each twice; and a spot's. */
static uint8_t make_line(uint16_t pmt[])
{
	uint8_t hits = 0;

	for (int k = -8; k <= 8; k++)
		pmt[hits++] = weft_detector_nearest(&detector, WEFT_DETECTOR_PITCH * k, 0);
	return hits;
}

static uint8_t make_circle(uint16_t pmt[])
{
	static const double at[][2] = {{150, 0}, {0, 150}, {-150, 0}, {0, -150}, {106, 106}};
	uint8_t hits = 0;

	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		pmt[hits] = pmt[hits + 1] = weft_detector_nearest(&detector, at[i][0], at[i][1]),
		hits += 2;
	return hits;
}

/* An event with nothing, with hits in a line, with each hit of a ring twice, with the most hits, and one with noise. */
static uint32_t make_odd(uint8_t *data, uint8_t *events)
{
	static const uint16_t noise[] = {3, 900, 1500};
	uint16_t pmt[WEFT_M2EGP_MAX_HITS] = {0};
	uint32_t bytes = WEFT_MGP_HEADER;

	bytes += add_event(data + bytes, pmt, 0);
	bytes += add_event(data + bytes, pmt, make_line(pmt));
	bytes += add_event(data + bytes, pmt, make_circle(pmt));
	for (uint16_t i = 0; i < WEFT_M2EGP_MAX_HITS; i++)
		pmt[i] = (uint16_t)(1 + 7 * i);
	bytes += add_event(data + bytes, pmt, WEFT_M2EGP_MAX_HITS);
	bytes += add_event(data + bytes, noise, 3);
	*events = 5;
	return end_datagram(data, bytes, *events);
}

static void odd(void **state)
{
	for (uint32_t a = 0; a < WEFT_RINGS_ALGORITHMS; a++) {
		const struct weft_rings_options options = {a, false};
		struct weft_plugin_judged judged;
		struct filled *f = &filled[0];
		uint8_t events;

		f->bytes = make_odd(f->data, &events);
		f->events = 0;
		decide_here(f, &options, f->data + WEFT_MGP_HEADER, events);
		assert_int_equal(begin_judge(&options), 0);
		fill_buffer(0, f->data, f->bytes);
		launch(0, 0, f->bytes);
		judged = take(0);
		assert_false(judged.wrong);
		assert_int_equal(judged.events, events);
		assert_int_equal(judged.sent_ns, 0);
		assert_memory_equal(judged.decisions, f->decision, events * sizeof(*f->decision));
		/* nothing is in the empty event, in the line and in the noise; in the circle a ring is */
		assert_int_equal(f->decision[0].rings + f->decision[1].rings, 0);
		assert_int_equal(f->decision[2].rings, 1);
		assert_int_equal(f->decision[3].hits, WEFT_M2EGP_MAX_HITS);
		assert_int_equal(f->decision[4].rings, 0);
		plugin->judge_end(judge);
	}
}

/* ---- What is none ---- */

static bool is_wrong(uint8_t *data, uint64_t bytes)
{
	struct weft_plugin_judged judged;

	fill_buffer(1, data, bytes);
	launch(0, 1, bytes);
	judged = take(0);
	return judged.wrong;
}

/* A buffer that holds anything but whole datagrams is told of as that; the next is judged as ever. */
static void wrong(void **state)
{
	const struct weft_rings_options options = {WEFT_RINGS_CRAWFORD, false};
	static uint8_t good[BUFFER_BYTES], bad[BUFFER_BYTES];
	uint8_t events;
	uint32_t bytes = make_odd(good, &events);

	assert_int_equal(begin_judge(&options), 0);
	assert_false(is_wrong(good, bytes));
	for (uint32_t at = 0; at < WEFT_MGP_HEADER + 24; at++) {
		memcpy(bad, good, bytes);
		bad[at] ^= 0x55;
		/* the numbers of the datagram, times, and what only tests look at */
		if (at == 6 || at == 7 || at > 11)
			if (at != 16 && (at < 17 || at > 20) && (at < 24 || at > 27) && at != 30 &&
			    at < 32)
				assert_true(is_wrong(bad, bytes));
		assert_false(is_wrong(good, bytes));
	}
	for (uint32_t cut = 1; cut < bytes; cut += 97) {
		assert_true(is_wrong(good, cut));
		memcpy(bad, good, cut);
		end_datagram(bad, cut, events);
		assert_true(is_wrong(bad, cut));
	}
	/* more events than there is room for */
	memcpy(bad, good, bytes);
	bad[12] = UINT8_MAX;
	assert_true(is_wrong(bad, bytes));
	assert_false(is_wrong(good, bytes));
	plugin->judge_end(judge);
}

static void refused(void **state)
{
	const struct weft_rings_options options = {WEFT_RINGS_CRAWFORD, false};
	const struct weft_plugin_judge none = {.lanes = 0}, many = {.lanes = 1000};
	const char *module = getenv("WEFT_JUDGE_KERNEL");
	uint64_t va;

	assert_int_equal(plugin->judge_begin(region, &none, &judge), -EINVAL);
	assert_int_equal(plugin->judge_begin(region, &many, &judge), -EINVAL);
	assert_int_equal(plugin->allocate(200, 4096, &va), -ENODEV);
	assert_int_equal(plugin->allocate(0, 1ull << 50, &va), -ENOMEM);
	setenv("WEFT_JUDGE_KERNEL", "/dev/null", 1);
	assert_int_equal(begin_judge(&options), -ENOTSUP);
	if (module)
		setenv("WEFT_JUDGE_KERNEL", module, 1);
	else
		unsetenv("WEFT_JUDGE_KERNEL");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),  cmocka_unit_test(odd),	 cmocka_unit_test(wrong),
		cmocka_unit_test(crawford), cmocka_unit_test(dropped),	 cmocka_unit_test(taubin),
		cmocka_unit_test(almagest), cmocka_unit_test(histogram),
	};
	int failed;

	wanted = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	if (!gpu_load() || weft_plugin_load(&plugin))
		return 77;
	weft_detector_init(&detector);
	if (plugin->allocate(0, (uint64_t)BUFFERS * BUFFER_BYTES, &memory) ||
	    plugin->begin(memory, (uint64_t)BUFFERS * BUFFER_BYTES, &region))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	plugin->end(region);
	plugin->free(0, memory);
	return failed;
}
