/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Figures of streams into memory of a GPU, each beside what limits it in the same run; tools/stream_gpus.py makes a table of them:
 *
 *	nanet-gpu-speed SECONDS [PART...]
 *
 * A line for each figure: "result NAME VALUE". Datagrams have 1,472 bytes and come over loopback, from another process. On
 * the stand-in the figures mean nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../gpu/gpu.h"
#include "pool/clock.h"
#include "stream/ferry.h"
#include "stream/sender.h"
#include "weft/stream.h"

#define BYTES	     1472u
#define SEGMENTS     44u
#define SOCKET_BYTES (16u << 20)
#define TIMES	     (1u << 20) /* of sending that are known */
#define ROUNDS	     3u
#define GAPS	     (1u << 20)
#define GAP_LEAST_NS                                                                               \
	300u /* what two looks at the clock are apart at most, if nothing came between */
#define SLICE_NS 1000000000ull

/* What the sending process is told, and what it says. */
static struct orders {
	_Atomic uint32_t turn, done; /* an order each; the last one that has begun and ended */
	_Atomic bool stop;
	uint32_t segments;
	uint64_t interval_ns; /* 0: as fast as it goes */
	char to[32];
	_Atomic uint64_t sent;
	_Atomic uint64_t sent_ns[TIMES]; /* of a number */
} * orders;

static uint64_t seconds_ns;
static uint16_t port;
static int cpus; /* that this process may use */

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "nanet-gpu-speed: %s: %s\n", what, why);
	exit(1);
}

static void result(const char *name, double value)
{
	printf("result %s %.4g\n", name, value);
	fflush(stdout);
}

/* Where a thread runs, if there are processors enough for each to have its own. */
static void run_on(int from_last)
{
	cpu_set_t all, one;

	if (cpus < 4)
		return;
	CPU_ZERO(&all);
	CPU_ZERO(&one);
	for (int i = 0; i < cpus; i++)
		CPU_SET(i, &all);
	CPU_SET(cpus - 1 - from_last, &one);
	sched_setaffinity(0, sizeof(one), from_last < 0 ? &all : &one);
}

#define RECEIVER_CPU 0
#define TAKER_CPU    1
#define SENDER_CPU   2

/* ---- The sending process ---- */

static void send_datagrams(void)
{
	uint64_t at_ns = weft_clock_now_ns();
	uint8_t data[BYTES] = {0};
	struct weft_sender *sender;
	uint32_t number = 0;

	if (weft_sender_open(orders->to, orders->segments, &sender))
		fail("the sender", orders->to);
	while (!atomic_load_explicit(&orders->stop, memory_order_relaxed)) {
		uint64_t now_ns;

		at_ns += orders->interval_ns;
		now_ns =
			orders->interval_ns ? weft_sender_wait(sender, at_ns) : weft_clock_now_ns();
		memcpy(data, &number, sizeof(number));
		atomic_store_explicit(&orders->sent_ns[number % TIMES], now_ns,
				      memory_order_relaxed);
		weft_sender_put(sender, data, sizeof(data));
		number++;
	}
	weft_sender_flush(sender);
	atomic_store_explicit(&orders->sent, number, memory_order_relaxed);
	weft_sender_close(sender);
}

static void serve_orders(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(SENDER_CPU);
	for (uint32_t turn = 0;; turn++) {
		/* with the releases in begin_sending and end_sending: the order */
		while (atomic_load_explicit(&orders->turn, memory_order_acquire) == turn)
			usleep(100);
		send_datagrams();
		atomic_store_explicit(&orders->done, turn + 1, memory_order_release);
	}
}

static void begin_sending(uint32_t segments, uint64_t interval_ns)
{
	orders->segments = segments;
	orders->interval_ns = interval_ns;
	snprintf(orders->to, sizeof(orders->to), "udp:127.0.0.1:%u", port);
	atomic_store_explicit(&orders->stop, false, memory_order_relaxed);
	/* with the acquire in serve_orders */
	atomic_fetch_add_explicit(&orders->turn, 1, memory_order_release);
}

