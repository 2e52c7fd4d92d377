/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/stream_judge.h"

#include <stdlib.h>

#include "pool/clock.h"
#include "stream/sender.h"
#include "wire/nanet/mgp.h"

#define LIMIT_NS 1000000u /* of the chain, from a buffer's first datagram on */

struct weft_stream_judge *weft_stream_judge_make(const struct weft_detector *detector,
						 const struct weft_rings_options *options,
						 size_t buffer_bytes)
{
	struct weft_stream_judge *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->detector = detector;
	j->options = *options;
	/* no event has less bytes than its primitive with a header of its own; some are kept from the buffer before */
	j->kept = malloc(buffer_bytes + WEFT_MTP_MAX_BYTES);
	if (j->kept)
		return j;
	free(j);
	return NULL;
}

void weft_stream_judge_free(struct weft_stream_judge *j)
{
	if (j)
		free(j->kept);
	free(j);
}

/* ---- Deciding ---- */

void weft_stream_judge_add(struct weft_stream_judge *j, const struct weft_decision *d)
{
	j->tally.events++;
	j->tally.rings += d->rings;
	j->tally.with_rings += d->rings > 0;
	j->tally.primitives += d->rings > 0;
	j->kept_bytes += weft_trigger_add(&j->mtp, d, j->kept + j->kept_bytes);
}

void weft_stream_judge_flush(struct weft_stream_judge *j)
{
	j->kept_bytes += weft_trigger_flush(&j->mtp, j->kept + j->kept_bytes);
}

static void write_fits(FILE *to, const struct weft_decision *d, const struct weft_rich_ring ring[])
{
	fprintf(to, "event %u %u %u %u\n", d->timestamp, d->fine, d->hits, d->rings);
	for (uint32_t i = 0; i < d->rings; i++)
		fprintf(to, "ring %.6f %.6f %.6f %u\n", ring[i].x, ring[i].y, ring[i].r,
			ring[i].hits);
}

static void judge_event(struct weft_stream_judge *j, const struct weft_m2egp *event)
{
	struct weft_rich_ring ring[WEFT_RINGS_MAX];
	struct weft_decision decision = weft_rings_decide(
		event, weft_rings_find(&j->rings, &j->options, j->detector, event, ring));

	if (j->fits)
		write_fits(j->fits, &decision, ring);
	weft_stream_judge_add(j, &decision);
}

/* False: not all of it is events. */
static bool judge_events(struct weft_stream_judge *j, const uint8_t *at, const uint8_t *end,
			 uint32_t events)
{
	struct weft_m2egp event;

	while (events--) {
		uint32_t bytes = weft_m2egp_parse(at, (size_t)(end - at), &event);

		if (!bytes)
			return false;
		judge_event(j, &event);
		at += bytes;
	}
	return at == end;
}

bool weft_stream_judge_buffer(struct weft_stream_judge *j, const uint8_t *at, const uint8_t *end)
{
	struct weft_mgp mgp;

	j->sent_ns = 0;
	while (at < end) {
		uint32_t bytes = end - at < (ptrdiff_t)WEFT_MGP_HEADER
					 ? 0
					 : (uint32_t)weft_bytes_little(at + 6, 2);
		uint32_t header =
			bytes && bytes <= end - at ? weft_mgp_parse_header(at, bytes, &mgp) : 0;

		if (!header)
			return false;
		if (!j->sent_ns)
			j->sent_ns = mgp.sent_ns;
		if (!judge_events(j, at + header, at + bytes, mgp.events))
			return false;
		at += bytes;
	}
	return true;
}

/* ---- Sending ---- */

void weft_stream_judge_send(struct weft_stream_judge *j, struct weft_stream_capture *capture,
			    uint64_t time_ns, struct weft_sender *sender)
{
	const uint8_t *at = j->kept, *end = at + j->kept_bytes;

	while (at < end) {
		uint32_t bytes = (uint32_t)weft_bytes_big(at + 6, 2);

		weft_stream_capture_put(capture, time_ns, at, bytes);
		if (sender)
			weft_sender_put(sender, at, bytes);
		j->tally.datagrams++;
		at += bytes;
	}
	if (sender)
		weft_sender_flush(sender);
	j->kept_bytes = 0;
}

void weft_stream_judge_count_chain(struct weft_stream_judge *j)
{
	uint64_t now_ns = weft_clock_now_ns();

	if (!j->sent_ns || j->sent_ns > now_ns)
		return;
	weft_histogram_add(&j->chain, now_ns - j->sent_ns);
	j->tally.misses += now_ns - j->sent_ns > LIMIT_NS;
}

void weft_stream_judge_merge(struct weft_stream_judge *j, const struct weft_stream_judge *other)
{
	j->tally.events += other->tally.events;
	j->tally.with_rings += other->tally.with_rings;
	j->tally.rings += other->tally.rings;
	j->tally.primitives += other->tally.primitives;
	j->tally.datagrams += other->tally.datagrams;
	j->tally.misses += other->tally.misses;
	j->tally.changed += other->tally.changed;
	weft_histogram_merge(&j->gathering, &other->gathering);
	weft_histogram_merge(&j->chain, &other->chain);
}
