/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Live streams by their interface: one suite for all links, and each error. A link has a row of functions here, which
 * name the source for the stream, and send to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "live.h"
#include "torus_sender.h"

/* Payloads lie behind each other, every byte; each buffer has its event and its word, also one whose time is up. */
static void packed(struct way *way)
{
	const struct weft_stream_list list = {.buffers = 8, .bytes = 65536, .timeout_ns = 50000000};
	uint32_t number = 0, checked = 0, generation[8] = {0};
	struct weft_stream_event event;
	uint8_t data[1500];

	begin(way, &list);
	while (checked < 3000) {
		for (; number < 3000 && number < checked + 300; number++)
			send_number(way, number);
		next_event(&event);
		assert_int_equal(event.generation, ++generation[event.buffer]);
		assert_int_equal(
			((const _Atomic uint64_t *)weft_stream_words(stream, 0))[event.buffer],
			(uint64_t)event.generation << 32 | event.bytes);
		assert_int_equal(event.first_sequence, checked);
		assert_int_equal(event.last_sequence, checked + event.datagrams - 1);
		assert_int_equal(event.missing, 0);
		for (uint32_t at = 0, i = 0; i < event.datagrams; i++, checked++) {
			uint32_t bytes = make(checked, data);

			assert_memory_equal(memory + (size_t)event.buffer * list.bytes + at, data,
					    bytes);
			at += bytes;
			assert_true(at <= event.bytes);
		}
		assert_true(event.why == WEFT_STREAM_FULL || event.why == WEFT_STREAM_TIME);
		give_back(&event);
	}
	assert_int_equal(counters_when(3000).copied, counters_when(3000).bytes);
	end(way);
}

/* Datagrams have places of their own, where the kernel puts them; one that comes twice or late takes none. */
static void slots(struct way *way, uint32_t flags)
{
	const struct weft_stream_list list = {
		.buffers = 4, .bytes = 64 * 1536, .slots = 64, .slot_bytes = 1536, .flags = flags};
	uint32_t checked = 0, number = 0;
	struct weft_stream_event event;
	uint8_t data[1500];

	begin(way, &list);
	while (checked < 1024) {
		for (; number < checked + 128; number += 2) {
			send_number(way, number + 1);
			send_number(way, number);
			send_number(way, number + 1);
		}
		next_event(&event);
		assert_int_equal(event.datagrams, 64);
		for (uint32_t i = 0; i < 64; i++, checked++) {
			const struct weft_stream_datagram *d =
				&weft_stream_datagrams(stream, 0, event.buffer)[i];
			uint32_t want = flags & WEFT_STREAM_ORDERED ? checked : checked ^ 1;
			uint32_t bytes = make(want, data);

			assert_int_equal(d->generation, event.generation);
			assert_int_equal(d->number, want);
			assert_int_equal(d->bytes, bytes);
			assert_memory_equal(memory + (size_t)event.buffer * list.bytes + d->offset,
					    data, bytes);
		}
		give_back(&event);
	}
	assert_true(counters_when(3 * 1024 / 2).duplicate >= 512);
	if (way == &udp && !flags)
		assert_int_equal(counters_when(0).copied, 0);
	end(way);
}

/* Behind its datagram each place has the stamps, none less than the one before; a datagram that would reach into them is bad. */
static void stamped(struct way *way)
{
	const struct weft_stream_list list = {.buffers = 4,
					      .bytes = 64 * 1400,
					      .slots = 64,
					      .slot_bytes = 1400,
					      .flags = WEFT_STREAM_STAMPS};
	uint64_t before_ns = 0, longer = 0, bytes;
	struct weft_stream_event event;
	uint8_t data[1500];

	begin(way, &list);
	for (uint32_t number = 0, checked = 0, want = 0; checked < 512;) {
		for (; number < want + 128; number++)
			send_number(way, number);
		next_event(&event);
		for (uint32_t i = 0; i < event.datagrams; i++, checked++, want++) {
			const struct weft_stream_datagram *d =
				&weft_stream_datagrams(stream, 0, event.buffer)[i];
			const uint8_t *at = memory + (size_t)event.buffer * list.bytes + d->offset;
			struct weft_stream_stamps t;

			for (; (bytes = make(want, data)) > 1400 - sizeof(t); want++)
				longer++;
			assert_int_equal(d->number, want);
			assert_memory_equal(at, data, bytes);
			memcpy(&t, at + list.slot_bytes - sizeof(t), sizeof(t));
			assert_true(before_ns <= t.taken_ns && t.taken_ns <= t.resolved_ns);
			assert_true(t.resolved_ns <= t.placed_ns && t.placed_ns <= t.signalled_ns);
			before_ns = t.taken_ns;
		}
		assert_true(before_ns <= event.last_ns);
		give_back(&event);
	}
	assert_true(longer > 0);
	end(way);
}

