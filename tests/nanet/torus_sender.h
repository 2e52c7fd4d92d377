/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process on a node of a torus that SENDs what it is given by a socket to a process of rank 0. A message of one byte comes back when all has
 * been sent. Behind live.h.
 */
#ifndef WEFT_TESTS_NANET_TORUS_SENDER_H
#define WEFT_TESTS_NANET_TORUS_SENDER_H

#include <signal.h>
#include <sys/prctl.h>

#include "link/crc32c.h"
#include "weft/ape.h"
#include "wire/ape/packet.h"

#define TORUS_PROCESS 5u
#define TORUS_MOST    2048u
#define TORUS_AHEAD   16

static inline void send_all(int fd, const char *node)
{
	struct ape *ape;
	int err = ape_open(node, -1, &ape), under_way = 0;
	uint8_t *room = err ? NULL : ape_alloc(ape, TORUS_AHEAD * TORUS_MOST);
	struct ape_event e;
	uint64_t seen = 0;
	ssize_t bytes;

	if (!room) {
		fprintf(stderr, "%s: %s\n", node, ape_strerror(err));
		_exit(1);
	}
	for (uint32_t i = 0; (bytes = recv(fd, room + i * TORUS_MOST, TORUS_MOST, 0)) > 0;
	     i = (i + 1) % TORUS_AHEAD) {
		while (bytes > 1 && (err = ape_send(ape, 0, TORUS_PROCESS, room + i * TORUS_MOST,
						    (uint64_t)bytes, i)) == -EAGAIN)
			;
		if (err)
			_exit(1);
		/* the part that comes next is the oldest one */
		for (under_way += bytes > 1; under_way && (bytes == 1 || under_way == TORUS_AHEAD);
		     under_way -= ape_poll(ape, &e, 1))
			ape_wait(ape, &seen, 10000000);
		if (bytes == 1 && send(fd, room, 1, 0) != 1)
			_exit(1);
	}
	ape_close(ape);
	_exit(0);
}

/* *to: a datagram each. */
static inline pid_t begin_sender(const char *node, int *to)
{
	int pair[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		return -1;
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		send_all(pair[1], node);
	}
	close(pair[1]);
	*to = pair[0];
	return child;
}

#endif
