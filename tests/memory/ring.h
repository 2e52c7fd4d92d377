/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A ring of io_uring by bare system calls, in each of the ways in which a program may hold it. */
#ifndef WEFT_TESTS_RING_H
#define WEFT_TESTS_RING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>

enum ring_held {
	BY_DESCRIPTOR,
	BY_NUMBER,  /* registered with the thread; its descriptor is closed */
	BY_MAPPING, /* its descriptor is closed: nobody can submit any more */
	BY_NOTHING, /* as by number, and it lies in memory of ours instead of a mapping */
};

struct ring {
	int fd;		    /* or its number; -1: let go */
	unsigned int flags; /* of io_uring_enter */
	uint8_t *rings, *own;
	struct io_uring_sqe *sqes;
	struct io_uring_params params;
};

/* Has the buffer as fixed buffer 0, if it is of any length. false: not to be had here. */
bool ring_open(struct ring *ring, enum ring_held held, void *buffer, unsigned int len_bytes);
/* One request; then its result. */
void ring_submit(struct ring *ring, unsigned int opcode, int fd, void *buffer,
		 unsigned int len_bytes);
int ring_wait(struct ring *ring);
/* Closes the descriptor; what has been submitted goes on. */
void ring_let_go(struct ring *ring);
/* What the end of the thread does not do. */
void ring_close(struct ring *ring);

#endif