/* While no buffer is free datagrams are dropped, and counted; afterwards they go on. */
static void no_buffer(struct way *way)
{
	const struct weft_stream_list list = {.buffers = 2, .bytes = 65536, .datagrams = 10};
	struct weft_stream_event event;

	begin(way, &list);
	for (uint32_t i = 0; i < 50; i++)
		send_number(way, i);
	assert_int_equal(counters_when(50).no_buffer, 30);
	next_event(&event);
	give_back(&event);
	next_event(&event);
	for (uint32_t i = 50; i < 60; i++)
		send_number(way, i);
	assert_int_equal(counters_when(60).no_buffer, 30);
	give_back(&event);
	next_event(&event);
	assert_int_equal(event.first_sequence, 50);
	assert_int_equal(event.why, WEFT_STREAM_DATAGRAMS);
	end(way);
}

/* The descriptor, once for each arming; flushing, stopping. */
static void told(struct way *way)
{
	const struct weft_stream_list list = {.buffers = 4, .bytes = 65536, .datagrams = 1};
	struct weft_stream_event event;
	struct pollfd fd;

	begin(way, &list);
	fd = (struct pollfd){.fd = weft_stream_fd(stream), .events = POLLIN};
	assert_int_equal(weft_stream_wait(stream, &event, 0), -EAGAIN);
	assert_int_equal(weft_stream_arm(stream), 0);
	assert_int_equal(poll(&fd, 1, 20), 0);
	send_number(way, 0);
	assert_int_equal(poll(&fd, 1, SOON_MS), 1);
	send_number(way, 1);
	counters_when(2);
	assert_int_equal(weft_stream_arm(stream), -EAGAIN);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(weft_stream_give_back(stream, 0, 0, 1), -EBUSY);
	next_event(&event);
	give_back(&event);
	assert_int_equal(weft_stream_give_back(stream, 0, event.buffer, event.generation), -ESTALE);
	next_event(&event);
	give_back(&event);
	assert_int_equal(weft_stream_arm(stream), 0);
	weft_stream_stop(stream);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_int_equal(weft_stream_wait(stream, &event, SOON_MS), -ESHUTDOWN);
	end(way);
}

static void flushed(struct way *way)
{
	const struct weft_stream_list list = {.buffers = 4, .bytes = 65536};
	struct weft_stream_event event;

	begin(way, &list);
	send_number(way, 0);
	counters_when(1);
	assert_return_code(weft_stream_flush(stream, 0), 0);
	next_event(&event);
	assert_int_equal(event.why, WEFT_STREAM_FLUSHED);
	send_number(way, 1);
	send_number(way, 2);
	counters_when(3);
	weft_stream_stop(stream);
	next_event(&event);
	assert_int_equal(event.datagrams, 2);
	assert_int_equal(weft_stream_wait(stream, &event, -1), -ESHUTDOWN);
	end(way);
}

/* A list that is told of by words alone: a word with a new generation has the length beside it. */
static void words(struct way *way)
{
	const struct weft_stream_list list = {
		.buffers = 4, .bytes = 65536, .datagrams = 1, .flags = WEFT_STREAM_WORDS};
	struct weft_stream_event event;
	uint8_t data[1500];

	begin(way, &list);
	for (uint32_t i = 0; i < 1000; i++) {
		const _Atomic uint64_t *word =
			(const _Atomic uint64_t *)weft_stream_words(stream, 0) + i % 4;
		uint32_t bytes = make(i, data);
		uint64_t want = (uint64_t)(i / 4 + 1) << 32 | bytes;

		send_number(way, i);
		for (int k = 0; *word != want && k < SOON_MS; k++)
			usleep(50);
		assert_int_equal(*word, want);
		assert_memory_equal(memory + (size_t)(i % 4) * 65536, data, bytes);
		assert_return_code(weft_stream_give_back(stream, 0, i % 4, i / 4 + 1), 0);
	}
	assert_int_equal(weft_stream_wait(stream, &event, 0), -EAGAIN);
	end(way);
}

