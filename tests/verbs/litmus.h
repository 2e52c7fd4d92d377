/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A game for two ends that shows bytes out of order: one writes, the other polls on what must be
 * visible last, checks all that must be visible by then, and writes back.
 */
#ifndef WEFT_TESTS_VERBS_LITMUS_H
#define WEFT_TESTS_VERBS_LITMUS_H

#include "ends.h"

enum litmus_way {
	LITMUS_LAST_BYTE, /* polls on the last byte of a WRITE */
	LITMUS_SEND,	  /* WRITE, then SEND: polls the completion queue */
	LITMUS_IMM,	  /* WRITE, then WRITE with immediate */
	LITMUS_WRITE,	  /* WRITE, then a WRITE of 8 bytes elsewhere */
	LITMUS_ADD,	  /* WRITE, then a fetch-and-add */
	LITMUS_WAYS,
};

struct litmus {
	enum litmus_way way;
	enum kind kind;
	uint32_t bytes, at;
	uint64_t budget_ns; /* how long the one that serves goes on */
};

struct litmus_result {
	uint64_t rounds;
	int64_t wrong_at; /* a byte; -1: none; -2: nothing came; -3 and less: a verb failed, with a status */
};

/* Plays until the one that serves ends it. Context: any thread that has the end for itself. */
struct litmus_result litmus_play(struct end *end, const struct litmus *game, bool serves);

/* Once a connection: receives for the ways that use them up; each is posted again. */
void litmus_receives(struct end *near, struct far *far);
/* Both ends; how many rounds. What one of them finds fails the test. */
uint64_t litmus_run(struct end *near, struct far *far, const struct litmus *game);

#endif
