/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Gives a capture to the engine of streams, at the times that stand in it: datagrams over UDP to one port are of
 * the one source, whose list lies in memory of its own here. The same capture gives the same result each time.
 */
#ifndef WEFT_STREAM_PLAYBACK_H
#define WEFT_STREAM_PLAYBACK_H

#include "wire/nanet/nanet.h"

struct weft_playback_options {
	uint16_t port;
	struct weft_protocol protocol;
	struct weft_clop_options list;
	uint32_t window, history;
	uint64_t jump;
	/* A buffer is full: its bytes, until the call returns. */
	void (*told)(void *context, const struct weft_clop_record *record, const uint8_t *bytes);
	void *context;
};

struct weft_playback_result {
	struct weft_nanet_account account;
	uint64_t packets, others,
		damaged; /* others: not UDP to that port; damaged: cut, wrong checksum */
};

/* 0, or -errno and in *why what is wrong; the result says how far it came. */
int weft_playback(const char *path, const struct weft_playback_options *options,
		  struct weft_playback_result *result, const char **why);

#endif
