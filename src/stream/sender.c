/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/sender.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "link/stream.h"
#include "link/stream_ring.h"
#include "link/udp.h"
#include "pool/address.h"
#include "pool/clock.h"

/* Nearer than that it looks at the clock instead of sleeping. */
#define NEAR_NS 200000u

struct weft_sender {
	struct weft_udp *udp;
	struct weft_ring_writer *ring;
	struct weft_udp_message to;
	uint32_t segments;
	struct weft_sender_counters counters;
	struct weft_histogram late;
	/* kept */
	uint32_t segment, kept_bytes, kept;
	uint8_t bytes[WEFT_UDP_BYTES];
};

static int open_sending(struct weft_sender *s, const char *where)
{
	struct weft_udp_config config = {.buffer_bytes = 4 << 20};
	uint16_t port;

	if (!weft_stream_address(where, s->to.to, &port))
		return -EINVAL;
	s->to.port = port;
	s->to.count = 1;
	if (weft_address_is_ipv4(s->to.to))
		config.address[10] = config.address[11] = 0xff;
	return weft_udp_open(&config, &s->udp);
}

int weft_sender_open(const char *to, uint32_t segments, struct weft_sender **sender)
{
	struct weft_sender *s = calloc(1, sizeof(*s));
	int answer = -EINVAL;

	if (!s)
		return -ENOMEM;
	s->segments = segments;
	if (!strncmp(to, "udp:", 4))
		answer = open_sending(s, to + 4);
	else if (!strncmp(to, "ring:", 5))
		answer = weft_ring_writer_open(to + 5, &s->ring);
	if (answer)
		free(s);
	else
		*sender = s;
	return answer;
}

void weft_sender_close(struct weft_sender *s)
{
	if (s->udp)
		weft_udp_close(s->udp);
	if (s->ring)
		weft_ring_writer_close(s->ring);
	free(s);
}

static int try_to_send(struct weft_sender *s, const uint8_t *data, uint32_t bytes, uint32_t segment)
{
	const struct iovec piece = {(void *)data, bytes};
	int sent;

	if (s->ring)
		return weft_ring_writer_put(s->ring, data, bytes);
	s->to.pieces = &piece;
	s->to.segment_bytes = bytes > segment ? segment : 0;
	sent = weft_udp_send(s->udp, &s->to, 1);
	return sent < 0 ? sent : 0;
}

static void send_now(struct weft_sender *s, const uint8_t *data, uint32_t bytes, uint32_t segment,
		     uint32_t datagrams)
{
	struct weft_sender_counters *c = &s->counters;
	int answer;

	while ((answer = try_to_send(s, data, bytes, segment)) == -EAGAIN || answer == -ENOBUFS) {
		c->waits++;
		sched_yield();
	}
	c->calls++;
	if (answer) {
		c->refused += datagrams;
		return;
	}
	c->datagrams += datagrams;
	c->bytes += bytes;
}

void weft_sender_flush(struct weft_sender *s)
{
	if (s->kept)
		send_now(s, s->bytes, s->kept_bytes, s->segment, s->kept);
	s->kept = s->kept_bytes = 0;
}

static void keep(struct weft_sender *s, const uint8_t *data, uint32_t bytes)
{
	if (s->kept && (bytes > s->segment || s->kept_bytes + bytes > sizeof(s->bytes)))
		weft_sender_flush(s);
	if (!s->kept)
		s->segment = bytes;
	memcpy(s->bytes + s->kept_bytes, data, bytes);
	s->kept_bytes += bytes;
	s->kept++;
	if (s->kept == s->segments || bytes < s->segment)
		weft_sender_flush(s);
}

uint64_t weft_sender_wait(struct weft_sender *s, uint64_t at_ns)
{
	uint64_t now_ns = weft_clock_now_ns();

	if (at_ns > now_ns + NEAR_NS) {
		uint64_t ns = at_ns - now_ns - NEAR_NS / 2;
		const struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

		weft_sender_flush(s);
		nanosleep(&time, NULL);
	}
	while ((now_ns = weft_clock_now_ns()) < at_ns)
		;
	weft_histogram_add(&s->late, now_ns - at_ns);
	return now_ns;
}

void weft_sender_put(struct weft_sender *s, const uint8_t *data, uint32_t bytes)
{
	uint64_t now_ns = weft_clock_now_ns();

	s->counters.first_ns = s->counters.first_ns ?: now_ns;
	s->counters.last_ns = now_ns;
	if (s->segments > 1 && bytes && bytes <= sizeof(s->bytes) && !s->ring)
		keep(s, data, bytes);
	else
		send_now(s, data, bytes, bytes, 1);
}

const struct weft_sender_counters *weft_sender_counters(const struct weft_sender *s)
{
	return &s->counters;
}

const struct weft_histogram *weft_sender_late(const struct weft_sender *s)
{
	return &s->late;
}
