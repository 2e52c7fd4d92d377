/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How long it takes from a datagram's leaving until the application knows of it: one at a time, over loopback. Beside it stand half of
 * a ping-pong between two bare sockets, and what the machine does to a loop that does nothing ("gaps"), in slices of
 * the same run.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "pool/clock.h"
#include "stream/histogram.h"
#include "weft/stream.h"

#define BYTES	  64u
#define SLICE_NS  20000000u
#define WARM	  5u	       /* of a slice, that are not counted */
#define LOST_NS	  200000000u   /* a datagram that has not come by then is given up */
#define LONGER_NS 30000000000u /* it goes on, if nothing has been measured by its end */

struct latency {
	double seconds;
	bool json;
	struct weft_histogram stream, bare, gaps; /* gaps: each, as long as it was */
	uint64_t looked_ns, lost;
};

enum { SECONDS = 256, JSON };

static const struct option words[] = {
	{"seconds", required_argument, NULL, SECONDS},
	{"json", no_argument, NULL, JSON},
	{0},
};

static bool take_latency_word(void *context, int option)
{
	struct latency *l = context;

	switch (option) {
	case SECONDS:
		return weft_stream_real(optarg, 0.01, 3600, &l->seconds);
	case JSON:
		l->json = true;
		return true;
	default:
		return false;
	}
}

/* ---- Sockets ---- */

static int open_bound(struct sockaddr_in *name)
{
	socklen_t bytes = sizeof(*name);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*name = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd >= 0 && !bind(fd, (struct sockaddr *)name, bytes) &&
	    !getsockname(fd, (struct sockaddr *)name, &bytes))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool send_to(int fd, const struct sockaddr_in *to)
{
	static const uint8_t data[BYTES];

	return sendto(fd, data, sizeof(data), 0, (const struct sockaddr *)to, sizeof(*to)) ==
	       (ssize_t)sizeof(data);
}

/* Looks until something has come: whether it has in time. */
static bool receive_soon(int fd, uint64_t until_ns)
{
	uint8_t data[BYTES];

	while (recv(fd, data, sizeof(data), 0) < 0)
		if (weft_clock_now_ns() > until_ns)
			return false;
	return true;
}

/* ---- Slices ---- */

/* The other end of the ping-pong. */
struct echo {
	int fd;
	struct sockaddr_in to;
	_Atomic bool stop;
};

static void *echo_back(void *context)
{
	struct echo *e = context;

	while (!atomic_load_explicit(&e->stop, memory_order_relaxed))
		if (receive_soon(e->fd, weft_clock_now_ns() + 1000000))
			send_to(e->fd, &e->to);
	return NULL;
}

static int bare_slice(struct latency *l)
{
	struct sockaddr_in name, other;
	struct echo echo = {.fd = open_bound(&other)};
	int fd = open_bound(&name), err = fd < 0 || echo.fd < 0 ? -EIO : 0;
	uint64_t end_ns = weft_clock_now_ns() + SLICE_NS, now_ns;
	pthread_t thread;

	echo.to = name;
	if (!err)
		err = -pthread_create(&thread, NULL, echo_back, &echo);
	for (uint32_t i = 0; !err && (now_ns = weft_clock_now_ns()) < end_ns; i++) {
		if (!send_to(fd, &other) || !receive_soon(fd, now_ns + LOST_NS))
			l->lost++;
		else if (i >= WARM)
			weft_histogram_add(&l->bare, (weft_clock_now_ns() - now_ns) / 2);
	}
	if (!err) {
		atomic_store_explicit(&echo.stop, true, memory_order_relaxed);
		pthread_join(thread, NULL);
	}
	if (fd >= 0)
		close(fd);
	if (echo.fd >= 0)
		close(echo.fd);
	return err;
}

/* Whether the buffer of the one datagram was told of in time; it is given back. */
static bool told_soon(struct weft_stream *stream, uint64_t until_ns)
{
	struct weft_stream_event event;

	while (weft_stream_wait(stream, &event, 0))
		if (weft_clock_now_ns() > until_ns)
			return false;
	weft_stream_give_back(stream, 0, event.buffer, event.generation);
	return true;
}

static void send_and_wait(struct latency *l, struct weft_stream *stream, int fd,
			  const struct sockaddr_in *to)
{
	uint64_t end_ns = weft_clock_now_ns() + SLICE_NS, now_ns;

	for (uint32_t i = 0; (now_ns = weft_clock_now_ns()) < end_ns; i++) {
		if (!send_to(fd, to) || !told_soon(stream, now_ns + LOST_NS))
			l->lost++;
		else if (i >= WARM)
			weft_histogram_add(&l->stream, weft_clock_now_ns() - now_ns);
	}
}

