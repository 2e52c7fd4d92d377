/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/nanet/sequence.h"

bool weft_sequence_valid(const struct weft_sequence_options *o)
{
	uint64_t half;

	if ((o->bits != 16 && o->bits != 24 && o->bits != 32 && o->bits != 64) || !o->step)
		return false;
	half = (1ull << (o->bits - 1)) / o->step;
	return o->history >= 64 && !(o->history & (o->history - 1)) && o->window <= o->history &&
	       o->history <= half && o->jump && o->jump < half;
}

static size_t words(const struct weft_sequence_options *o)
{
	return o->history / 64;
}

size_t weft_sequence_bytes(const struct weft_sequence_options *o)
{
	return 2 * words(o) * sizeof(uint64_t);
}

void weft_sequence_begin(struct weft_sequence *s, const struct weft_sequence_options *o,
			 void *memory)
{
	*s = (struct weft_sequence){.options = *o};
	s->run[0].seen = memory;
	s->run[1].seen = s->run[0].seen + words(o);
}

/* ---- One run ---- */

static uint64_t *word_of(const struct weft_sequence *s, const struct weft_sequence_run *run,
			 uint64_t number)
{
	return &run->seen[(number & (s->options.history - 1)) / 64];
}

static void mark_number(const struct weft_sequence *s, struct weft_sequence_run *run,
			uint64_t number)
{
	*word_of(s, run, number) |= 1ull << number % 64;
	run->came++;
}

static void begin_run(struct weft_sequence *s, struct weft_sequence_run *run, uint64_t field)
{
	uint64_t *seen = run->seen, number = field / s->options.step;

	*run = (struct weft_sequence_run){
		.begun = true, .field = field, .low = number, .high = number, .seen = seen};
	for (size_t i = 0; i < words(&s->options); i++)
		seen[i] = 0;
	mark_number(s, run, number);
}

/* How far the field is ahead of the highest number, in steps; false: it is not of this run. */
static bool distance(const struct weft_sequence *s, const struct weft_sequence_run *run,
		     uint64_t field, int64_t *ahead)
{
	unsigned int unused = 64u - s->options.bits;
	int64_t by = (int64_t)((field - run->field) << unused) >> unused;
	int64_t step = (int64_t)s->options.step;

	*ahead = step == 1 ? by : by / step; /* dividing takes as long as all else */
	return run->begun && *ahead * step == by && *ahead <= (int64_t)s->options.jump &&
	       *ahead > -(int64_t)s->options.history;
}

/* Moves the highest number of the run ahead; the numbers that are passed over have not come yet. */
static void advance_run(struct weft_sequence *s, struct weft_sequence_run *run, uint64_t field,
			uint64_t ahead)
{
	uint64_t clear = ahead < s->options.history ? ahead : s->options.history;

	for (uint64_t i = 1; i <= clear; i++) {
		uint64_t number = run->high + ahead - clear + i;

		*word_of(s, run, number) &= ~(1ull << number % 64);
	}
	s->wraps += field < run->field;
	run->high += ahead;
	run->field = field;
	mark_number(s, run, run->high);
}

static enum weft_sequence_verdict look_back(struct weft_sequence *s, struct weft_sequence_run *run,
					    uint64_t number)
{
	if (*word_of(s, run, number) & 1ull << number % 64)
		return WEFT_SEQUENCE_AGAIN;
	mark_number(s, run, number);
	if ((int64_t)(number - run->low) < 0)
		run->low = number;
	return run->high - number > s->options.window ? WEFT_SEQUENCE_LATE : WEFT_SEQUENCE_NEW;
}

static uint64_t missing_of(const struct weft_sequence_run *run)
{
	return run->begun ? run->high - run->low + 1 - run->came : 0;
}

/* ---- Both ---- */

/* Whether it is of that run. */
static bool judge_in(struct weft_sequence *s, struct weft_sequence_run *run, uint64_t field,
		     struct weft_sequence_judged *judged)
{
	int64_t ahead;

	if (!distance(s, run, field, &ahead))
		return false;
	judged->number = run->high + (uint64_t)ahead;
	judged->behind = ahead <= 0;
	if (ahead > 0) {
		judged->verdict = WEFT_SEQUENCE_NEW;
		advance_run(s, run, field, (uint64_t)ahead);
	} else {
		judged->verdict = look_back(s, run, judged->number);
	}
	return true;
}

static void forget_run(struct weft_sequence *s, struct weft_sequence_run *run)
{
	s->missed += missing_of(run);
	run->begun = false;
}

void weft_sequence_judge(struct weft_sequence *s, uint64_t field,
			 struct weft_sequence_judged *judged)
{
	struct weft_sequence_run *run = &s->run[s->current], *before = &s->run[!s->current];

	*judged = (struct weft_sequence_judged){0};
	if (judge_in(s, run, field, judged)) {
		/* stragglers as old as that do not come any more; a number that fits the old run is of a new one */
		if (before->begun && run->came > s->options.history)
			forget_run(s, before);
		return;
	}
	judged->straggler = judge_in(s, before, field, judged);
	if (judged->straggler)
		return;
	judged->restarted = run->begun;
	s->restarts += run->begun;
	forget_run(s, before);
	s->current = !s->current;
	begin_run(s, before, field);
	judged->number = before->high;
}

uint64_t weft_sequence_missing(const struct weft_sequence *s)
{
	return s->missed + missing_of(&s->run[0]) + missing_of(&s->run[1]);
}
