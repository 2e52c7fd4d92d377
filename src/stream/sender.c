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

/* When a time is nearer than this, weft_sender_wait looks at the clock instead of sleeping. */
#define NEAR_NS 200000u

struct weft_sender {
	struct weft_udp *udp;
	struct weft_ring_writer *ring;
	struct weft_udp_message to;
	uint32_t segments;
	struct weft_sender_counters counters;
	struct weft_histogram late;
	bool (*over)(const void *context); /* or NULL */
	const void *context;
	/* kept: datagrams behind each other, and the messages that they make */
	uint32_t kept_bytes, kept, messages;
	struct weft_udp_message message[WEFT_SENDER_SEGMENTS];
	struct iovec piece[WEFT_SENDER_SEGMENTS];
	uint32_t last[WEFT_SENDER_SEGMENTS]; /* of a message: the bytes of its last datagram */
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

/* ---- Sending ---- */

static uint32_t segments_in(const struct weft_udp_message *m)
{
	uint32_t bytes = (uint32_t)m->pieces->iov_len;

	return m->segment_bytes ? (bytes + m->segment_bytes - 1) / m->segment_bytes : 1;
}

/* Sends: how many messages went, or why the first did not. */
static int try_to_send(struct weft_sender *s, const struct weft_udp_message *message,
		       uint32_t count)
{
	int answer;

	if (!s->ring)
		return weft_udp_send(s->udp, message, count);
	answer = weft_ring_writer_put(s->ring, message->pieces->iov_base,
				      (uint32_t)message->pieces->iov_len);
	return answer ? answer : 1;
}

static void count_sent(struct weft_sender_counters *c, const struct weft_udp_message *message,
		       int count)
{
	for (; count > 0; count--, message++) {
		c->datagrams += segments_in(message);
		c->bytes += message->pieces->iov_len;
	}
}

void weft_sender_until(struct weft_sender *s, bool (*over)(const void *context),
		       const void *context)
{
	s->over = over;
	s->context = context;
}

static void count_refused(struct weft_sender_counters *c, const struct weft_udp_message *message,
			  int err)
{
	c->error = c->error ? c->error : -err;
	c->refused += segments_in(message);
}

/* Tries again where there was no room; what the system refuses is counted and left. */
static void send_now(struct weft_sender *s, const struct weft_udp_message *message, uint32_t count)
{
	struct weft_sender_counters *c = &s->counters;

	while (count) {
		int sent = try_to_send(s, message, count);

		if ((sent == -EAGAIN || sent == -ENOBUFS) && s->over && s->over(s->context))
			sent = -ECANCELED;
		if (sent == -EAGAIN || sent == -ENOBUFS) {
			c->waits++;
			sched_yield();
			continue;
		}
		c->calls++;
		count_sent(c, message, sent);
		if (sent < 0)
			count_refused(c, message, sent);
		sent = sent < 0 ? 1 : sent;
		message += sent;
		count -= (uint32_t)sent;
	}
}

void weft_sender_flush(struct weft_sender *s)
{
	send_now(s, s->message, s->messages);
	s->kept = s->kept_bytes = s->messages = 0;
}

/* Whether the last message can take that datagram, too: all datagrams of a message but the last are of one length. */
static bool lengthen(struct weft_sender *s, uint32_t bytes)
{
	uint32_t at = s->messages - 1, segment;

	if (!s->messages)
		return false;
	segment = s->message[at].segment_bytes ? s->message[at].segment_bytes : s->last[at];
	if (s->last[at] != segment || bytes > segment)
		return false;
	s->message[at].segment_bytes = segment;
	s->piece[at].iov_len += bytes;
	s->last[at] = bytes;
	return true;
}

static void keep(struct weft_sender *s, const uint8_t *data, uint32_t bytes)
{
	if (s->kept_bytes + bytes > sizeof(s->bytes))
		weft_sender_flush(s);
	memcpy(s->bytes + s->kept_bytes, data, bytes);
	if (!lengthen(s, bytes)) {
		uint32_t at = s->messages++;

		s->message[at] = s->to;
		s->message[at].pieces = &s->piece[at];
		s->piece[at] = (struct iovec){s->bytes + s->kept_bytes, bytes};
		s->last[at] = bytes;
	}
	s->kept_bytes += bytes;
	if (++s->kept == s->segments)
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
	if (s->segments > 1 && bytes && bytes <= sizeof(s->bytes) && !s->ring) {
		keep(s, data, bytes);
	} else {
		const struct iovec piece = {(void *)data, bytes};
		struct weft_udp_message message = s->to;

		message.pieces = &piece;
		send_now(s, &message, 1);
	}
}

const struct weft_sender_counters *weft_sender_counters(const struct weft_sender *s)
{
	return &s->counters;
}

const struct weft_histogram *weft_sender_late(const struct weft_sender *s)
{
	return &s->late;
}