static void end_sending(void)
{
	atomic_store_explicit(&orders->stop, true, memory_order_relaxed);
	while (atomic_load_explicit(&orders->done, memory_order_acquire) !=
	       atomic_load_explicit(&orders->turn, memory_order_relaxed))
		usleep(100);
}

static void begin_sender(void)
{
	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (orders == MAP_FAILED)
		fail("the sender", strerror(errno));
	fflush(NULL);
	if (!fork())
		serve_orders();
}

/* ---- Streams ---- */

enum way { HOST, ENGINE, PULL, WAYS };
static const struct {
	const char *name;
	uint32_t flags;
} ways[WAYS] = {
	[HOST] = {"host", 0},
	[ENGINE] = {"engine", WEFT_STREAM_GPU},
	[PULL] = {"pull", WEFT_STREAM_GPU | WEFT_STREAM_PULL},
};

static struct weft_stream *stream;
static weft_cu_ptr gpu;

static void choose_port(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(name);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&name, bytes) ||
	    getsockname(fd, (struct sockaddr *)&name, &bytes))
		fail("a port", strerror(errno));
	port = ntohs(name.sin_port);
	close(fd);
}

/* False: there is no kernel for it. */
static bool begin_stream(enum way way, const struct weft_stream_list *list, uint64_t spin_ns)
{
	struct weft_stream_list wanted = *list;
	struct weft_stream_layout layout;
	struct weft_stream_source source = {
		.protocol = WEFT_STREAM_SEQUENCED, .bits = 32, .socket_bytes = SOCKET_BYTES};
	char from[32];
	int err;

	choose_port();
	snprintf(from, sizeof(from), "udp:127.0.0.1:%u", port);
	source.from = from;
	wanted.flags |= ways[way].flags;
	if (way != HOST) {
		weft_stream_lay_out(&wanted, &layout);
		gpu = gpu_alloc(layout.bytes);
		wanted.memory = (void *)(uintptr_t)gpu; /* NOLINT(performance-no-int-to-ptr) */
	}
	if (weft_stream_open(spin_ns, &stream))
		fail(ways[way].name, "no stream");
	err = weft_stream_register(stream, &wanted, NULL, NULL);
	if (err == -ENOTSUP && way == PULL) {
		weft_stream_close(stream);
		GPU_OK(cu.cuMemFree_v2(gpu));
		return false;
	}
	if (!err)
		err = weft_stream_bind(stream, &source, NULL);
	run_on(RECEIVER_CPU); /* the thread begins where this one is */
	if (!err)
		err = weft_stream_start(stream);
	run_on(TAKER_CPU);
	if (err)
		fail(ways[way].name, weft_stream_wrong(stream) ?: strerror(-err));
	return true;
}

static struct weft_stream_counters counters(void)
{
	struct weft_stream_counters c;

	weft_stream_counters(stream, WEFT_STREAM_ALL, &c);
	if (c.failed)
		fail("a stream ended", strerror((int)c.failed));
	return c;
}

static void end_stream(enum way way)
{
	weft_stream_close(stream);
	if (way != HOST)
		GPU_OK(cu.cuMemFree_v2(gpu));
}

/* Takes what is told for so long; nothing is looked at. */
static void take_for(uint64_t ns)
{
	uint64_t end_ns = weft_clock_now_ns() + ns;
	struct weft_stream_event event;

	while (weft_clock_now_ns() < end_ns)
		if (!weft_stream_wait(stream, &event, 0))
			weft_stream_give_back(stream, 0, event.buffer, event.generation);
}

/* ---- Flows ---- */

/* Bytes a second into slots that follow each other. < 0: there is no kernel for it. */
static double flow_rate(enum way way, uint32_t segments)
{
	const struct weft_stream_list list = {.buffers = 64,
					      .bytes = 4 * SEGMENTS * BYTES,
					      .slots = 4 * SEGMENTS,
					      .slot_bytes = BYTES,
					      .timeout_ns = 1000000};
	struct weft_stream_counters before, after;
	uint64_t from_ns, until_ns;

	if (!begin_stream(way, &list, 1000000))
		return -1;
	begin_sending(segments, 0);
	take_for(seconds_ns / 10);
	before = counters();
	from_ns = weft_clock_now_ns();
	take_for(seconds_ns);
	after = counters();
	until_ns = weft_clock_now_ns();
	end_sending();
	end_stream(way);
	return (double)(after.bytes - before.bytes) * 1e9 / (double)(until_ns - from_ns);
}

