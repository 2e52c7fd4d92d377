/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The trigger as a kernel (cuda/device.h says how it is compiled), from the sources that the CPU's is made of: it decides on each event
 * of a buffer of packed MGP datagrams in the GPU's memory.
 */
#include "cuda/device.h"
#include "cuda/judge.h"
/* NOLINTBEGIN(bugprone-suspicious-include): one unit, as device code has it */
#include "stream/rich/almagest.c"
#include "stream/rich/fit.c"
#include "stream/rich/peaks.c"
#include "stream/rich/points.c"
#include "stream/rich/rings.c"
#include "wire/nanet/m2egp.c"
#include "wire/nanet/mgp.c"
/* NOLINTEND(bugprone-suspicious-include) */

/* The way through the datagrams of a buffer. */
struct walk {
	const uint8_t *data;
	uint64_t at, bytes;   /* of the next datagram; of all */
	uint64_t event, room; /* the number of its first event; for so many there is room */
	uint64_t sent_ns;
	struct weft_mgp mgp; /* of the last */
	uint32_t header;
	int wrong;
};

/* What a lane needs to decide. */
struct judge {
	struct weft_rings *work;
	const struct weft_detector *detector;
	struct weft_rings_options options;
	struct weft_decision *decision;
};

/* Goes to the next datagram, whose beginning it returns; or NULL: there is none, or none that can be believed. */
WEFT_DEVICE const uint8_t *walk_on(struct walk *w)
{
	const uint8_t *data = w->data + w->at;
	uint64_t left = w->bytes - w->at;

	if (!left)
		return NULL;
	w->header = left < WEFT_MGP_HEADER
			    ? 0
			    : weft_mgp_parse_header(data, weft_bytes_little(data + 6, 2), &w->mgp);
	if (!w->header || w->mgp.bytes > left || w->event + w->mgp.events > w->room) {
		w->wrong = 1;
		return NULL;
	}
	if (!w->sent_ns)
		w->sent_ns = w->mgp.sent_ns;
	w->at += w->mgp.bytes;
	return data;
}

/* Where the lane's of the next events is, as many as the warp has lanes; NULL: it has none. *at goes behind them, and is NULL if one of
 * them is not there as a whole. */
WEFT_DEVICE const uint8_t *next_events(const uint8_t **at, const uint8_t *end, uint32_t events)
{
	const uint8_t *mine = NULL;

	for (uint32_t i = 0; i < events && i < weft_lanes(); i++) {
		if (end - *at < (int64_t)WEFT_M2EGP_HEADER ||
		    end - *at < (int64_t)weft_m2egp_bytes((*at)[5])) {
			*at = NULL;
			return NULL;
		}
		mine = i == weft_lane() ? *at : mine;
		*at += weft_m2egp_bytes((*at)[5]);
	}
	return mine;
}

/* Whether it is an event, on which it has decided then. */
WEFT_DEVICE int judge_one(const struct judge *j, const uint8_t *at, const uint8_t *end,
			  uint64_t number)
{
	struct weft_rich_ring ring[WEFT_RINGS_MAX];
	struct weft_m2egp event;

	if (!weft_m2egp_parse(at, (size_t)(end - at), &event))
		return 0;
	j->decision[number] = weft_rings_decide(
		&event, weft_rings_find(j->work, &j->options, j->detector, &event, ring));
	return 1;
}

/* The warp's share: a datagram. Whether all of it was well. */
WEFT_DEVICE int judge_datagram(const struct judge *j, const struct walk *w, const uint8_t *data)
{
	const uint8_t *at = data + w->header, *end = data + w->mgp.bytes, *mine;
	uint64_t number = w->event;
	int well = 1;

	for (uint32_t left = w->mgp.events; left && at;) {
		uint32_t some = left < weft_lanes() ? left : weft_lanes();

		mine = next_events(&at, end, left);
		if (mine)
			well &= judge_one(j, mine, end, number + weft_lane());
		number += some;
		left -= some;
	}
	return well && at == end;
}

WEFT_DEVICE void tell_host(struct weft_judge_told *told, const struct walk *w, uint64_t turn)
{
	told->events = w->event;
	told->sent_ns = w->sent_ns;
	weft_order();
	/* with the acquire in is_decided (cuda/judge.c) */
	weft_release(&told->done, turn);
}

WEFT_KERNEL(weft_judge, weft_judge_args)
{
	struct weft_judge_told *told = weft_at(struct weft_judge_told, args.told, 1);
	uint64_t *ended = weft_at(uint64_t, args.ended, 1);
	uint64_t warps = (uint64_t)weft_blocks() * weft_warps();
	uint64_t self = (uint64_t)weft_block() * weft_warps() + weft_warp();
	uint8_t *work = weft_at(uint8_t, args.work, warps * weft_lanes() * args.work_bytes);
	struct judge j;
	struct walk w;
	const uint8_t *data;

	j.work =
		(struct weft_rings *)(work + (self * weft_lanes() + weft_lane()) * args.work_bytes);
	j.detector = weft_at(struct weft_detector, args.detector, 1);
	j.decision = weft_at(struct weft_decision, args.decision, args.room);
	j.options.algorithm = args.algorithm;
	j.options.drop = args.drop;
	w.data = weft_at(uint8_t, args.data, args.bytes);
	w.bytes = args.bytes;
	w.room = args.room;
	w.at = w.event = w.sent_ns = 0;
	w.wrong = 0;
	for (uint64_t i = 0; (data = walk_on(&w)); i++, w.event += w.mgp.events)
		if (i % warps == self && !judge_datagram(&j, &w, data))
			w.wrong = 1;
	if (w.wrong)
		told->wrong = 1;
	/* the decisions, before the count: of all lanes of this warp, of the others by theirs */
	weft_order();
	weft_converge();
	if (weft_lane() || weft_add_near(ended, 1) + 1 != warps)
		return;
	weft_order();
	*ended = 0;
	tell_host(told, &w, args.turn);
}
