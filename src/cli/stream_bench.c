/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How fast a stream takes what waits in a socket, beside a bare loop that receives and discards it with the same socket options.
 * Each round fills the socket first, since over loopback it is the sender that bounds a flow. The bare loop is measured twice: into memory of its own, which stays in the nearest caches, and
 * round memory as large as the list's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "pool/clock.h"
#include "stream/sender.h"
#include "weft/stream.h"

#define ROUNDS_MOST 1000u
#define BUFFERS	    32u /* for all that comes in a round: it does not matter when this thread runs */
#define PARTS	    4u	/* of a round, of which the first is not counted */
#define FLOW_NS	    15000000000u /* of a flow, after which a row need have but one round of use */
#define BUFFER_BYTES                                                                               \
	(100u * 1024) /* some thousand events of the detector; all of them are in the caches */
#define SOCKET_BYTES	(16u << 20)
#define ROOM_LEAST	(4u << 20)
#define SILENCE_NS	10000000000u /* then nothing more comes */
#define LOOK_US		200u
#define MESSAGES	64u /* a call of the bare loop; of joined datagrams fewer */
#define MESSAGES_JOINED 4u
#define MESSAGE_BYTES	65536u
#define MESSAGE_STRIDE	(MESSAGE_BYTES + 2112u) /* not a multiple of what caches are divided by */
#define CONTROL_BYTES	64u

enum way { BARE, WIDE, PACKED, SLOTS, STAMPS, WAYS };

/* What each way is measured beside, and how much of that it must reach at least; 0: as it comes. */
static const struct {
	const char *name;
	enum way beside;
	uint32_t bound_percent;
} ways[WAYS] = {
	[BARE] = {"a bare loop", BARE, 0},	  [WIDE] = {"a bare loop, as much memory", BARE, 0},
	[PACKED] = {"packed", BARE, 90},	  [SLOTS] = {"slots", BARE, 90},
	[STAMPS] = {"slots, stamped", SLOTS, 95},
};

static const struct {
	uint32_t bytes, segments;
} flows[] = {{64, 1}, {1472, 1}, {1472, 44}};

struct bench {
	uint32_t rounds, socket_bytes;
	bool json;
	uint8_t *memory;   /* of the list */
	uint8_t *messages; /* of the bare loop */
	uint32_t room;	   /* of a socket, in bytes as the system counts them */
	char place[32];
	uint16_t port;
};

enum { ROUNDS = 256, SOCKET, JSON };

static const struct option words[] = {
	{"rounds", required_argument, NULL, ROUNDS},
	{"socket", required_argument, NULL, SOCKET},
	{"json", no_argument, NULL, JSON},
	{0},
};

static bool take_bench_word(void *context, int option)
{
	struct bench *b = context;
	uint64_t number = 0;

	switch (option) {
	case ROUNDS:
		if (!weft_stream_number(optarg, 1, ROUNDS_MOST, &number))
			return false;
		b->rounds = (uint32_t)number;
		return true;
	case SOCKET:
		if (!weft_stream_number(optarg, 1, SOCKET_BYTES, &number))
			return false;
		b->socket_bytes = (uint32_t)number;
		return true;
	case JSON:
		b->json = true;
		return true;
	default:
		return false;
	}
}

/* ---- The socket ---- */

/* As link/stream_udp.c opens one. */
static int open_bare(const struct bench *b)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_port = htons(b->port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, room = (int)b->socket_bytes;

	if (fd < 0)
		return -1;
	if (!setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one)) &&
	    (!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	     !setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room))) &&
	    !bind(fd, (struct sockaddr *)&name, sizeof(name)))
		return fd;
	close(fd);
	return -1;
}

/* Takes a port that is free now. */
static int choose_port(struct bench *b)
{
	struct sockaddr_in name = {0};
	socklen_t bytes = sizeof(name), size = sizeof(b->room);
	int fd = open_bare(b);

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&name, &bytes) ||
	    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &b->room, &size))
		return weft_stream_fail("bench", "a socket", strerror(errno));
	if (b->room < ROOM_LEAST) {
		close(fd);
		return weft_stream_fail(
			"bench", "a socket",
			"it holds too little to be timed: --socket, and net.core.rmem_max");
	}
	b->port = ntohs(name.sin_port);
	snprintf(b->place, sizeof(b->place), "udp:127.0.0.1:%u", b->port);
	close(fd);
	return 0;
}

static int fill_socket(const struct bench *b, uint32_t bytes, uint32_t segments, uint32_t count)
{
	static const uint8_t datagram[2048];
	struct weft_sender *sender = NULL;
	bool ok;

	if (weft_sender_open(b->place, segments, &sender))
		return -EIO;
	for (uint32_t i = 0; i < count; i++)
		weft_sender_put(sender, datagram, bytes);
	weft_sender_flush(sender);
	ok = weft_sender_counters(sender)->datagrams == count;
	weft_sender_close(sender);
	return ok ? 0 : -EIO;
}

