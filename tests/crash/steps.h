/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The steps that this program was built with (pool/step.h): their names, how often each was passed and
 * how often somebody died there. All counts lie in memory that forked processes share.
 */
#ifndef WEFT_TESTS_CRASH_STEPS_H
#define WEFT_TESTS_CRASH_STEPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STEPS_MOST 256u

/* What a process under test does with its life: labels that one kind never passes, another may. */
enum kind {
	WORKER,	 /* talks to others */
	SLEEPER, /* does so while one of them is stopped in the middle of an execution */
	JOINER,	 /* attaches, and finds those that have died */
	FOUNDER, /* attaches where there is no pool yet */
	KINDS,
};

#define STEPS_LEAST 3u /* kills; a label that is hit less often is not tested */

/* What becomes of a process that passes that step for the n-th time; or, if it does not come by, any other for
 * the m-th time. */
struct order {
	uint32_t label;			 /* + 1; 0: nothing */
	_Atomic uint32_t left, patience; /* n, m; 0: never */
	bool or_seldom; /* or at one that was not hit often enough yet: some are passed by no plan */
	int signal;
	_Atomic bool obeyed;
};

struct steps_table {
	_Atomic uint64_t lives[KINDS];
	_Atomic uint64_t passed[KINDS][STEPS_MOST];
	_Atomic uint64_t killed[STEPS_MOST];
};

/* Before the first fork. */
struct steps_table *steps_begin(void);
uint32_t steps_count(void);
const char *steps_name(uint32_t label);
/* STEPS_MOST: there is no such step. */
uint32_t steps_find(const char *name);
/* From now on this process counts as one of that kind and obeys. */
void steps_obey(enum kind kind, struct order *order);

#endif
