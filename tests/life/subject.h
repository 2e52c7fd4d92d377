/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Processes under test: each is forked from the test, which then watches it from outside.
 */
#ifndef WEFT_TESTS_LIFE_SUBJECT_H
#define WEFT_TESTS_LIFE_SUBJECT_H

#include <stdint.h>
#include <sys/types.h>

#include "pool/pool.h"

/* What a subject and its test share, zeroed when it starts. */
struct subject {
	pid_t pid;
	int go; /* a pipe's end: subject_go() makes subject_wait() return, once */
	struct subject_page *page;
};

struct subject_page {
	uint16_t member;
	uint64_t incarnation;
	_Atomic uint32_t ready; /* steps done */
	uint64_t value[4];	/* what the two agree on */
};

/* The path of the pool of this test program, which is removed at its end. */
const char *subject_pool(void);

/* Starts fn in a process of its own; it ends when fn returns. */
struct subject subject_start(void (*fn)(struct subject *));
/* Waits until it has called subject_ready() so often. */
void subject_await(const struct subject *s, uint32_t steps);
void subject_go(const struct subject *s);
/* Kills and reaps it if it still runs. */
void subject_end(struct subject *s);

/* For the subject: attaches and tells the test which process it is. */
struct weft_pool *subject_attach(struct subject *s);
void subject_ready(struct subject *s);
void subject_wait(struct subject *s);
/* Ends the subject with a message unless ok. */
void subject_require(bool ok, const char *what);

/* For the test. */
struct weft_pool *subject_watch(void); /* attaches; ended by weft_pool_put() */
bool subject_alive(struct weft_pool *pool, const struct subject *s);
/* Waits until it is dead. */
void subject_await_death(struct weft_pool *pool, const struct subject *s);
/* Segments and blocks leased to that member. */
unsigned int subject_leases(struct weft_pool *pool, const struct subject *s);

#endif