/* Senders and a sleeper in processes of their own: every event once, in order. */
static _Atomic uint64_t *slept; /* events that the sleeper has had */

static void sleep_elsewhere(uint64_t count)
{
	struct weft_stream_event event;

	alarm(120 + (unsigned int)(count / 10000));
	for (uint64_t i = 0; i < count; i++) {
		if (weft_stream_wait(stream, &event, SOON_MS) || event.first_sequence != i ||
		    event.datagrams != 1 ||
		    weft_stream_give_back(stream, 0, event.buffer, event.generation))
			_exit(1);
		*slept = i + 1;
	}
	_exit(0);
}

static void from_elsewhere(struct way *way, uint32_t count, uint32_t ahead)
{
	const struct weft_stream_list list = {.buffers = 1024, .bytes = 1536, .datagrams = 1};
	struct weft_stream_counters c;
	int status;
	pid_t sleeper;

	begin(way, &list);
	slept = mmap(NULL, sizeof(*slept), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(slept, MAP_FAILED);
	sleeper = fork();
	if (!sleeper)
		sleep_elsewhere(count);
	for (uint32_t i = 0; i < count; i++) {
		send_number(way, i);
		for (int k = 0; *slept + ahead < i && k < SOON_MS * 10; k++) {
			usleep(100);
			assert_int_equal(waitpid(sleeper, &status, WNOHANG), 0);
		}
	}
	c = counters_when(count);
	assert_int_equal(waitpid(sleeper, &status, 0), sleeper);
	assert_int_equal(status, 0);
	assert_int_equal(c.placed, count);
	munmap((void *)slept, sizeof(*slept));
	end(way);
}

#define SUITE(way, count, ahead)                                                                   \
	static void way##_packed(void **state)                                                     \
	{                                                                                          \
		packed(&way);                                                                      \
	}                                                                                          \
	static void way##_slots(void **state)                                                      \
	{                                                                                          \
		slots(&way, 0);                                                                    \
	}                                                                                          \
	static void way##_ordered(void **state)                                                    \
	{                                                                                          \
		slots(&way, WEFT_STREAM_ORDERED);                                                  \
	}                                                                                          \
	static void way##_no_buffer(void **state)                                                  \
	{                                                                                          \
		no_buffer(&way);                                                                   \
	}                                                                                          \
	static void way##_told(void **state)                                                       \
	{                                                                                          \
		told(&way);                                                                        \
	}                                                                                          \
	static void way##_flushed(void **state)                                                    \
	{                                                                                          \
		flushed(&way);                                                                     \
	}                                                                                          \
	static void way##_words(void **state)                                                      \
	{                                                                                          \
		words(&way);                                                                       \
	}                                                                                          \
	static void way##_stamped(void **state)                                                    \
	{                                                                                          \
		stamped(&way);                                                                     \
	}                                                                                          \
	static void way##_elsewhere(void **state)                                                  \
	{                                                                                          \
		from_elsewhere(&way, count, ahead);                                                \
	}
#define TESTS(way)                                                                                 \
	cmocka_unit_test(way##_packed), cmocka_unit_test(way##_slots),                             \
		cmocka_unit_test(way##_ordered), cmocka_unit_test(way##_no_buffer),                \
		cmocka_unit_test(way##_told), cmocka_unit_test(way##_flushed),                     \
		cmocka_unit_test(way##_words), cmocka_unit_test(way##_elsewhere),                  \
		cmocka_unit_test(way##_stamped)

SUITE(udp, 20000, 256)
SUITE(ring, 20000, 256)
SUITE(torus, 2000, 256)
SUITE(packet, 20000, 64) /* less than it has blocks: none is lost */

/* Of a ring alone: a writer that writes what makes no sense ends the link, and nothing else. */
static void ring_damaged(void **state)
{
	static const uint32_t lengths[] = {65537, WEFT_RING_SKIP, 4096};
	const struct weft_stream_list list = {.buffers = 4, .bytes = 65536};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct weft_stream_counters c = {0};
		struct weft_stream_ring_file *shared;
		int fd;

		begin(&ring, &list);
		fd = open(strchr(ring.from, ':') + 1, O_RDWR);
		shared = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(shared, MAP_FAILED);
		close(fd);
		memcpy(shared->bytes, &lengths[i], 4);
		shared->head = 8;
		weft_stream_flush(stream, 0); /* makes the thread look at the ring */
		for (int k = 0; !c.failed && k < SOON_MS; k++) {
			usleep(1000);
			weft_stream_counters(stream, WEFT_STREAM_ALL, &c);
		}
		assert_int_equal(c.failed, EPROTO);
		munmap(shared, 65536);
		end(&ring);
	}
}

static void nothing(int signal)
{
}

/* A signal ends a wait. */
static void interrupted(void **state)
{
	const struct weft_stream_list list = {.buffers = 4, .bytes = 65536};
	const struct sigaction action = {.sa_handler = nothing};
	const struct itimerval each = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
	struct weft_stream_event event;

	begin(&ring, &list);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
	assert_int_equal(weft_stream_wait(stream, &event, SOON_MS), -EINTR);
	setitimer(ITIMER_REAL, &never, NULL);
	end(&ring);
}

/* ---- What is refused ---- */

static void refused(void **state)
{
	struct weft_stream_list list = {.buffers = 2, .bytes = 1000};
	struct weft_stream_source source = {.from = udp.from};
	struct weft_stream_counters c;
	struct weft_stream_event event;
	struct weft_stream *other;

	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_int_equal(weft_stream_start(stream), -EINVAL);
	assert_string_equal(weft_stream_wrong(stream), "there is no source, or no list");
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EINVAL);
	list.bytes = 0;
	assert_int_equal(weft_stream_register(stream, &list, NULL, NULL), -EINVAL);
	list = (struct weft_stream_list){.buffers = 2, .bytes = 1000, .flags = 16};
	assert_int_equal(weft_stream_register(stream, &list, NULL, NULL), -EINVAL);
	list.flags = WEFT_STREAM_STAMPS;
	assert_int_equal(weft_stream_register(stream, &list, NULL, NULL), -EINVAL);
	list.slots = 1;
	list.slot_bytes = WEFT_STREAM_STAMPS_BYTES;
	assert_int_equal(weft_stream_register(stream, &list, NULL, NULL), -EINVAL);
	list.slots = list.flags = 0;
	for (int i = 0; i < 64; i++)
		assert_return_code(weft_stream_register(stream, &list, NULL, NULL), 0);
	assert_int_equal(weft_stream_register(stream, &list, NULL, NULL), -ENOSPC);
	assert_return_code(weft_stream_open(0, &other), 0);
	list = (struct weft_stream_list){.buffers = 1 << 20, .bytes = 1 << 30};
	assert_int_equal(weft_stream_register(other, &list, NULL, NULL), -ENOMEM);
	list = (struct weft_stream_list){.buffers = 2, .bytes = 1000};
	assert_return_code(weft_stream_register(other, &list, NULL, NULL), 0);
	source.from = "udp:127.0.0.1:0";
	for (int i = 0; i < 64; i++)
		assert_return_code(weft_stream_bind(other, &source, NULL), 0);
	assert_int_equal(weft_stream_bind(other, &source, NULL), -ENOSPC);
	weft_stream_close(other);
	source.from = NULL;
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EINVAL);
	source.from = "udp:127.0.0.1";
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EINVAL);
	assert_non_null(strstr(weft_stream_wrong(stream), "ADDRESS:PORT"));
	source.from = "ring:";
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EINVAL);
	source.from = "torus:64";
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EINVAL);
	source.from = "torus:1,0,0";
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EINVAL);
	source.from = "carrier:pigeon";
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EPROTONOSUPPORT);
	source.from = "udp:192.0.2.1:1";
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EADDRNOTAVAIL);
	source.from = "ring:/nowhere/at/all";
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -ENOENT);
	source.from = udp.from;
	assert_int_equal(weft_stream_fd(stream), -1);
	assert_null(weft_stream_words(stream, 0));
	assert_int_equal(weft_stream_arm(stream), -EINVAL);
	assert_int_equal(weft_stream_wait(stream, &event, 0), -EINVAL);
	assert_int_equal(weft_stream_flush(stream, 0), -EINVAL);
	assert_int_equal(weft_stream_give_back(stream, 0, 0, 1), -EINVAL);
	assert_int_equal(weft_stream_counters(stream, 0, &c), -EINVAL);
	weft_stream_stop(stream);
	source.protocol = WEFT_STREAM_APE + 1;
	assert_return_code(weft_stream_bind(stream, &source, NULL), 0);
	assert_int_equal(weft_stream_start(stream), -EINVAL);
	assert_non_null(strstr(weft_stream_wrong(stream), "no such kind"));
	assert_return_code(weft_stream_open(0, &other), 0);
	assert_return_code(weft_stream_register(other, &list, NULL, NULL), 0);
	source.protocol = WEFT_STREAM_RAW;
	assert_int_equal(weft_stream_bind(other, &source, NULL), -EADDRINUSE);
	weft_stream_close(other);
	weft_stream_close(stream);
}