/* A bare loop that receives and discards, with the options that the stream's socket has. */
static double bare_rate(void)
{
	static uint8_t messages[64][4096], control[64][64];
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1,
	    room = SOCKET_BYTES;
	uint64_t begin_ns, now_ns = 0, from_ns = 0, bytes = 0;
	struct mmsghdr head[64];
	struct iovec piece[64];

	choose_port();
	name.sin_port = htons(port);
	if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one)) ||
	    (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) &&
	     setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room))) ||
	    bind(fd, (struct sockaddr *)&name, sizeof(name)))
		fail("a bare loop", strerror(errno));
	run_on(RECEIVER_CPU);
	begin_sending(1, 0);
	begin_ns = weft_clock_now_ns();
	while ((now_ns = weft_clock_now_ns()) < begin_ns + seconds_ns / 10 + seconds_ns) {
		int came;

		for (int i = 0; i < 64; i++) {
			piece[i] = (struct iovec){messages[i], sizeof(messages[i])};
			head[i].msg_hdr = (struct msghdr){.msg_iov = &piece[i],
							  .msg_iovlen = 1,
							  .msg_control = control[i],
							  .msg_controllen = sizeof(control[i])};
		}
		came = recvmmsg(fd, head, 64, 0, NULL);
		if (now_ns < begin_ns + seconds_ns / 10)
			continue;
		from_ns = from_ns ?: now_ns;
		for (int i = 0; i < came; i++)
			bytes += head[i].msg_len;
	}
	end_sending();
	close(fd);
	run_on(TAKER_CPU);
	return (double)bytes * 1e9 / (double)(now_ns - from_ns);
}

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

static double middle(double value[ROUNDS])
{
	qsort(value, ROUNDS, sizeof(*value), by_value);
	return value[ROUNDS / 2];
}

/* Rounds alternate between the ways, so that each has the same machine. */
static void flows(const char *what, uint32_t segments)
{
	double rate[WAYS][ROUNDS], bare[ROUNDS];
	char name[64];

	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (enum way way = HOST; way < WAYS; way++)
			rate[way][round] = flow_rate(way, segments);
		if (segments == 1)
			bare[round] = bare_rate();
	}
	for (enum way way = HOST; way < WAYS; way++) {
		snprintf(name, sizeof(name), "%s.%s", what, ways[way].name);
		if (rate[way][0] >= 0)
			result(name, middle(rate[way]) / 1e9);
	}
	if (segments == 1)
		result("singles.bare", middle(bare) / 1e9);
}

static void part_segments(void)
{
	flows("segments", SEGMENTS);
}

static void part_singles(void)
{
	flows("singles", 1);
}

/* ---- The kernel alone ---- */

#define PULLED	   64u /* buffers that are under way at a time */
#define PULL_BYTES (4ul * SEGMENTS * BYTES)

/* Buffers of the host's room, the same ones again and again. */
static void part_pull(void)
{
	uint64_t bytes = PULLED * PULL_BYTES + 8, begin_ns, now_ns, pulled = 0;
	struct weft_ferry *ferry;
	weft_cu_ptr at = gpu_alloc(bytes);
	int err = weft_ferry_begin((void *)(uintptr_t)at, bytes, true,
				   &ferry); /* NOLINT(performance-no-int-to-ptr) */

	if (err == -ENOTSUP)
		goto done;
	memset(weft_ferry_host(ferry), 1, bytes);
	if (err || weft_ferry_start(ferry))
		fail("pull", "it does not begin");
	begin_ns = now_ns = weft_clock_now_ns();
	for (; now_ns < begin_ns + seconds_ns; now_ns = weft_clock_now_ns()) {
		for (uint64_t i = 0; i < PULLED; i++) {
			const struct weft_plugin_part part[2] = {{i * PULL_BYTES, PULL_BYTES}};

			if (weft_ferry_carry(ferry, part, PULLED * PULL_BYTES))
				fail("pull", "an entry is refused");
		}
		if (weft_ferry_wait(ferry))
			fail("pull", "it has died");
		pulled += PULLED * PULL_BYTES;
	}
	weft_ferry_stop(ferry);
	weft_ferry_end(ferry);
	result("pull.alone", (double)pulled / (double)(now_ns - begin_ns));
done:
	GPU_OK(cu.cuMemFree_v2(at));
}

