/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/trigger.h"

const char *weft_trigger_name(enum weft_rings_algorithm algorithm)
{
	static const char *const names[WEFT_RINGS_ALGORITHMS] = {
		[WEFT_RINGS_CRAWFORD] = "crawford",
		[WEFT_RINGS_TAUBIN] = "taubin",
		[WEFT_RINGS_ALMAGEST] = "almagest",
		[WEFT_RINGS_HISTOGRAM] = "histogram",
	};

	return names[algorithm];
}

uint32_t weft_trigger_flush(struct weft_mtp *mtp, uint8_t to[WEFT_MTP_MAX_BYTES])
{
	uint32_t bytes = mtp->count ? weft_mtp_write(mtp, to) : 0;

	mtp->count = 0;
	return bytes;
}

uint32_t weft_trigger_add(struct weft_mtp *mtp, const struct weft_decision *d,
			  uint8_t to[WEFT_MTP_MAX_BYTES])
{
	uint32_t bytes = 0;

	if (!d->rings)
		return 0;
	if (mtp->count == WEFT_MTP_MAX || d->timestamp >> 8 != mtp->timestamp >> 8)
		bytes = weft_trigger_flush(mtp, to);
	if (!mtp->count)
		mtp->timestamp = d->timestamp;
	mtp->primitive[mtp->count++] = (struct weft_mtp_primitive){
		.id = (uint16_t)(d->hits << 8 | d->rings),
		.timestamp = d->timestamp,
		.fine = d->fine,
	};
	return bytes;
}
