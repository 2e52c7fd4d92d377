/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/report.h"
#include "cli/stream.h"
#include "cli/stream_live.h"
#include "link/stream.h"
#include "link/udp.h"
#include "pool/clock.h"
#include "stream/histogram.h"
#include "wire/nanet/mtp.h"

#define FRAMES	 (1u << 16) /* whose times are known: 0.42 s of events */
#define LIMIT_NS 1000000u   /* of the chain */
#define LAST_US	 300000u    /* for those that are under way at the end */

struct weft_stream_back {
	struct weft_udp *udp;
	pthread_t thread;
	_Atomic bool stop;
	uint32_t frame;
	uint64_t datagrams, primitives, bad, misses;
	struct weft_histogram latency;
	_Atomic uint64_t left_ns[FRAMES]; /* of a frame's first event */
};

static void take_primitives(struct weft_stream_back *b, const struct weft_udp_datagram *d,
			    uint64_t now_ns)
{
	struct weft_mtp mtp;
	uint64_t left_ns;

	if (!weft_mtp_parse(d->at, d->bytes, &mtp)) {
		b->bad++;
		return;
	}
	b->datagrams++;
	b->primitives += mtp.count;
	left_ns = atomic_load_explicit(&b->left_ns[mtp.timestamp / 256 % FRAMES],
				       memory_order_relaxed);
	if (!left_ns || left_ns > now_ns)
		return;
	weft_histogram_add(&b->latency, now_ns - left_ns);
	b->misses += now_ns - left_ns > LIMIT_NS;
}

static void *receive_primitives(void *context)
{
	struct weft_stream_back *b = context;
	struct pollfd wait = {.fd = weft_udp_fd(b->udp), .events = POLLIN};
	struct weft_udp_datagram d;

	while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
		if (poll(&wait, 1, 20) <= 0 || weft_udp_receive(b->udp) <= 0)
			continue;
		for (uint64_t now_ns = weft_clock_now_ns(); weft_udp_next(b->udp, &d);)
			take_primitives(b, &d, now_ns);
	}
	return NULL;
}

int weft_stream_back_open(const char *where, struct weft_stream_back **back)
{
	struct weft_udp_config config = {.buffer_bytes = 4 << 20};
	struct weft_stream_back *b;
	int err;

	if (!weft_stream_address(where, config.address, &config.port))
		return -EINVAL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	err = weft_udp_open(&config, &b->udp);
	if (!err && (err = -pthread_create(&b->thread, NULL, receive_primitives, b)))
		weft_udp_close(b->udp);
	if (err)
		free(b);
	else
		*back = b;
	return err;
}

void weft_stream_back_leaves(struct weft_stream_back *b, uint32_t timestamp, uint64_t now_ns)
{
	if (timestamp / 256 == b->frame)
		return;
	b->frame = timestamp / 256;
	atomic_store_explicit(&b->left_ns[b->frame % FRAMES], now_ns, memory_order_relaxed);
}

void weft_stream_back_stop(struct weft_stream_back *b)
{
	usleep(LAST_US);
	atomic_store_explicit(&b->stop, true, memory_order_relaxed);
	pthread_join(b->thread, NULL);
}

void weft_stream_back_report(struct weft_report *r, const struct weft_stream_back *b)
{
	static const struct weft_column columns[] = {
		{"datagrams", WEFT_COLUMN_NUMBER},
		{"primitives", WEFT_COLUMN_NUMBER},
		{"bad", WEFT_COLUMN_NUMBER},
		{"misses", WEFT_COLUMN_NUMBER},
		{NULL},
	};

	weft_report_section(r, "back", true, columns);
	weft_report_row(r);
	weft_report_number(r, b->datagrams);
	weft_report_number(r, b->primitives);
	weft_report_number(r, b->bad);
	weft_report_number(r, b->misses);
	weft_stream_report_histogram(r, "back_ns", &b->latency);
}

void weft_stream_back_close(struct weft_stream_back *b)
{
	weft_udp_close(b->udp);
	free(b);
}