/* ---- Latencies ---- */

static const struct weft_stream_list singly = {.buffers = 1024, .bytes = 1536, .datagrams = 1};

static void tell_quantiles(const char *what, enum way way, const struct weft_histogram *h)
{
	static const struct {
		const char *name;
		uint32_t millionths;
	} quantiles[] = {{"p50", 500000}, {"p90", 900000}, {"p99", 990000}, {"p99.9", 999000}};
	char name[64];

	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++) {
		snprintf(name, sizeof(name), "%s.%s.%s", what, ways[way].name, quantiles[i].name);
		result(name, (double)weft_histogram_quantile(h, quantiles[i].millionths) / 1e3);
	}
	snprintf(name, sizeof(name), "%s.%s.max", what, ways[way].name);
	result(name, (double)h->max / 1e3);
	snprintf(name, sizeof(name), "%s.%s.count", what, ways[way].name);
	result(name, (double)h->count);
}

static void check_number(enum way way, const struct weft_stream_event *e)
{
	uint32_t number = (uint32_t)e->first_sequence;

	if (way != HOST)
		GPU_OK(cu.cuMemcpyDtoH_v2(&number, gpu + (uint64_t)e->buffer * singly.bytes,
					  sizeof(number)));
	if (number != (uint32_t)e->first_sequence)
		fail("one packet", "its bytes are not there");
}

/* From before the send until the CPU knows that the datagram is in the list's memory: one at a time. */
static void one_packet(enum way way)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct weft_histogram *h = calloc(1, sizeof(*h));
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t end_ns = weft_clock_now_ns() + seconds_ns;
	uint8_t data[BYTES] = {0};

	if (!h)
		fail("one packet", strerror(ENOMEM));
	if (!begin_stream(way, &singly, UINT64_MAX / 4))
		goto done;
	to.sin_port = htons(port);
	for (uint32_t number = 0; weft_clock_now_ns() < end_ns || number < 200; number++) {
		struct weft_stream_event event;
		uint64_t from_ns;

		memcpy(data, &number, sizeof(number));
		from_ns = weft_clock_now_ns();
		if (sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
			fail("one packet", strerror(errno));
		while (weft_stream_wait(stream, &event, 0))
			if (cpus < 4)
				sched_yield();
		if (number >= 100)
			weft_histogram_add(h, weft_clock_now_ns() - from_ns);
		else
			check_number(way, &event);
		weft_stream_give_back(stream, 0, event.buffer, event.generation);
	}
	end_stream(way);
	tell_quantiles("one", way, h);
done:
	close(fd);
	free(h);
}

static void part_one(void)
{
	for (enum way way = HOST; way < WAYS; way++)
		one_packet(way);
}

/* ---- A flow's latencies, and what the machine does to a loop on that processor ---- */

static uint64_t gap_ns[GAPS], gaps, looked_ns;

static void look_for_gaps(uint64_t ns)
{
	uint64_t begin_ns, last_ns, now_ns;

	run_on(RECEIVER_CPU);
	begin_ns = last_ns = now_ns = weft_clock_now_ns();
	for (; now_ns < begin_ns + ns; last_ns = now_ns) {
		now_ns = weft_clock_now_ns();
		if (now_ns - last_ns > GAP_LEAST_NS && gaps < GAPS)
			gap_ns[gaps++] = now_ns - last_ns;
	}
	looked_ns += now_ns - begin_ns;
	run_on(TAKER_CPU);
}

