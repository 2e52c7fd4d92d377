/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writers: processes that write into the test's memory at full speed, by WRITE and fetch-and-add, or complete
 * its receives, until an error tells them that they may not any more. Each has a queue pair of its own.
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
	/* written by the test; `round` last, which says that the others are valid */
	uint32_t qpn, rkey;
	uint64_t at, bytes;
	bool large;	 /* each request is as long as the region */
	bool numbered;	 /* each request is an immediate value alone, which counts up */
	bool counts;	 /* each request adds one to the first word */
	bool imports;	 /* the writer uses queue pairs of its own in the test's domain: */
	uint32_t domain; /* that domain's handle */
	_Atomic uint32_t round;
	/* written by the writer */
	_Atomic uint32_t own_qpn; /* 0: it cannot be connected yet */
	_Atomic uint64_t writes;
	_Atomic uint32_t ended; /* the last round that it has ended */
};

struct writer {
	pid_t pid;
	int sock;
	bool has_context;
	struct wire *wire;
};

/* Forks the writer: nothing of Weft may be open in this process yet. It writes bytes of the value `byte`,
 * which is never 0. */
void writer_start(struct writer *w, uint8_t byte, uint64_t seed);
/* Wait until the writer can be connected, has made so many writes, has ended the round. It must live. */
uint32_t writer_await_ready(const struct writer *w);
void writer_await_writes(const struct writer *w, uint64_t writes);
void writer_await_end(const struct writer *w);
/* Lets the writer connect and write. The fields of the wire must be set. */
void writer_begin(const struct writer *w);
/* Passes the writer the test's context, once, to import. */
void writer_give(struct writer *w, int cmd_fd);
/* By signals. writer_stop returns when the writer has stopped. */
void writer_stop(const struct writer *w);
void writer_continue(const struct writer *w);
void writer_kill(struct writer *w);

uint64_t next_random(uint64_t *state);

#endif
