/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A litmus test of two ends, which shows bytes that become visible out of order: one end writes, the other
 * polls on what must be visible last, checks all that must be visible by then, and writes back.
 */
#ifndef WEFT_TESTS_VERBS_LITMUS_H
#define WEFT_TESTS_VERBS_LITMUS_H

#include "ends.h"

enum litmus_way {
	LITMUS_LAST_BYTE, /* polls on the last byte of a WRITE */
	LITMUS_SEND,	  /* WRITE, then SEND: polls the completion queue */
	LITMUS_IMM,	  /* WRITE, then WRITE with immediate: polls the completion queue */
	LITMUS_WRITE,	  /* WRITE, then a WRITE of 8 bytes elsewhere: polls those */
	LITMUS_ADD,	  /* WRITE, then a fetch-and-add elsewhere: polls its word */
	LITMUS_WAYS,
};

struct litmus {
	enum litmus_way way;
	enum kind kind;
	uint32_t bytes, at;
	uint64_t budget_ns; /* for how long the end that serves begins new rounds */
};

struct litmus_result {
	uint64_t rounds;
	/* index of the first byte that is wrong; -1: none; -2: nothing came in time; -3 - status: a
	 * verb failed */
	int64_t wrong_at;
};

/* Plays until the end that serves stops. Context: any thread, as long as no other uses the end. */
struct litmus_result litmus_play(struct end *end, const struct litmus *game, bool serves);

/* Once for each connection: posts the receives that some ways consume; each is posted again when it has
 * completed. */
void litmus_receives(struct end *near, struct peer *peer);
/* Plays at both ends, and returns how many rounds. A wrong byte at either fails the test. */
uint64_t litmus_run(struct end *near, struct peer *peer, const struct litmus *game);

#endif
