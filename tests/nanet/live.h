/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A live stream and the links that tests feed it by: each has a row of functions, which name the source for the stream, and
 * send to it. Behind the headers that cmocka wants.
 */
#ifndef WEFT_TESTS_NANET_LIVE_H
#define WEFT_TESTS_NANET_LIVE_H

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/stream_ring.h"
#include "weft/stream.h"

#define SOON_MS 20000

struct way {
	char from[128];
	void (*open)(struct way *way);
	bool (*send)(struct way *way, const uint8_t *data, uint32_t bytes);
	void (*close)(struct way *way);
	int fd;
	struct weft_ring_writer *writer;
};

/* ---- UDP ---- */

static inline void udp_name(struct way *way)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof(to);

	way->fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_return_code(bind(way->fd, (struct sockaddr *)&to, sizeof(to)), errno);
	assert_return_code(getsockname(way->fd, (struct sockaddr *)&to, &bytes), errno);
	close(way->fd);
	snprintf(way->from, sizeof(way->from), "udp:127.0.0.1:%u", ntohs(to.sin_port));
}

static inline void udp_open(struct way *way)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	to.sin_port = htons((uint16_t)atoi(strrchr(way->from, ':') + 1));
	way->fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_return_code(connect(way->fd, (struct sockaddr *)&to, sizeof(to)), errno);
}

static inline bool udp_send(struct way *way, const uint8_t *data, uint32_t bytes)
{
	return send(way->fd, data, bytes, 0) == (ssize_t)bytes;
}

static inline void udp_close(struct way *way)
{
	close(way->fd);
}

/* ---- Packets of an interface, for a port that another socket has ---- */

static inline bool may_open_packets(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0)
		fprintf(stderr, "a socket of packets: %m\n");
	else
		close(fd);
	return fd >= 0;
}

static int owner_of_port;

static inline void packet_name(struct way *way)
{
	udp_name(way);
	snprintf(way->from, sizeof(way->from), "packet:lo:%d", atoi(strrchr(way->from, ':') + 1));
}

static inline void packet_open(struct way *way)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	to.sin_port = htons((uint16_t)atoi(strrchr(way->from, ':') + 1));
	owner_of_port = socket(AF_INET, SOCK_DGRAM, 0);
	assert_return_code(bind(owner_of_port, (struct sockaddr *)&to, sizeof(to)), errno);
	udp_open(way);
}

static inline void packet_close(struct way *way)
{
	close(owner_of_port);
	udp_close(way);
}

/* ---- Ring ---- */

static inline void ring_open(struct way *way)
{
	assert_return_code(weft_ring_writer_open(strchr(way->from, ':') + 1, &way->writer), 0);
}

static inline bool ring_send(struct way *way, const uint8_t *data, uint32_t bytes)
{
	return !weft_ring_writer_put(way->writer, data, bytes);
}

static inline void ring_close(struct way *way)
{
	weft_ring_writer_close(way->writer);
}

/* ---- A node of a torus: a process of another node sends on what it is given ---- */

static inline void torus_open(struct way *way)
{
}

static inline bool torus_send(struct way *way, const uint8_t *data, uint32_t bytes)
{
	return send(way->fd, data, bytes, MSG_DONTWAIT) == (ssize_t)bytes;
}

/* Until the other process has sent all: nothing is left for the next stream. */
static inline void torus_close(struct way *way)
{
	uint8_t byte = 0;

	assert_int_equal(send(way->fd, &byte, 1, 0), 1);
	assert_int_equal(recv(way->fd, &byte, 1, 0), 1);
}

static struct way udp __attribute__((unused)) = {"", udp_open, udp_send, udp_close};
static struct way packet __attribute__((unused)) = {"", packet_open, udp_send, packet_close};
static struct way torus __attribute__((unused)) = {"", torus_open, torus_send, torus_close};
static struct way ring __attribute__((unused)) = {"", ring_open, ring_send, ring_close};

/* ---- A stream ---- */

static struct weft_stream *stream;
static uint8_t *memory; /* of the list */

/* A list and a source of numbers of 32 bits at offset 4. */
static inline void begin(struct way *way, const struct weft_stream_list *list)
{
	struct weft_stream_source source = {.from = way->from,
					    .protocol = WEFT_STREAM_SEQUENCED,
					    .offset = 4,
					    .bits = 32,
					    .socket_bytes = 4 << 20};
	void *at;

	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_return_code(weft_stream_register(stream, list, NULL, &at), 0);
	memory = at;
	assert_return_code(weft_stream_bind(stream, &source, NULL), 0);
	assert_return_code(weft_stream_start(stream), 0);
	way->open(way);
}

static inline void end(struct way *way)
{
	way->close(way);
	weft_stream_close(stream);
}

/* A datagram whose bytes all follow from its number. */
static inline uint32_t make(uint32_t number, uint8_t data[])
{
	uint32_t bytes = 8 + number * 37 % 1400;

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(number * 7 + i);
	memcpy(data + 4, &number, 4);
	return bytes;
}

static inline void send_number(struct way *way, uint32_t number)
{
	uint8_t data[1500];
	uint32_t bytes = make(number, data);

	while (!way->send(way, data, bytes))
		usleep(100);
}

static inline void next_event(struct weft_stream_event *event)
{
	int answer = weft_stream_wait(stream, event, SOON_MS);

	assert_return_code(answer, -answer);
}

static inline void give_back(const struct weft_stream_event *e)
{
	assert_return_code(weft_stream_give_back(stream, e->list, e->buffer, e->generation), 0);
}

static inline struct weft_stream_counters counters_when(uint64_t arrived)
{
	struct weft_stream_counters c;

	for (int i = 0; i < SOON_MS; i++) {
		assert_return_code(weft_stream_counters(stream, WEFT_STREAM_ALL, &c), 0);
		assert_int_equal(c.arrived, c.placed + c.duplicate + c.late + c.bad + c.no_buffer);
		assert_int_equal(c.sent, c.arrived - c.duplicate + c.lost);
		if (c.arrived >= arrived)
			return c;
		usleep(1000);
	}
	fail();
	return c;
}

#endif