/* ---- A round ---- */

/* From when the first part had been received until the last had, and how many came between. */
struct drain {
	uint64_t first_ns, last_ns;
	uint64_t came, datagrams;
};

/* Where the next message of the bare loop goes: into memory of its own; or, wide, round memory as large as the list's. */
static uint8_t *bare_place(const struct bench *b, enum way way, uint32_t message, uint32_t bytes,
			   uint32_t segments)
{
	static uint32_t next;
	uint32_t each = bytes * segments, places = BUFFERS * (segments > 1 ? 1 : MESSAGES);

	if (way == BARE)
		return b->messages + (size_t)message * MESSAGE_STRIDE;
	next = (next + 1) % places;
	return b->memory + (size_t)next * each;
}

static uint32_t receive_bare(const struct bench *b, enum way way, int fd, uint32_t bytes,
			     uint32_t segments)
{
	uint32_t messages = segments > 1 ? MESSAGES_JOINED : MESSAGES;
	static uint8_t control[MESSAGES][CONTROL_BYTES];
	struct mmsghdr head[MESSAGES];
	struct iovec piece[MESSAGES];
	uint32_t datagrams = 0;
	int came;

	for (uint32_t i = 0; i < messages; i++) {
		piece[i] = (struct iovec){bare_place(b, way, i, bytes, segments), MESSAGE_BYTES};
		head[i].msg_hdr = (struct msghdr){.msg_iov = &piece[i],
						  .msg_iovlen = 1,
						  .msg_control = control[i],
						  .msg_controllen = CONTROL_BYTES};
	}
	came = recvmmsg(fd, head, messages, 0, NULL);
	for (int i = 0; i < came; i++)
		datagrams += head[i].msg_len / bytes;
	return datagrams;
}

/* What the thread of the bare loop is told. */
struct bare {
	const struct bench *bench;
	struct drain *drain;
	enum way way;
	int fd;
	uint32_t bytes, segments, count;
};

/* Some came, all of which were there at that time: those of the first part are not counted. */
static void count_drained(struct drain *d, uint32_t datagrams, uint64_t now_ns, uint32_t part)
{
	d->came += datagrams;
	if (d->first_ns)
		d->datagrams += datagrams;
	else if (d->came >= part)
		d->first_ns = now_ns;
	d->last_ns = now_ns;
}

/* In a thread that begins when all has come, as a stream's does: what has been sent lies in the caches of the processor that sent. */
static void *run_bare(void *context)
{
	const struct bare *bare = context;
	uint32_t some = 1;

	while (bare->drain->came < bare->count && some) {
		some = receive_bare(bare->bench, bare->way, bare->fd, bare->bytes, bare->segments);
		count_drained(bare->drain, some, weft_clock_now_ns(), bare->count / PARTS);
	}
	return NULL;
}

static int drain_bare(const struct bench *b, enum way way, uint32_t bytes, uint32_t segments,
		      uint32_t count, struct drain *d)
{
	struct bare bare = {b, d, way, open_bare(b), bytes, segments, count};
	int err = bare.fd < 0 ? -errno : 0;
	pthread_t thread;

	if (!err)
		err = fill_socket(b, bytes, segments, count);
	if (!err)
		err = -pthread_create(&thread, NULL, run_bare, &bare);
	if (!err)
		pthread_join(thread, NULL);
	if (bare.fd >= 0)
		close(bare.fd);
	return err;
}

/* Takes all that is told of, and gives nothing back. */
static void take_buffers(struct weft_stream *stream, uint32_t count, struct drain *d)
{
	uint64_t end_ns = weft_clock_now_ns() + SILENCE_NS;
	struct weft_stream_event event;

	while (d->came < count && weft_clock_now_ns() < end_ns)
		if (!weft_stream_wait(stream, &event, 0))
			count_drained(d, event.datagrams, event.last_ns, count / PARTS);
		else
			usleep(LOOK_US);
}

static int drain_stream(const struct bench *b, enum way way, uint32_t bytes, uint32_t segments,
			uint32_t count, struct drain *d)
{
	const struct weft_stream_source source = {
		.from = b->place, .id = -1, .socket_bytes = b->socket_bytes};
	struct weft_stream_list list = {.buffers = BUFFERS,
					.bytes = BUFFER_BYTES,
					.datagrams = count / BUFFERS,
					.memory = b->memory};
	struct weft_stream *stream;
	int err;

	if (way != PACKED) {
		list.slots = list.datagrams;
		list.slot_bytes = bytes + (way == STAMPS ? WEFT_STREAM_STAMPS_BYTES : 0);
	}
	if (way == STAMPS)
		list.flags = WEFT_STREAM_STAMPS;
	err = weft_stream_open(0, &stream);
	if (err)
		return err;
	err = weft_stream_register(stream, &list, NULL, NULL);
	if (!err)
		err = weft_stream_bind(stream, &source, NULL);
	if (!err)
		err = fill_socket(b, bytes, segments, count);
	if (!err)
		err = weft_stream_start(stream);
	if (!err)
		take_buffers(stream, count, d);
	weft_stream_close(stream);
	return err;
}