static void refused_later(void **state)
{
	const struct weft_stream_list list = {.buffers = 2, .bytes = 1000};
	const struct weft_stream_source source = {.from = "udp:127.0.0.1:0"};
	struct weft_stream_counters c;
	struct weft_ring_writer *writer;

	begin(&ring, &list);
	assert_int_equal(weft_stream_start(stream), -EBUSY);
	assert_int_equal(weft_stream_register(stream, &list, NULL, NULL), -EBUSY);
	assert_int_equal(weft_stream_bind(stream, &source, NULL), -EBUSY);
	assert_int_equal(weft_stream_flush(stream, 1), -EINVAL);
	assert_null(weft_stream_words(stream, 1));
	assert_null(weft_stream_datagrams(stream, 0, 0));
	assert_int_equal(weft_stream_give_back(stream, 0, 2, 1), -EINVAL);
	assert_int_equal(weft_stream_give_back(stream, 0, 1, 1), -ESTALE);
	assert_int_equal(weft_stream_counters(stream, 1, &c), -EINVAL);
	assert_int_equal(weft_ring_writer_open(strchr(ring.from, ':') + 1, &writer), -EBUSY);
	end(&ring);
	assert_int_equal(weft_ring_writer_open(strchr(ring.from, ':') + 1, &writer), -ENOENT);
}

