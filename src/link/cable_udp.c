/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/cable_udp.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "link/udp.h"

#define BUFFER_BYTES (1u << 20)

struct head {
	uint64_t cookie, from, to, number;
	uint32_t beats, quads;
};

_Static_assert(sizeof(struct head) == WEFT_CABLE_UDP_HEAD, "the head of a datagram");

int weft_cable_udp_open(struct weft_cable_udp *u, const uint8_t address[16], uint16_t port,
			uint32_t quads)
{
	struct weft_udp_config config = {.port = port, .buffer_bytes = BUFFER_BYTES};

	memset(u, 0, sizeof(*u));
	u->quads = quads;
	while (!u->life)
		if (getrandom(&u->life, sizeof(u->life), 0) != sizeof(u->life))
			return -errno;
	memcpy(config.address, address, sizeof(config.address));
	return weft_udp_open(&config, &u->udp);
}

void weft_cable_udp_close(struct weft_cable_udp *u)
{
	if (u->udp)
		weft_udp_close(u->udp);
	u->udp = NULL;
}

/* ---- Sending ---- */

static void send_piece(struct weft_cable_udp *u, const uint64_t *quad, uint32_t beats)
{
	struct head h = {
		.cookie = htole64(u->cookie_out),
		.from = htole64(u->life),
		.to = htole64(u->other),
		.number = htole64(++u->number),
		.beats = htole32(beats),
		.quads = htole32(u->quads),
	};
	uint64_t content[WEFT_CABLE_UDP_BYTES / 8];
	struct iovec pieces[] = {{&h, sizeof(h)}, {content, (size_t)beats * u->quads * 8}};
	struct weft_udp_message m = {.port = u->to_port, .pieces = pieces, .count = 2};

	for (uint32_t i = 0; i < beats * u->quads; i++)
		content[i] = htole64(quad[i]);
	memcpy(m.to, u->to, sizeof(m.to));
	if (weft_udp_send(u->udp, &m, 1) != 1)
		u->lost += beats;
}

void weft_cable_udp_send(struct weft_cable_udp *u, const uint64_t *quad, uint32_t beats)
{
	uint32_t most = (WEFT_CABLE_UDP_BYTES - WEFT_CABLE_UDP_HEAD) / (8 * u->quads), now;

	if (!u->to_port) {
		u->lost += beats;
		return;
	}
	for (; beats; beats -= now, quad += (size_t)now * u->quads) {
		now = beats < most ? beats : most;
		send_piece(u, quad, now);
	}
}

/* ---- Receiving ---- */

/* Whose datagram it is; its beats, if they are to be taken. */
static uint32_t judge(struct weft_cable_udp *u, const struct head *h, size_t bytes)
{
	uint32_t beats = le32toh(h->beats);
	uint64_t from = le64toh(h->from);

	if (le64toh(h->cookie) != u->cookie_in || le32toh(h->quads) != u->quads || !from ||
	    beats > sizeof(u->beats) / 8 / u->quads ||
	    bytes != sizeof(*h) + (size_t)beats * u->quads * 8) {
		u->foreign++;
		return 0;
	}
	if (le64toh(h->to) != u->life) {
		/* maybe of one that begins, and has to hear which life is here */
		if (from != u->before && (!u->other || !h->to))
			u->other = from;
		u->stale++;
		return 0;
	}
	if (from == u->before) {
		u->stale++;
		return 0;
	}
	if (from != u->taken) {
		u->before = u->taken;
		u->taken = from;
		u->seen = 0;
	}
	u->other = from;
	if (le64toh(h->number) <= u->seen) {
		u->old++;
		return 0;
	}
	u->seen = le64toh(h->number);
	return beats;
}

uint32_t weft_cable_udp_receive(struct weft_cable_udp *u, bool *more)
{
	struct weft_udp_datagram d;
	struct head h;
	uint32_t beats;

	*more = true;
	while (weft_udp_next(u->udp, &d) ||
	       (weft_udp_receive(u->udp) == 1 && weft_udp_next(u->udp, &d))) {
		if (d.bytes < sizeof(h)) {
			u->foreign++;
			continue;
		}
		memcpy(&h, d.at, sizeof(h));
		beats = judge(u, &h, d.bytes);
		if (!beats)
			continue;
		memcpy(u->beats, d.at + sizeof(h), (size_t)beats * u->quads * 8);
		for (uint32_t i = 0; i < beats * u->quads; i++)
			u->beats[i] = le64toh(u->beats[i]);
		return beats;
	}
	*more = false;
	return 0;
}
