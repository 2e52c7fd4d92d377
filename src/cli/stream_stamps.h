/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How long datagrams took from stage to stage, by the stamps in their places: a histogram each, of one stream of this process. */
#ifndef WEFT_CLI_STREAM_STAMPS_H
#define WEFT_CLI_STREAM_STAMPS_H

#include "weft/stream.h"

struct weft_report;

/* Of a buffer that was told of, in the list's memory. */
void weft_stream_stamps_add(struct weft_stream *stream, const struct weft_stream_list *list,
			    const struct weft_stream_event *event, const uint8_t *memory);
/* "stamps" with the clock's tick, then a section for each stage, and for all in one. */
void weft_stream_stamps_report(struct weft_report *r);

#endif
