/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "talk.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TRIES 400 /* of 50 ms */

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "the peer has gone");
	exit(1);
}

static int listen_at(const char *port)
{
	struct sockaddr_in6 name = {.sin6_family = AF_INET6,
				    .sin6_port = htons((uint16_t)atoi(port))};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
	    bind(fd, (struct sockaddr *)&name, sizeof(name)) || listen(fd, 1))
		fail("listening");
	peer = accept(fd, NULL, NULL);
	if (peer < 0)
		fail("accepting");
	close(fd);
	return peer;
}

static int connect_to(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const struct timeval four_seconds = {4, 0}, for_ever = {0, 0};
	struct addrinfo *found;
	int fd, answer = getaddrinfo(host, port, &hints, &found);

	if (answer) {
		fprintf(stderr, "%s: %s\n", host, gai_strerror(answer));
		exit(1);
	}
	for (int i = 0; i < TRIES; i++) {
		fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		/* A host that boots misses the kernel's tries, which come ever more seldom: at 0, 1 and 3
		 * seconds of these four. One without a processor answers late, but within them. */
		if (fd >= 0 &&
		    !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &four_seconds, sizeof(four_seconds)) &&
		    !connect(fd, found->ai_addr, found->ai_addrlen)) {
			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof(for_ever));
			freeaddrinfo(found);
			return fd;
		}
		close(fd);
		usleep(50000);
	}
	fail(host);
}

int talk_open(const char *host, const char *port)
{
	int fd = host ? connect_to(host, port) : listen_at(port);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

static bool put(int fd, const void *from, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = send(fd, (const char *)from + done, bytes - done, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool get(int fd, void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = read(fd, (char *)to + done, bytes - done);

		errno = n ? errno : 0;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

void talk_put(int fd, const void *from, size_t bytes)
{
	if (!put(fd, from, bytes))
		fail("writing to the peer");
}

void talk_get(int fd, void *to, size_t bytes)
{
	if (!get(fd, to, bytes))
		fail("reading from the peer");
}

bool talk_swap(int fd, const void *mine, void *peers, size_t bytes)
{
	return put(fd, mine, bytes) && get(fd, peers, bytes);
}

void talk_need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}
