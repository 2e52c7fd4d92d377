/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The steps that this program was built with (pool/step.h): their names, how often each was passed, and how
 * often a process died there. The counts lie in memory that forked processes share.
 */
#ifndef WEFT_TESTS_CRASH_STEPS_H
#define WEFT_TESTS_CRASH_STEPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STEPS_MOST 256u

/* What a process under test does. Some labels are passed by processes of one kind only. */
enum kind {
	WORKER,	 /* exchanges requests with others */
	SLEEPER, /* does so while one of the processes is stopped in the middle of an execution */
	JOINER,	 /* joins the pool, and recovers members that have died */
	FOUNDER, /* joins where there is no pool yet */
	KINDS,
};

#define STEPS_LEAST 3u /* kills at each label; one that is hit less often counts as not tested */

/* What becomes of a process that passes that step for the n-th time; or, if it does not come there, any other
 * step for the m-th time. */
struct order {
	uint32_t label;			 /* its index + 1; 0: nothing becomes of it */
	_Atomic uint32_t left, patience; /* n and m; 0: never */
	/* or at a step that was not hit often enough yet, as some steps are in no plan's reach */
	bool or_seldom;
	int signal;
	_Atomic bool obeyed;
};

struct steps_table {
	_Atomic uint64_t lives[KINDS];
	_Atomic uint64_t passed[KINDS][STEPS_MOST];
	_Atomic uint64_t killed[STEPS_MOST];
};

struct weft_step;

/* Called before steps_begin, with the steps of a library that was loaded and not linked. */
void steps_loaded(struct weft_step *first, struct weft_step *end);
/* Called before the first fork. is_ours: whether a step is tested here; steps that are not do nothing. */
struct steps_table *steps_begin(bool (*is_ours)(const char *name));
/* True of all steps but those that are passed only with a card, a GPU, or several hosts. */
bool steps_is_everywhere(const char *name);
/* True of those that members of a pool of several hosts pass. */
bool steps_is_of_hosts(const char *name);
uint32_t steps_count(void);
const char *steps_name(uint32_t label);
/* Returns STEPS_MOST if there is no such step. */
uint32_t steps_find(const char *name);
/* From now on this process is counted as one of that kind, and obeys the order. */
void steps_obey(enum kind kind, struct order *order);

#endif
