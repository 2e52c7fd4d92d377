/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Steps: labelled places in critical sections, between two stores that others see, at which a test
 * may end the process. In the product they are nothing. tests/crash/ builds the same sources with
 * WEFT_STEPS: each label then stands in a section of its own, so that a label that is never passed
 * is known, too; and weft_step() counts, and kills the process that is told to die there.
 */
#ifndef WEFT_POOL_STEP_H
#define WEFT_POOL_STEP_H

#ifdef WEFT_STEPS

struct weft_step {
	const char *name;
	unsigned long label; /* the test numbers names; one may stand in several places */
} __attribute__((aligned(16)));

void weft_step(const struct weft_step *step);

#define WEFT_STEP(label_name)                                                                      \
	do {                                                                                       \
		static struct weft_step step_here                                                  \
			__attribute__((section("weft_steps"), used)) = {.name = #label_name};      \
		weft_step(&step_here);                                                             \
	} while (0)

#else

#define WEFT_STEP(label_name) ((void)0)

#endif

/* Turns: the same where tests/take/ lets others act within one process, and nothing is killed. */
#ifdef WEFT_TURNS
void weft_turn(const char *name);
#define WEFT_TURN(label_name) weft_turn(#label_name)
#else
#define WEFT_TURN(label_name) ((void)0)
#endif

#endif
