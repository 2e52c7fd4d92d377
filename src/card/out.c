/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/out.h"

#include <errno.h>
#include <string.h>

static struct weft_out_message *message_at(struct weft_out *out, uint32_t n)
{
	return &out->message[n % WEFT_OUT_MESSAGES];
}

static bool continues(const struct weft_out_message *m, struct weft_out_way way, uint32_t bytes)
{
	return !m->closed && bytes <= m->packet_bytes && m->packets < WEFT_UDP_SEGMENTS &&
	       m->piece.iov_len + bytes <= WEFT_UDP_BYTES &&
	       m->traffic_class == way.traffic_class && m->hop_limit == way.hop_limit &&
	       !memcmp(m->to, way.to, 16);
}

/* The last message. One without packets has not been committed, and takes any packet. */
static struct weft_out_message *last_of(struct weft_out *out)
{
	return out->first == out->end ? NULL : message_at(out, out->end - 1);
}

static struct weft_out_message *new_message(struct weft_out *out)
{
	struct weft_out_message *m = last_of(out);

	if (m && !m->packets)
		return m;
	if (out->end - out->first == WEFT_OUT_MESSAGES)
		weft_out_flush(out);
	if (out->end - out->first == WEFT_OUT_MESSAGES)
		return NULL;
	return message_at(out, out->end++);
}

uint8_t *weft_out_reserve(struct weft_out *out, struct weft_out_way way, uint32_t bytes,
			  uint16_t *id)
{
	struct weft_out_message *m;

	*id = 0;
	if (out->medium)
		return out->medium->reserve(out, way.to, bytes);
	m = last_of(out);
	if (!m || !m->packets || !continues(m, way, bytes)) {
		m = new_message(out);
		if (!m)
			return NULL;
		m->piece = (struct iovec){m->bytes, 0};
		m->packets = 0;
		m->packet_bytes = bytes;
		m->closed = false;
		m->traffic_class = way.traffic_class;
		m->hop_limit = way.hop_limit;
		memcpy(m->to, way.to, 16);
	}
	*id = (uint16_t)m->packets;
	return m->bytes + m->piece.iov_len;
}

void weft_out_commit(struct weft_out *out, uint32_t bytes)
{
	struct weft_out_message *m;

	out->packets++;
	out->sent_bytes += bytes;
	if (out->medium) {
		out->medium->commit(out, bytes);
		return;
	}
	m = last_of(out);
	m->piece.iov_len += bytes;
	m->packets++;
	m->closed = bytes < m->packet_bytes;
}

/* As the socket wants it. */
static uint32_t list_messages(struct weft_out *out, struct weft_udp_message *messages)
{
	uint32_t n = 0;

	for (uint32_t i = out->first; i != out->end; i++) {
		const struct weft_out_message *m = message_at(out, i);

		if (!m->packets)
			break;
		messages[n] = (struct weft_udp_message){
			.port = out->port,
			.interface = out->interface,
			.traffic_class = m->traffic_class,
			.hop_limit = m->hop_limit,
			.segment_bytes = m->packets > 1 ? m->packet_bytes : 0,
			.pieces = &m->piece,
			.count = 1,
		};
		memcpy(messages[n++].to, m->to, 16);
	}
	return n;
}

bool weft_out_flush(struct weft_out *out)
{
	struct weft_udp_message messages[WEFT_OUT_MESSAGES];
	uint32_t waiting, gone = 0;

	waiting = list_messages(out, messages);
	out->full = false;
	while (gone < waiting) {
		int answer = weft_udp_send(out->udp, messages + gone, waiting - gone);

		out->full = answer == -EAGAIN || answer == -ENOBUFS;
		if (out->full)
			break;
		/* packets that the host cannot send are lost, as on any wire */
		if (answer < 0)
			out->unsent += message_at(out, out->first + gone)->packets;
		gone += answer < 0 ? 1 : (uint32_t)answer;
	}
	out->first += gone;
	/* the next use the same memory, which is in the cache */
	if (gone == waiting)
		out->first = out->end = 0;
	return gone == waiting;
}