/* Datagrams a second; 0: the round is of no use. */
static int run_round(const struct bench *b, enum way way, uint32_t bytes, uint32_t segments,
		     uint64_t *rate)
{
	uint32_t count = BUFFERS * (segments > 1 ? segments : MESSAGES);
	struct drain d = {0};
	int err = way < PACKED ? drain_bare(b, way, bytes, segments, count, &d)
			       : drain_stream(b, way, bytes, segments, count, &d);

	if (!err)
		*rate = d.came == count && d.last_ns > d.first_ns
				? d.datagrams * 1000000000ull / (d.last_ns - d.first_ns)
				: 0;
	return err;
}

/* ---- Rounds ---- */

static bool report_way(struct weft_report *r, enum way way, uint32_t bytes, uint32_t segments,
		       uint64_t rate, uint64_t beside)
{
	uint64_t percent = beside ? (100 * rate + beside / 2) / beside : 0;
	bool held = percent >= ways[way].bound_percent;

	weft_report_row(r);
	weft_report_number(r, bytes);
	weft_report_number(r, segments);
	weft_report_text(r, ways[way].name);
	weft_report_number(r, rate);
	weft_report_number(r, rate * bytes / 1000000);
	weft_report_text(r, ways[ways[way].beside].name);
	weft_report_number(r, percent);
	weft_report_number(r, ways[way].bound_percent);
	weft_report_flag(r, held);
	return held;
}

/* The first round warms caches and memory, and does not count. */
static int measure_flow(const struct bench *b, struct weft_report *r, uint32_t bytes,
			uint32_t segments, bool *held)
{
	uint64_t most[WAYS] = {0}, end_ns = weft_clock_now_ns() + FLOW_NS;
	uint32_t lacking = WAYS;

	for (uint32_t round = 0; lacking || round <= b->rounds; round++) {
		if (weft_clock_now_ns() > (lacking ? end_ns + FLOW_NS : end_ns))
			break;
		lacking = 0;
		for (enum way way = 0; way < WAYS; way++) {
			uint64_t rate = 0;
			int err = run_round(b, way, bytes, segments, &rate);

			if (err)
				return weft_stream_fail("bench", ways[way].name, strerror(-err));
			/* the fastest: in most of them others have had the processor, or its caches */
			if (round && rate > most[way])
				most[way] = rate;
			lacking += !most[way];
		}
	}
	if (lacking)
		return weft_stream_fail("bench", "a list", "in no round did all come in time");
	for (enum way way = 0; way < WAYS; way++)
		*held &= report_way(r, way, bytes, segments, most[way], most[ways[way].beside]);
	return 0;
}

static int measure_flows(const struct bench *b)
{
	static const struct weft_column columns[] = {
		{"bytes", WEFT_COLUMN_NUMBER},	 {"segments", WEFT_COLUMN_NUMBER},
		{"into", WEFT_COLUMN_TEXT},	 {"datagrams_s", WEFT_COLUMN_NUMBER},
		{"mb_s", WEFT_COLUMN_NUMBER},	 {"beside", WEFT_COLUMN_TEXT},
		{"percent", WEFT_COLUMN_NUMBER}, {"bound_percent", WEFT_COLUMN_NUMBER},
		{"held", WEFT_COLUMN_FLAG},	 {NULL},
	};
	struct weft_report r;
	bool held = true;
	int status = 0;

	weft_report_begin(&r, b->json);
	weft_report_section(&r, "reception", false, columns);
	for (size_t i = 0; i < sizeof(flows) / sizeof(*flows) && !status; i++)
		status = measure_flow(b, &r, flows[i].bytes, flows[i].segments, &held);
	weft_report_end(&r);
	return status || !held;
}

static uint8_t *map_touched(size_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int weft_stream_bench(int argc, char **argv)
{
	struct bench b = {.rounds = 101, .socket_bytes = SOCKET_BYTES};
	int status = weft_stream_options(argc, argv, words, take_bench_word, &b);

	if (status)
		return status;
	b.memory = map_touched((size_t)BUFFERS * BUFFER_BYTES + MESSAGE_BYTES);
	b.messages = map_touched((size_t)MESSAGES * MESSAGE_STRIDE);
	if (!b.memory || !b.messages)
		return weft_stream_fail("bench", "buffers", strerror(ENOMEM));
	status = choose_port(&b);
	if (status)
		return status;
	return measure_flows(&b);
}