/* Until its reader has gone, by itself or as its file was another's, there is no room yet; then there will be none. */
static void ring_without_reader(void **state)
{
	const struct weft_stream_source source = {.from = ring.from};
	const struct weft_stream_list list = {.buffers = 2, .bytes = 2000};
	const char *path = strchr(ring.from, ':') + 1;
	static const uint8_t data[2000];
	struct weft_ring_writer *writer;
	int answer;

	for (int renewed = 0; renewed < 2; renewed++) {
		assert_return_code(weft_stream_open(0, &stream), 0);
		assert_return_code(weft_stream_register(stream, &list, NULL, NULL), 0);
		assert_return_code(weft_stream_bind(stream, &source, NULL), 0);
		assert_return_code(weft_ring_writer_open(path, &writer), 0);
		while (!(answer = weft_ring_writer_put(writer, data, sizeof(data))))
			;
		assert_int_equal(answer, -EAGAIN);
		if (!renewed)
			weft_stream_close(stream);
		else
			assert_return_code(unlink(path), 0);
		assert_int_equal(weft_ring_writer_put(writer, data, sizeof(data)), -EPIPE);
		weft_ring_writer_close(writer);
		if (renewed)
			weft_stream_close(stream);
	}
}

/* What stands where a ring is to be: only another's that has gone is replaced. */
static void ring_over_a_file(void **state)
{
	const struct weft_stream_source source = {.from = ring.from};
	const struct weft_stream_list list = {.buffers = 2, .bytes = 2000};
	const off_t bytes[] = {9, sizeof(struct weft_stream_ring_file) + WEFT_RING_BYTES};
	const char *path = strchr(ring.from, ':') + 1;
	struct stat stat_now;

	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_return_code(weft_stream_register(stream, &list, NULL, NULL), 0);
	for (int i = 0; i < 2; i++) {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);

		assert_return_code(ftruncate(fd, bytes[i]), errno);
		assert_int_equal(weft_stream_bind(stream, &source, NULL), -EEXIST);
		assert_return_code(stat(path, &stat_now), errno);
		assert_int_equal(stat_now.st_size, bytes[i]);
		if (i) {
			const uint64_t magic = WEFT_RING_FILE_MAGIC;

			assert_int_equal(pwrite(fd, &magic, sizeof(magic), 0), sizeof(magic));
			assert_return_code(weft_stream_bind(stream, &source, NULL), 0);
		} else {
			assert_return_code(unlink(path), errno);
		}
		close(fd);
	}
	weft_stream_close(stream);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- By arguments ---- */