/* How long at most all but 0.001 of those wait that arrive at a random moment: P(wait > w) = Σ max(0, gap − w) / time. */
static uint64_t gaps_quantile(double beyond)
{
	uint64_t low = 0, high = 1000000000;

	while (low + 1 < high) {
		uint64_t w = (low + high) / 2;
		double sum = 0;

		for (uint64_t i = 0; i < gaps; i++)
			sum += gap_ns[i] > w ? (double)(gap_ns[i] - w) : 0;
		if (sum > beyond * (double)looked_ns)
			low = w;
		else
			high = w;
	}
	return high;
}

/* Takes what is told of each datagram, and how long ago it was sent. */
static void take_timed(uint64_t ns, struct weft_histogram *h)
{
	uint64_t end_ns = weft_clock_now_ns() + ns, now_ns;
	struct weft_stream_event e;

	while ((now_ns = weft_clock_now_ns()) < end_ns) {
		if (weft_stream_wait(stream, &e, 0))
			continue;
		now_ns = weft_clock_now_ns();
		weft_histogram_add(
			h, now_ns - atomic_load_explicit(&orders->sent_ns[e.first_sequence % TIMES],
							 memory_order_relaxed));
		weft_stream_give_back(stream, 0, e.buffer, e.generation);
	}
}

/* Datagrams a second; < 0: there is no kernel for it. */
static double full_rate(enum way way)
{
	struct weft_stream_counters before, after;

	if (!begin_stream(way, &singly, 1000000))
		return -1;
	begin_sending(1, 0);
	take_for(seconds_ns / 10);
	before = counters();
	take_for(seconds_ns / 2);
	after = counters();
	end_sending();
	end_stream(way);
	return (double)(after.placed - before.placed) * 2e9 / (double)seconds_ns;
}

/* Slices of the flow and of the bare loop alternate. */
static void flow_latency(const char *what, enum way way, double rate)
{
	struct weft_histogram *h = calloc(1, sizeof(*h));
	uint64_t slice_ns = seconds_ns < SLICE_NS ? seconds_ns : SLICE_NS;
	struct weft_stream_counters c;
	char name[64];

	if (!h)
		fail(what, strerror(ENOMEM));
	begin_stream(way, &singly, 100000000);
	gaps = looked_ns = 0;
	for (uint64_t ns = 0; ns < 10 * seconds_ns; ns += 3 * slice_ns) {
		begin_sending(1, (uint64_t)(1e9 / rate));
		take_timed(3 * slice_ns, h);
		end_sending();
		take_for(150000000); /* until the stream's thread sleeps */
		look_for_gaps(slice_ns);
	}
	c = counters();
	tell_quantiles(what, way, h);
	snprintf(name, sizeof(name), "%s.%s.rate", what, ways[way].name);
	result(name, rate);
	snprintf(name, sizeof(name), "%s.%s.lost", what, ways[way].name);
	result(name, (double)(c.dropped + c.no_buffer));
	snprintf(name, sizeof(name), "%s.%s.gaps", what, ways[way].name);
	result(name, (double)gaps_quantile(0.001) / 1e3);
	end_stream(way);
	free(h);
}

static void part_latency(void)
{
	for (enum way way = ENGINE; way < WAYS; way++) {
		double full = full_rate(way);

		if (full < 0)
			continue;
		flow_latency("slow", way, 1e4);
		flow_latency("fast", way, full > 1000 ? 0.8 * full : 800);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {{"pull", part_pull},
	     {"segments", part_segments},
	     {"singles", part_singles},
	     {"one", part_one},
	     {"latency", part_latency}};

static bool is_wanted(int argc, char **argv, const char *name)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc <= 2;
}

int main(int argc, char **argv)
{
	weft_cu_context context;

	seconds_ns = (uint64_t)((argc > 1 ? atof(argv[1]) : 3) * 1e9);
	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	begin_sender();
	if (!gpu_load()) {
		fprintf(stderr, "nanet-gpu-speed: there is no libcuda.so.1\n");
		return 77;
	}
	context = gpu_context();
	run_on(TAKER_CPU);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (is_wanted(argc, argv, parts[i].name))
			parts[i].run();
	GPU_OK(cu.cuCtxDestroy_v2(context));
	return 0;
}
