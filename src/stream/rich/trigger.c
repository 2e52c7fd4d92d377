/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/trigger.h"

static uint32_t one_ring(struct weft_trigger *t, weft_fit_fn *fit, struct weft_rich_ring *ring)
{
	enum weft_fit_state state =
		t->drop ? weft_fit_without_outliers(fit, &t->points, ring) : fit(&t->points, ring);

	return state == WEFT_FIT_FOUND;
}

static uint32_t crawford(struct weft_trigger *t, struct weft_rich_ring ring[])
{
	return one_ring(t, weft_fit_crawford, ring);
}

static uint32_t taubin(struct weft_trigger *t, struct weft_rich_ring ring[])
{
	return one_ring(t, weft_fit_taubin, ring);
}

static uint32_t almagest(struct weft_trigger *t, struct weft_rich_ring ring[])
{
	return weft_almagest_find(&t->almagest, &t->points, ring);
}

static uint32_t histogram(struct weft_trigger *t, struct weft_rich_ring ring[])
{
	return weft_peaks_find(&t->peaks, &t->points, ring);
}

static const struct {
	const char *name;
	uint32_t (*find)(struct weft_trigger *t, struct weft_rich_ring ring[]);
} algorithms[WEFT_TRIGGER_ALGORITHMS] = {
	[WEFT_TRIGGER_CRAWFORD] = {"crawford", crawford},
	[WEFT_TRIGGER_TAUBIN] = {"taubin", taubin},
	[WEFT_TRIGGER_ALMAGEST] = {"almagest", almagest},
	[WEFT_TRIGGER_HISTOGRAM] = {"histogram", histogram},
};

const char *weft_trigger_name(enum weft_trigger_algorithm algorithm)
{
	return algorithms[algorithm].name;
}

void weft_trigger_begin(struct weft_trigger *t, enum weft_trigger_algorithm algorithm, bool drop)
{
	t->algorithm = algorithm;
	t->drop = drop;
	t->mtp.count = 0;
	for (uint32_t i = 0; i < sizeof(t->seen) / sizeof(*t->seen); i++)
		t->seen[i] = 0;
}

uint32_t weft_trigger_event(struct weft_trigger *t, const struct weft_m2egp *event,
			    struct weft_rich_ring ring[WEFT_RINGS_MAX])
{
	weft_points_of(&t->detector, event, t->seen, &t->points);
	return algorithms[t->algorithm].find(t, ring);
}

uint32_t weft_trigger_flush(struct weft_trigger *t, uint8_t to[WEFT_MTP_MAX_BYTES])
{
	uint32_t bytes = t->mtp.count ? weft_mtp_write(&t->mtp, to) : 0;

	t->mtp.count = 0;
	return bytes;
}

uint32_t weft_trigger_add(struct weft_trigger *t, const struct weft_m2egp *event, uint32_t rings,
			  uint8_t to[WEFT_MTP_MAX_BYTES])
{
	struct weft_mtp *mtp = &t->mtp;
	uint32_t bytes = 0;

	if (!rings)
		return 0;
	if (mtp->count == WEFT_MTP_MAX || event->timestamp >> 8 != mtp->timestamp >> 8)
		bytes = weft_trigger_flush(t, to);
	if (!mtp->count)
		mtp->timestamp = event->timestamp;
	mtp->primitive[mtp->count++] = (struct weft_mtp_primitive){
		.id = (uint16_t)(event->hits << 8 | rings),
		.timestamp = event->timestamp,
		.fine = event->fine,
	};
	return bytes;
}
