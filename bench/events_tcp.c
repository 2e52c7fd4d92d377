/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The same messages by TCP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "events.h"

#define READ_BYTES 65536u

static void open_nothing(const struct options *o, uint32_t conns)
{
}

static int get_buffers(struct conn *c, uint32_t index)
{
	size_t most = (size_t)c->options->in_flight * c->options->bytes;

	c->in_room = most > READ_BYTES ? most : READ_BYTES;
	c->in = malloc(c->in_room);
	c->out = calloc(c->options->in_flight, c->options->bytes);
	end_require(c->in && c->out, "memory");
	return c->socket;
}

static int flags(const struct conn *c)
{
	return c->alone ? 0 : MSG_DONTWAIT;
}

static void wait_for_room(struct conn *c, bool waits)
{
	struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = c};

	if (waits != c->waits)
		end_require(!epoll_ctl(c->epoll, EPOLL_CTL_MOD, c->socket, &event), "epoll_ctl");
	c->waits = waits;
}

static void flush(struct conn *c)
{
	while (c->out_done < c->out_bytes) {
		ssize_t n = send(c->socket, c->out + c->out_done, c->out_bytes - c->out_done,
				 flags(c) | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			break;
		end_require(n > 0, "send");
		c->out_done += (size_t)n;
	}
	wait_for_room(c, c->out_done < c->out_bytes);
	if (c->out_done == c->out_bytes)
		c->out_done = c->out_bytes = 0;
}

static void send_message(struct conn *c, uint64_t number)
{
	const struct options *o = c->options;

	/* what has gone makes room */
	if (c->out_bytes + o->bytes > (size_t)o->in_flight * o->bytes) {
		memmove(c->out, c->out + c->out_done, c->out_bytes - c->out_done);
		c->out_bytes -= c->out_done;
		c->out_done = 0;
	}
	memcpy(c->out + c->out_bytes, &number, sizeof(number));
	c->out_bytes += o->bytes;
	c->sent++;
	if (!o->gather)
		flush(c);
}

static bool get_ready(struct conn *c, uint32_t events)
{
	const struct options *o = c->options;
	size_t at = 0;
	ssize_t n;

	if (events & EPOLLOUT)
		flush(c);
	if (!(events & ~(uint32_t)EPOLLOUT))
		return true;
	n = recv(c->socket, c->in + c->in_bytes, c->in_room - c->in_bytes, flags(c));
	if (n == 0)
		return false;
	end_require(n > 0, "recv");
	c->in_bytes += (size_t)n;
	for (; at + o->bytes <= c->in_bytes; at += o->bytes) {
		uint64_t number;

		memcpy(&number, c->in + at, sizeof(number));
		c->message(c, number);
	}
	memmove(c->in, c->in + at, c->in_bytes - at);
	c->in_bytes -= at;
	if (o->gather)
		flush(c);
	return true;
}

const struct way tcp = {open_nothing, get_buffers, get_ready, send_message, flush};
