/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct held {
	uint32_t after; /* it goes when so many more have gone; 0: none is held here */
	uint64_t order;
	struct weft_udp_message message;
	struct iovec piece;
	uint8_t bytes[WEFT_FAULT_BYTES];
};

struct weft_fault {
	struct weft_fault_config config;
	struct weft_fault_counters counters;
	uint64_t state, order;
	struct held held[WEFT_FAULT_LATE];
	struct held now;
};

/* ---- Chance ---- */

/* xorshift64*: any state but 0 */
static uint64_t next_random(struct weft_fault *f)
{
	f->state ^= f->state >> 12;
	f->state ^= f->state << 25;
	f->state ^= f->state >> 27;
	return (f->state * 0x2545f4914f6cdd1dull) >> 32;
}

static bool chance(struct weft_fault *f, uint32_t of_65536)
{
	return (next_random(f) & 0xffff) < of_65536;
}

/* ---- One datagram ---- */

static int send_held(struct weft_udp *udp, struct held *h)
{
	h->message.pieces = &h->piece;
	h->piece.iov_base = h->bytes;
	h->after = 0;
	return weft_udp_send(udp, &h->message, 1);
}

/* One byte becomes another. */
static void corrupt(struct weft_fault *f, struct held *h)
{
	if (!h->piece.iov_len)
		return;
	h->bytes[next_random(f) % h->piece.iov_len] ^= (uint8_t)(1 + next_random(f) % 255);
	f->counters.corrupted++;
}

/* One more datagram has gone: those that are held back until so many have gone are counted down, and may go. */
static void let_held_go(struct weft_fault *f, struct weft_udp *udp)
{
	for (uint32_t i = 0; i < WEFT_FAULT_LATE; i++)
		if (f->held[i].after && !--f->held[i].after)
			send_held(udp, &f->held[i]);
}

static bool hold(struct weft_fault *f, const struct held *h)
{
	uint32_t i = 0;

	while (i < WEFT_FAULT_LATE && f->held[i].after)
		i++;
	if (i == WEFT_FAULT_LATE)
		return false;
	f->held[i] = *h;
	f->held[i].after = 1 + (uint32_t)(next_random(f) % WEFT_FAULT_LATE);
	f->held[i].order = f->order++;
	f->counters.late++;
	return true;
}

/* 0, or why it cannot go. */
static int pass_message(struct weft_fault *f, struct weft_udp *udp, const struct held *h)
{
	int answer;

	f->now = *h;
	if (chance(f, f->config.corrupted))
		corrupt(f, &f->now);
	if (chance(f, f->config.late) && hold(f, &f->now))
		return 0;
	answer = send_held(udp, &f->now);
	if (answer < 0)
		return answer;
	let_held_go(f, udp);
	return 0;
}

static int gather_message(const struct weft_udp_message *m, struct held *h)
{
	h->message = *m;
	h->message.count = 1;
	h->piece.iov_len = 0;
	if (m->segment_bytes)
		return -EINVAL;
	for (uint32_t i = 0; i < m->count; i++) {
		if (m->pieces[i].iov_len > WEFT_FAULT_BYTES - h->piece.iov_len)
			return -EMSGSIZE;
		memcpy(h->bytes + h->piece.iov_len, m->pieces[i].iov_base, m->pieces[i].iov_len);
		h->piece.iov_len += m->pieces[i].iov_len;
	}
	return 0;
}

static int send_or_hold(struct weft_fault *f, struct weft_udp *udp,
			const struct weft_udp_message *m)
{
	struct held h = {0};
	int answer = gather_message(m, &h);

	if (answer)
		return answer;
	if (chance(f, f->config.lost)) {
		f->counters.lost++;
		return 0;
	}
	answer = pass_message(f, udp, &h);
	if (!answer && chance(f, f->config.doubled)) {
		f->counters.doubled++;
		pass_message(f, udp, &h);
	}
	return answer;
}

/* ---- All of them ---- */

struct weft_fault *weft_fault_open(const struct weft_fault_config *config)
{
	struct weft_fault *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->config = *config;
	f->state = config->seed * 0x9e3779b97f4a7c15ull | 1;
	for (int i = 0; i < 8; i++)
		next_random(f);
	return f;
}

void weft_fault_close(struct weft_fault *fault)
{
	free(fault);
}

int weft_fault_send(struct weft_fault *fault, struct weft_udp *udp,
		    const struct weft_udp_message *messages, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		int answer = send_or_hold(fault, udp, &messages[i]);

		if (answer)
			return i ? (int)i : answer;
	}
	return (int)count;
}

void weft_fault_flush(struct weft_fault *fault, struct weft_udp *udp)
{
	for (;;) {
		struct held *first = NULL;

		for (uint32_t i = 0; i < WEFT_FAULT_LATE; i++) {
			struct held *h = &fault->held[i];

			if (h->after && (!first || h->order < first->order))
				first = h;
		}
		if (!first)
			return;
		send_held(udp, first);
	}
}

struct weft_fault_counters weft_fault_counters(const struct weft_fault *fault)
{
	return fault->counters;
}
