/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/mgp.h"

static bool events_are_whole(const uint8_t *data, size_t bytes, uint32_t events)
{
	struct weft_m2egp event;

	while (events--) {
		uint32_t used = weft_m2egp_parse(data, bytes, &event);

		if (!used)
			return false;
		data += used;
		bytes -= used;
	}
	return !bytes;
}

WEFT_BOTH uint32_t weft_mgp_parse_header(const uint8_t *data, size_t bytes, struct weft_mgp *mgp)
{
	if (bytes < WEFT_MGP_HEADER || bytes > UINT16_MAX)
		return 0;
	*mgp = (struct weft_mgp){
		.sequence = (uint32_t)weft_bytes_little(data, 4),
		.source = data[4],
		.sub_source = data[5],
		.bytes = (uint16_t)weft_bytes_little(data + 6, 2),
		.timestamp = (uint32_t)weft_bytes_little(data + 8, 4),
		.events = data[12],
		.flags = data[13],
	};
	uint32_t header = weft_mgp_header_bytes(mgp->flags);

	if (mgp->bytes != bytes || mgp->flags & ~(WEFT_MGP_LAST | WEFT_MGP_SENT) || data[14] ||
	    data[15] || bytes < header)
		return 0;
	if (mgp->flags & WEFT_MGP_SENT)
		mgp->sent_ns = weft_bytes_little(data + WEFT_MGP_HEADER, 8);
	return header;
}

uint32_t weft_mgp_parse(const uint8_t *data, size_t bytes, struct weft_mgp *mgp)
{
	uint32_t header = weft_mgp_parse_header(data, bytes, mgp);

	return header && events_are_whole(data + header, bytes - header, mgp->events) ? header : 0;
}

uint32_t weft_mgp_write(const struct weft_mgp *mgp, uint8_t *to)
{
	weft_bytes_put_little(to, 4, mgp->sequence);
	to[4] = mgp->source;
	to[5] = mgp->sub_source;
	weft_bytes_put_little(to + 6, 2, mgp->bytes);
	weft_bytes_put_little(to + 8, 4, mgp->timestamp);
	to[12] = mgp->events;
	to[13] = mgp->flags;
	weft_bytes_put_little(to + 14, 2, 0);
	if (mgp->flags & WEFT_MGP_SENT)
		weft_bytes_put_little(to + WEFT_MGP_HEADER, 8, mgp->sent_ns);
	return weft_mgp_header_bytes(mgp->flags);
}