static uint32_t many;

static void ring_many(void **state)
{
	from_elsewhere(&ring, many, 512);
}

/* How late buffers are told of whose time is up, beside a bare timerfd behind epoll. */
#define ROUNDS	   101
#define TIMEOUT_NS 5000000u

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int64_t late_event(uint32_t number)
{
	struct weft_stream_event event;
	int64_t late_ns;

	send_number(&udp, number);
	next_event(&event);
	late_ns = (int64_t)(now() - event.first_ns - TIMEOUT_NS);
	assert_int_equal(event.why, WEFT_STREAM_TIME);
	assert_int_equal(event.first_sequence, number);
	give_back(&event);
	return late_ns;
}

static int64_t late_timer(int poller, int timer)
{
	const struct itimerspec once = {.it_value = {.tv_nsec = TIMEOUT_NS}};
	struct epoll_event event;
	uint64_t begun_ns = now(), count;

	assert_return_code(timerfd_settime(timer, 0, &once, NULL), errno);
	assert_int_equal(epoll_wait(poller, &event, 1, SOON_MS), 1);
	assert_int_equal(read(timer, &count, sizeof(count)), sizeof(count));
	return (int64_t)(now() - begun_ns - TIMEOUT_NS);
}

static int compare(const void *a, const void *b)
{
	const int64_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

static void in_time(void **state)
{
	const struct weft_stream_list list = {
		.buffers = 4, .bytes = 65536, .timeout_ns = TIMEOUT_NS};
	int64_t ours[ROUNDS], bare[ROUNDS];
	int poller = epoll_create1(EPOLL_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	assert_return_code(
		epoll_ctl(poller, EPOLL_CTL_ADD, timer, &(struct epoll_event){.events = EPOLLIN}),
		errno);
	begin(&udp, &list);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		ours[i] = late_event(i);
		bare[i] = late_timer(poller, timer);
		assert_true(ours[i] >= 0);
	}
	end(&udp);
	close(timer);
	close(poller);
	qsort(ours, ROUNDS, sizeof(*ours), compare);
	qsort(bare, ROUNDS, sizeof(*bare), compare);
	print_message("late by %lld ns, a timerfd by %lld\n", (long long)ours[ROUNDS / 2],
		      (long long)bare[ROUNDS / 2]);
	assert_true(ours[ROUNDS / 2] <= bare[ROUNDS / 2] + 100000);
}

/* ---- Packets of the torus, with header and footer ---- */

#define PACKET_BYTES 1000u /* of payload */

static uint32_t make_packet(uint32_t number, uint8_t data[])
{
	const struct weft_ape_header h = {.type = WEFT_APE_PUT, .bytes = PACKET_BYTES};
	struct weft_ape_footer f = {.seq = number, .from = {{1}}};
	unsigned int words = weft_ape_payload_words(PACKET_BYTES);
	struct weft_ape_word header, footer;
	uint8_t *payload = data + WEFT_APE_WORD_BYTES;

	assert_true(weft_ape_header_build(&h, &header));
	memset(payload, 0, (size_t)words * WEFT_APE_WORD_BYTES);
	for (uint32_t i = 0; i < PACKET_BYTES; i++)
		payload[i] = (uint8_t)(number * 7 + i);
	footer = weft_ape_footer_build(&f);
	f.crc = weft_ape_packet_crc(weft_crc32c, header, payload, words, footer);
	footer = weft_ape_footer_build(&f);
	weft_ape_word_store(header, data);
	weft_ape_word_store(footer, payload + (size_t)words * WEFT_APE_WORD_BYTES);
	return (words + 2) * WEFT_APE_WORD_BYTES;
}

/* Every tenth packet comes damaged: that is bad, and all others are placed, every byte of them. */
static void torus_packets(void **state)
{
	const struct weft_stream_list list = {.buffers = 8, .bytes = 65536};
	const struct weft_stream_source source = {
		.from = torus.from, .protocol = WEFT_STREAM_APE, .id = 1};
	uint8_t data[2048];
	struct weft_stream_event event;
	struct weft_stream_counters c;
	uint32_t number = 0;
	void *at;

	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_return_code(weft_stream_register(stream, &list, NULL, &at), 0);
	assert_return_code(weft_stream_bind(stream, &source, NULL), 0);
	assert_return_code(weft_stream_start(stream), 0);
	for (uint32_t i = 0; i < 400; i++) {
		uint32_t bytes = make_packet(i, data);

		data[100] ^= i % 10 == 5;
		while (!torus_send(&torus, data, bytes))
			usleep(100);
	}
	c = counters_when(400);
	assert_int_equal(c.bad, 40);
	assert_int_equal(c.placed, 360);
	weft_stream_flush(stream, 0);
	while (number < 400) {
		next_event(&event);
		for (uint32_t i = 0, offset = 0; i < event.datagrams; i++, number++) {
			uint32_t bytes;

			number += number % 10 == 5;
			bytes = make_packet(number, data);
			assert_memory_equal((uint8_t *)at + (size_t)event.buffer * list.bytes +
						    offset,
					    data, bytes);
			offset += bytes;
		}
		give_back(&event);
	}
	weft_stream_close(stream);
}

/* With "torus" and two nodes: those of that link, from the second to the first. */
static int run_torus(char **nodes)
{
	const struct CMUnitTest tests[] = {TESTS(torus), cmocka_unit_test(torus_packets)};
	pid_t sender = begin_sender(nodes[1], &torus.fd);
	int failed;

	snprintf(torus.from, sizeof(torus.from), "torus:%u@%s", TORUS_PROCESS, nodes[0]);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	close(torus.fd);
	waitpid(sender, NULL, 0);
	return failed;
}

/* With the argument "in-time" that test alone, with "packet" those of that link, with a number so many events, without one all
 * other tests. */
int main(int argc, char **argv)
{
	const struct CMUnitTest timed[] = {cmocka_unit_test(in_time)};
	const struct CMUnitTest long_one[] = {cmocka_unit_test(ring_many)};
	const struct CMUnitTest packets[] = {TESTS(packet)};
	const struct CMUnitTest tests[] = {
		TESTS(udp),
		TESTS(ring),
		cmocka_unit_test(ring_damaged),
		cmocka_unit_test(ring_without_reader),
		cmocka_unit_test(ring_over_a_file),
		cmocka_unit_test(interrupted),
		cmocka_unit_test(refused),
		cmocka_unit_test(refused_later),
	};

	snprintf(ring.from, sizeof(ring.from), "ring:/dev/shm/weft-test-stream-%d", getpid());
	udp_name(&udp);
	packet_name(&packet);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (argc > 1 && !strcmp(argv[1], "in-time"))
		return cmocka_run_group_tests(timed, NULL, NULL);
	if (argc > 3 && !strcmp(argv[1], "torus"))
		return run_torus(argv + 2);
	if (argc > 1 && !strcmp(argv[1], "packet"))
		return may_open_packets() ? cmocka_run_group_tests(packets, NULL, NULL) : 77;
	if (argc > 1) {
		many = (uint32_t)strtoul(argv[1], NULL, 10);
		return cmocka_run_group_tests(long_one, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