static int stream_slice(struct latency *l)
{
	const struct weft_stream_list list = {.buffers = 64, .bytes = 2048, .datagrams = 1};
	struct weft_stream_source source = {.id = -1};
	struct weft_stream *stream = NULL;
	struct sockaddr_in to, name;
	char from[32];
	int fd = open_bound(&to), err;

	snprintf(from, sizeof(from), "udp:127.0.0.1:%u", ntohs(to.sin_port));
	if (fd >= 0)
		close(fd);
	source.from = from;
	fd = open_bound(&name);
	err = fd < 0 ? -EIO : weft_stream_open(SLICE_NS, &stream);
	if (!err)
		err = weft_stream_register(stream, &list, NULL, NULL);
	if (!err)
		err = weft_stream_bind(stream, &source, NULL);
	if (!err)
		err = weft_stream_start(stream);
	if (!err)
		send_and_wait(l, stream, fd, &to);
	if (stream)
		weft_stream_close(stream);
	if (fd >= 0)
		close(fd);
	return err;
}

/* A look at the clock takes some ten ns: what is longer, something else has done. */
static void gaps_slice(struct latency *l)
{
	uint64_t begin_ns = weft_clock_now_ns(), last_ns = begin_ns, now_ns = begin_ns;

	for (; now_ns < begin_ns + SLICE_NS; last_ns = now_ns) {
		now_ns = weft_clock_now_ns();
		if (now_ns > last_ns)
			weft_histogram_add(&l->gaps, now_ns - last_ns);
	}
	l->looked_ns += now_ns - begin_ns;
}

/* ---- The report ---- */

/* How long all but so many millionths of those wait at most that arrive at a random moment: the part that waits for more
 * than w is the sum of max(0, gap - w), through the time. */
static uint64_t wait_beyond(const struct latency *l, uint32_t millionths)
{
	double longer = 0, sum = 0, allowed = (double)l->looked_ns * millionths / 1e6;

	/* from the longest down: `longer` gaps have `sum` in all beyond the step */
	for (uint32_t i = WEFT_HISTOGRAM_STEPS - 1; i > 0; i--) {
		double width = (double)(weft_histogram_from(i) - weft_histogram_from(i - 1));

		longer += (double)l->gaps.step[i];
		if (sum + longer * width > allowed)
			return weft_histogram_from(i) - (uint64_t)((allowed - sum) / longer);
		sum += longer * width;
	}
	return 0;
}

static void report_gaps(struct weft_report *r, const struct latency *l)
{
	static const struct weft_column columns[] = {
		{"looked_ns", WEFT_COLUMN_NUMBER},
		{"p50", WEFT_COLUMN_NUMBER},
		{"p90", WEFT_COLUMN_NUMBER},
		{"p99", WEFT_COLUMN_NUMBER},
		{"p99_9", WEFT_COLUMN_NUMBER},
		{"max", WEFT_COLUMN_NUMBER},
		{NULL},
	};

	weft_report_section(r, "gaps_wait_ns", true, columns);
	weft_report_row(r);
	weft_report_number(r, l->looked_ns);
	weft_report_number(r, wait_beyond(l, 500000));
	weft_report_number(r, wait_beyond(l, 100000));
	weft_report_number(r, wait_beyond(l, 10000));
	weft_report_number(r, wait_beyond(l, 1000));
	weft_report_number(r, l->gaps.max);
}

static void report_latency(const struct latency *l)
{
	static const struct weft_column columns[] = {
		{"bytes", WEFT_COLUMN_NUMBER},
		{"lost", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	struct weft_report r;

	weft_report_begin(&r, l->json);
	weft_report_section(&r, "latency", true, columns);
	weft_report_row(&r);
	weft_report_number(&r, BYTES);
	weft_report_number(&r, l->lost);
	weft_stream_report_histogram(&r, "stream_ns", &l->stream);
	weft_stream_report_histogram(&r, "bare_ns", &l->bare);
	weft_stream_svg_add("gaps_ns", &l->gaps);
	report_gaps(&r, l);
	weft_report_end(&r);
}

int weft_stream_latency(int argc, char **argv)
{
	struct latency *l = calloc(1, sizeof(*l));
	uint64_t end_ns;
	int status = 1, err = 0;
	bool lacks;

	if (!l)
		return weft_stream_fail("latency", "it cannot begin", strerror(ENOMEM));
	l->seconds = 3;
	status = weft_stream_options(argc, argv, words, take_latency_word, l);
	if (status)
		goto free_latency;
	end_ns = weft_clock_now_ns() + (uint64_t)(l->seconds * 1e9);
	do {
		err = bare_slice(l);
		if (!err)
			err = stream_slice(l);
		gaps_slice(l);
		lacks = !l->bare.count || !l->stream.count;
	} while (!err && weft_clock_now_ns() < end_ns + (lacks ? LONGER_NS : 0));
	if (err)
		status = weft_stream_fail("latency", "a slice", strerror(-err));
	else
		report_latency(l);
free_latency:
	free(l);
	return status;
}
