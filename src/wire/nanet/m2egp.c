/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/m2egp.h"

WEFT_BOTH uint32_t weft_m2egp_parse(const uint8_t *data, size_t bytes, struct weft_m2egp *event)
{
	if (bytes < WEFT_M2EGP_HEADER || bytes < weft_m2egp_bytes(data[5]))
		return 0;
	if (weft_bytes_little(data + 6, 2) != 0xffff || weft_bytes_little(data + 12, 2) ||
	    data[15] > 3)
		return 0;
	const uint8_t *pmts = data + WEFT_M2EGP_HEADER;
	uint32_t hits = data[5], places = (hits + 7) / 8 * 8;

	for (uint32_t i = 0; i < places; i++)
		if (!weft_bytes_little(pmts + 2 * (size_t)i, 2) != (i >= hits))
			return 0;
	*event = (struct weft_m2egp){
		.timestamp = (uint32_t)weft_bytes_little(data + 1, 4),
		.fine = data[0],
		.hits = data[5],
		.board = {data[8], data[9], data[10], data[11]},
		.rings = data[14],
		.label = data[15],
		.pmts = pmts,
	};
	return weft_m2egp_bytes(hits);
}

uint32_t weft_m2egp_write(const struct weft_m2egp *event, const uint16_t *pmt, uint8_t *to)
{
	uint32_t bytes = weft_m2egp_bytes(event->hits);

	for (uint32_t i = 0; i < bytes; i++)
		to[i] = 0;
	to[0] = event->fine;
	weft_bytes_put_little(to + 1, 4, event->timestamp);
	to[5] = event->hits;
	weft_bytes_put_little(to + 6, 2, 0xffff);
	for (uint32_t i = 0; i < 4; i++)
		to[8 + i] = event->board[i];
	to[14] = event->rings;
	to[15] = event->label;
	for (uint32_t i = 0; i < event->hits; i++)
		weft_bytes_put_little(to + WEFT_M2EGP_HEADER + 2 * (size_t)i, 2, pmt[i]);
	return bytes;
}
