/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/mtp.h"

uint32_t weft_mtp_write(const struct weft_mtp *mtp, uint8_t *to)
{
	uint32_t bytes = WEFT_MTP_HEADER + 4u * mtp->count;

	to[0] = mtp->source;
	weft_bytes_put_big(to + 1, 3, mtp->timestamp >> 8);
	to[4] = mtp->sub_source;
	to[5] = mtp->count;
	weft_bytes_put_big(to + 6, 2, bytes);
	weft_bytes_put_big(to + 8, 4, mtp->timestamp);
	for (uint32_t i = 0; i < mtp->count; i++) {
		uint8_t *at = to + WEFT_MTP_HEADER + 4 * (size_t)i;

		weft_bytes_put_big(at, 2, mtp->primitive[i].id);
		at[2] = (uint8_t)mtp->primitive[i].timestamp;
		at[3] = mtp->primitive[i].fine;
	}
	return bytes;
}

bool weft_mtp_parse(const uint8_t *data, size_t bytes, struct weft_mtp *mtp)
{
	if (bytes < WEFT_MTP_HEADER || bytes != WEFT_MTP_HEADER + 4 * (size_t)data[5] ||
	    bytes != weft_bytes_big(data + 6, 2))
		return false;
	*mtp = (struct weft_mtp){
		.source = data[0],
		.sub_source = data[4],
		.timestamp = (uint32_t)weft_bytes_big(data + 8, 4),
		.count = data[5],
	};
	if (mtp->timestamp >> 8 != weft_bytes_big(data + 1, 3))
		return false;
	for (uint32_t i = 0; i < mtp->count; i++) {
		const uint8_t *at = data + WEFT_MTP_HEADER + 4 * (size_t)i;

		mtp->primitive[i] = (struct weft_mtp_primitive){
			.id = (uint16_t)weft_bytes_big(at, 2),
			.timestamp = (mtp->timestamp & ~0xffu) | at[2],
			.fine = at[3],
		};
	}
	return true;
}
