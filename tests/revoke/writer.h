/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writers: processes that write into the memory of the test at full speed, by WRITE and FETCH_ADD,
 * or complete its receives, until they are told by an error that they may not any more. Each has a queue pair of its own.
 */
#ifndef WEFT_TESTS_REVOKE_WRITER_H
#define WEFT_TESTS_REVOKE_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define WRITE_MOST (8u << 20) /* bytes of the largest request */

/* What the test and a writer share. */
struct wire {
	/* the test's; the last word says that the others are there */
	uint32_t qpn, rkey;
	uint64_t at, bytes;
	bool large;	 /* each request is as long as all */
	bool numbered;	 /* each writes nothing but its number, as immediate data */
	bool counts;	 /* each adds one to the first word */
	bool imports;	 /* by queue pairs of its own in the test's domain: */
	uint32_t domain; /* its handle */
	_Atomic uint32_t round;
	/* the writer's */
	_Atomic uint32_t own_qpn; /* 0: it is not ready to be connected */
	_Atomic uint64_t writes;
	_Atomic uint32_t ended; /* that round */
};

struct writer {
	pid_t pid;
	int sock;
	bool has_context;
	struct wire *wire;
};

/* Forks it: nothing of Weft may be open here yet. `bytes` are what it writes, never 0. */
void writer_start(struct writer *w, uint8_t byte, uint64_t seed);
/* Waits until it can be connected, has begun to write, has ended the round. It must live. */
uint32_t writer_await_ready(const struct writer *w);
void writer_await_writes(const struct writer *w, uint64_t writes);
void writer_await_end(const struct writer *w);
/* Lets it connect and write. The fields of the wire are filled in. */
void writer_begin(const struct writer *w);
/* Gives it the context of the test, once, to import. */
void writer_give(struct writer *w, int cmd_fd);
/* By signals; stop returns when it has stopped. */
void writer_stop(const struct writer *w);
void writer_continue(const struct writer *w);
void writer_kill(struct writer *w);

uint64_t next_random(uint64_t *state);

#endif
