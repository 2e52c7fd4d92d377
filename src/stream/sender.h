/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sends datagrams to "udp:ADDRESS:PORT", one by one or many a system call, or into the ring of a
 * stream, "ring:PATH"; and waits for the times at which they are due. Those of one call are segments
 * of one message as long as they are of one length.
 *
 * Context: one thread.
 */
#ifndef WEFT_STREAM_SENDER_H
#define WEFT_STREAM_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/histogram.h"

#define WEFT_SENDER_SEGMENTS 64u

struct weft_sender_counters {
	uint64_t datagrams, bytes;
	uint64_t calls;	  /* that sent */
	uint64_t waits;	  /* there was no room, and it was tried again */
	uint64_t refused; /* by the system, or as there is no reader: not sent */
	int error;	  /* errno of the first that was refused */
	uint64_t first_ns, last_ns;
};

struct weft_sender;

/* -EINVAL: it is no such place; others by errno. segments: at most so many datagrams a call. */
int weft_sender_open(const char *to, uint32_t segments, struct weft_sender **sender);
/* Waits until that time of CLOCK_MONOTONIC; returns what the clock says then. */
uint64_t weft_sender_wait(struct weft_sender *s, uint64_t at_ns);
/* Sends, or keeps until those that go with it are there. */
void weft_sender_put(struct weft_sender *s, const uint8_t *data, uint32_t bytes);
/* Where there is no room datagrams wait for it until `over` says that it is over: then they are refused (ECANCELED). */
void weft_sender_until(struct weft_sender *s, bool (*over)(const void *context),
		       const void *context);
/* Sends what is kept. */
void weft_sender_flush(struct weft_sender *s);
const struct weft_sender_counters *weft_sender_counters(const struct weft_sender *s);
/* By how much weft_sender_wait was late, in ns. */
const struct weft_histogram *weft_sender_late(const struct weft_sender *s);
void weft_sender_close(struct weft_sender *s);

#endif
