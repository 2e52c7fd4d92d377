/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Events are made ahead, as that takes longer than to send them; when all are sent they are sent
 * again, with numbers and times that go on.
 */
#include "cli/stream_live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "cli/stream.h"
#include "pool/clock.h"
#include "stream/sender.h"
#include "wire/nanet/bytes.h"

#define AHEAD (1u << 17) /* events */

struct datagram {
	uint32_t at, bytes, events;
	double time_ns; /* of its last event */
};

struct live {
	const struct weft_stream_live *options;
	struct weft_sender *sender;
	struct weft_stream_back *back;
	uint64_t begin_ns, events;
	double due_ns;
	/* made ahead */
	struct datagram *datagram;
	uint8_t *bytes;
	uint32_t datagrams, ticks; /* of 25 ns, that all of them take: whole frames */
};

/* ---- Making ---- */

static int make_ahead(struct live *l)
{
	const struct weft_stream_live *o = l->options;
	uint64_t wanted = o->seconds == 0 && o->events < AHEAD ? o->events : AHEAD, made = 0;
	static struct weft_truth truth[UINT8_MAX];
	static struct weft_generator g;
	uint32_t at = 0, events;

	l->datagram = calloc(wanted, sizeof(*l->datagram));
	l->bytes = malloc(wanted * (WEFT_M2EGP_MAX_BYTES + WEFT_MGP_HEADER + 8));
	if (!l->datagram || !l->bytes)
		return -ENOMEM;
	weft_generator_begin(&g, &o->options);
	while (made < wanted) {
		uint64_t left = wanted - made, most = left < o->most ? left : o->most;
		struct datagram *d = &l->datagram[l->datagrams++];

		d->at = at;
		d->bytes =
			weft_generator_datagram(&g, (uint32_t)most, l->bytes + at, truth, &events);
		d->events = events;
		d->time_ns = truth[events - 1].time_ns;
		at += d->bytes;
		made += events;
	}
	l->ticks = ((uint32_t)(l->datagram[l->datagrams - 1].time_ns / 25) | 255) + 1;
	return 0;
}

/* ---- Sending ---- */

static bool is_all_sent(const struct live *l, uint64_t now_ns)
{
	const struct weft_stream_live *o = l->options;

	if (weft_stream_sender_over(l->sender))
		return true;
	return o->seconds > 0 ? (double)(now_ns - l->begin_ns) >= o->seconds * 1e9
			      : l->events >= o->events;
}

/* When it goes: behind those before, as a wire would have it, or as the events happen. */
static uint64_t wait_for_turn(struct live *l, uint32_t bytes, double time_ns)
{
	const struct weft_pace *pace = &l->options->pace;
	uint64_t now_ns;

	if (pace->bits_per_ns == 0)
		l->due_ns = time_ns;
	now_ns = weft_sender_wait(l->sender, l->begin_ns + (uint64_t)l->due_ns);
	if (pace->bits_per_ns > 0)
		l->due_ns += weft_pace_ns(pace, bytes);
	return now_ns;
}

/* Numbers and times go on, pass after pass. */
static void send_made(struct live *l, const struct datagram *d, uint64_t pass, uint64_t now_ns,
		      bool last)
{
	uint32_t shift = pass ? l->ticks : 0, header = l->options->options.times ? 24 : 16;
	uint8_t *data = l->bytes + d->at, *at = data + header;

	weft_bytes_put_little(data, 4, pass * l->datagrams + (uint64_t)(d - l->datagram));
	weft_bytes_put_little(data + 8, 4, weft_bytes_little(data + 8, 4) + shift);
	if (last)
		data[13] |= WEFT_MGP_LAST;
	if (l->options->options.times)
		weft_bytes_put_little(data + WEFT_MGP_HEADER, 8, now_ns);
	for (uint32_t i = 0; i < d->events; i++) {
		uint32_t timestamp = (uint32_t)weft_bytes_little(at + 1, 4) + shift;

		weft_bytes_put_little(at + 1, 4, timestamp);
		if (l->back)
			weft_stream_back_leaves(l->back, timestamp, now_ns);
		at += 16 + (at[5] + 7u) / 8 * 16;
	}
	weft_sender_put(l->sender, data, d->bytes);
	l->events += d->events;
}

static void send_events(struct live *l)
{
	const struct weft_stream_live *o = l->options;
	bool over = false;

	for (uint64_t pass = 0; !over; pass++)
		for (uint32_t i = 0; i < l->datagrams && !over; i++) {
			const struct datagram *d = &l->datagram[i];
			uint64_t now_ns = wait_for_turn(
				l, d->bytes, d->time_ns + 25.0 * (double)(pass * l->ticks));

			over = o->seconds == 0 ? l->events + d->events >= o->events
					       : is_all_sent(l, now_ns);
			over |= weft_stream_sender_over(l->sender);
			send_made(l, d, pass, now_ns, over);
		}
}

/* A number of 64 bits, the time, then what follows from the number. */
static void send_numbers(struct live *l)
{
	uint32_t bytes = (uint32_t)l->options->sequenced;
	double each_ns = 1e9 / l->options->options.rate_hz;
	static uint8_t data[65536];
	uint64_t now_ns = l->begin_ns;

	while (!is_all_sent(l, now_ns)) {
		now_ns = wait_for_turn(l, bytes, (double)l->events * each_ns);
		weft_bytes_put_little(data, 8, l->events);
		weft_bytes_put_little(data + 8, 8, now_ns);
		weft_sender_put(l->sender, data, bytes);
		l->events++;
	}
}

static void report_sent(const struct live *l)
{
	static const struct weft_column columns[] = {
		{"to", WEFT_COLUMN_TEXT},
		{"events", WEFT_COLUMN_NUMBER},
		{"segments", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	struct weft_report r;

	weft_report_begin(&r, l->options->json);
	weft_report_section(&r, "generate", true, columns);
	weft_report_row(&r);
	weft_report_text(&r, l->options->to);
	weft_report_number(&r, l->events);
	weft_report_number(&r, l->options->segments);
	weft_stream_report_sent(&r, l->sender);
	if (l->back)
		weft_stream_back_report(&r, l->back);
	weft_report_end(&r);
}

/* While the ring has no room. */
static bool ring_is_over(const void *context)
{
	return is_all_sent(context, weft_clock_now_ns());
}

static int run_live(struct live *l)
{
	int err = l->options->sequenced ? 0 : make_ahead(l);

	if (!err && l->options->back)
		err = weft_stream_back_open(l->options->back, &l->back);
	if (err)
		return weft_stream_fail("generate", l->options->back ?: "it cannot begin",
					strerror(-err));
	l->begin_ns = weft_clock_now_ns();
	weft_sender_until(l->sender, ring_is_over, l);
	if (l->options->sequenced)
		send_numbers(l);
	else
		send_events(l);
	weft_sender_flush(l->sender);
	if (l->back)
		weft_stream_back_stop(l->back);
	report_sent(l);
	if (l->back)
		weft_stream_back_close(l->back);
	return weft_stream_sent_status("generate", l->options->to, l->sender);
}

int weft_stream_generate_live(const struct weft_stream_live *options)
{
	struct live l = {.options = options};
	int err = weft_sender_open(options->to, (uint32_t)options->segments, &l.sender), status;

	if (err)
		return weft_stream_fail("generate", options->to, strerror(-err));
	weft_stream_catch();
	status = run_live(&l);
	free(l.datagram);
	free(l.bytes);
	weft_sender_close(l.sender);
	return status;
}
