/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/stream_stamps.h"

#include <string.h>

#include "cli/report.h"
#include "cli/stream.h"
#include "pool/clock.h"
#include "stream/histogram.h"

#define LOOKS 1000u

enum { RESOLVE, PLACE, SIGNAL, WHOLE, STAGES };

static const char *const names[STAGES] = {"resolve_ns", "place_ns", "signal_ns", "whole_ns"};
static struct weft_histogram stages[STAGES];
static uint64_t fell; /* of all, in which one stamp was less than the one before */

static void add_stamps(const struct weft_stream_stamps *t)
{
	if (t->resolved_ns < t->taken_ns || t->placed_ns < t->resolved_ns ||
	    t->signalled_ns < t->placed_ns) {
		fell++;
		return;
	}
	weft_histogram_add(&stages[RESOLVE], t->resolved_ns - t->taken_ns);
	weft_histogram_add(&stages[PLACE], t->placed_ns - t->resolved_ns);
	weft_histogram_add(&stages[SIGNAL], t->signalled_ns - t->placed_ns);
	weft_histogram_add(&stages[WHOLE], t->signalled_ns - t->taken_ns);
}

void weft_stream_stamps_add(struct weft_stream *stream, const struct weft_stream_list *list,
			    const struct weft_stream_event *event, const uint8_t *memory)
{
	const struct weft_stream_datagram *d =
		weft_stream_datagrams(stream, event->list, event->buffer);
	const uint8_t *buffer = memory + (size_t)event->buffer * list->bytes;
	struct weft_stream_stamps stamps;

	for (uint32_t i = 0; i < list->slots; i++) {
		if (d[i].generation != event->generation)
			continue;
		memcpy(&stamps, buffer + d[i].offset + list->slot_bytes - sizeof(stamps),
		       sizeof(stamps));
		add_stamps(&stamps);
	}
}

/* What all differences of the clock are a multiple of. */
static uint64_t clock_tick_ns(void)
{
	uint64_t tick_ns = 0, last_ns = weft_clock_now_ns();

	for (uint32_t i = 0; i < LOOKS; i++) {
		uint64_t now_ns = weft_clock_now_ns(), left_ns = now_ns - last_ns;

		last_ns = now_ns;
		while (left_ns) {
			uint64_t rest_ns = tick_ns % left_ns;

			tick_ns = left_ns;
			left_ns = rest_ns;
		}
	}
	return tick_ns;
}

void weft_stream_stamps_report(struct weft_report *r)
{
	static const struct weft_column columns[] = {
		{"tick_ns", WEFT_COLUMN_NUMBER},
		{"fell", WEFT_COLUMN_NUMBER},
		{NULL},
	};

	weft_report_section(r, "stamps", true, columns);
	weft_report_row(r);
	weft_report_number(r, clock_tick_ns());
	weft_report_number(r, fell);
	for (int i = 0; i < STAGES; i++)
		weft_stream_report_histogram(r, names[i], &stages[i]);
}
