/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A ring of io_uring by bare system calls, in each of the ways in which a program may hold it. */
#ifndef WEFT_TESTS_RING_H
#define WEFT_TESTS_RING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>

enum ring_held {
	BY_DESCRIPTOR,
	BY_NUMBER,  /* registered with the thread, and its descriptor is closed */
	BY_MAPPING, /* its descriptor is closed, so that nothing can be submitted any more */
	/* as BY_NUMBER, and it lies in the test's own memory instead of a mapping of the
	 * kernel's */
	BY_NOTHING,
};

struct ring {
	int fd;		    /* or the ring's number with the thread; -1: let go */
	unsigned int flags; /* flags of each io_uring_enter */
	uint8_t *rings, *own;
	struct io_uring_sqe *sqes;
	struct io_uring_params params;
};

/* A buffer that is not empty becomes fixed buffer 0. False: this kernel cannot do that. */
bool ring_open(struct ring *ring, enum ring_held held, void *buffer, unsigned int len_bytes);
/* Submits one request; ring_wait returns its result. */
void ring_submit(struct ring *ring, unsigned int opcode, int fd, void *buffer,
		 unsigned int len_bytes);
int ring_wait(struct ring *ring);
/* Closes the descriptor; requests that were submitted go on. */
void ring_let_go(struct ring *ring);
/* Ends what does not end with the thread. */
void ring_close(struct ring *ring);

#endif
