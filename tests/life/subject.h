/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Processes under test: each is forked by the test, which then watches it from outside.
 */
#ifndef WEFT_TESTS_LIFE_SUBJECT_H
#define WEFT_TESTS_LIFE_SUBJECT_H

#include <stdint.h>
#include <sys/types.h>

#include "pool/pool.h"

/* A subject, as its test and it itself see it. */
struct subject {
	pid_t pid;
	int go; /* the end of a pipe: subject_go() makes subject_wait() return once */
	struct subject_page *page;
};

struct subject_page {
	uint16_t member;
	uint64_t incarnation;
	_Atomic uint32_t ready; /* how often it has called subject_ready() */
	uint64_t value[4];	/* values that the subject and its test exchange */
};

/* The path of the pool of this test program, which is removed when the program ends. */
const char *subject_pool(void);

/* Starts fn in a process of its own, which ends when fn returns. Its page is zeroed. */
struct subject subject_start(void (*fn)(struct subject *));
/* Waits until the subject has called subject_ready() so often. */
void subject_await(const struct subject *s, uint32_t steps);
void subject_go(const struct subject *s);
/* Kills the subject if it still runs, and reaps it. */
void subject_end(struct subject *s);

/* For the subject: joins the pool, and tells the test which member it is. */
struct weft_pool *subject_attach(struct subject *s);
void subject_ready(struct subject *s);
void subject_wait(struct subject *s);
/* Ends the subject with a message, unless ok. */
void subject_require(bool ok, const char *what);

/* For the test. */
struct weft_pool *subject_watch(void); /* joins the pool; to be ended by weft_pool_put() */
bool subject_alive(struct weft_pool *pool, const struct subject *s);
/* Waits until the subject is dead as a member. */
void subject_await_death(struct weft_pool *pool, const struct subject *s);
/* How many segments and blocks are leased to that member. */
unsigned int subject_leases(struct weft_pool *pool, const struct subject *s);

#endif
