/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "shrink.h"

#include <string.h>

/* how often each shorter sequence is played, as not every failure happens always */
#define TRIES	    8
#define PATIENCE_NS 400000000u

struct attempt {
	struct fleet *f;
	const char *kind; /* the message of the failure; numbers in it do not count */
	struct sequence *best, now;
	char *why;
	size_t why_bytes;
	int tries;
};

/* A shorter sequence must fail in the same way, as one failure may hide another. */
static bool same_kind(const char *a, const char *b)
{
	while (*a && *b) {
		a += strspn(a, "0123456789abcdefx");
		b += strspn(b, "0123456789abcdefx");
		if (*a != *b)
			return false;
		if (*a) {
			a++;
			b++;
		}
	}
	return *a == *b;
}

static bool fails(struct attempt *a)
{
	char why[512];
	int at;

	for (int i = 0; i < a->tries; i++) {
		if (drive_play(a->f, &a->now, NULL, 0, why, sizeof(why), &at))
			continue;
		fleet_renew(a->f);
		if (!same_kind(why, a->kind))
			continue;
		snprintf(a->why, a->why_bytes, "%s", why);
		if (at < a->now.n)
			a->now.n = at + 1; /* steps behind the failing one do not matter */
		*a->best = a->now;
		return true;
	}
	return false;
}

/* Whether the sequence fails without `count` steps from `first` on. */
static bool fails_without(struct attempt *a, int first, int count)
{
	a->now = *a->best;
	a->now.n -= count;
	memmove(&a->now.step[first], &a->now.step[first + count],
		(size_t)(a->now.n - first) * sizeof(a->now.step[0]));
	return fails(a);
}

static void drop_steps(struct attempt *a)
{
	for (int count = a->best->n / 2; count; count /= 2)
		for (int first = a->best->n - count; first >= 0; first -= count) {
			while (first + count > a->best->n)
				first--;
			if (first >= 0)
				fails_without(a, first, count);
		}
}

/* Calls with one request are simpler than those with several. */
static void drop_requests(struct attempt *a)
{
	for (int i = 0; i < a->best->n; i++)
		while (a->best->step[i].count > 1 &&
		       (a->best->step[i].verb == POST_SEND || a->best->step[i].verb == POST_RECV)) {
			a->now = *a->best;
			a->now.step[i].count--;
			if (!fails(a) || i >= a->best->n)
				break;
		}
}

bool shrink_sequence(struct fleet *f, struct sequence *s, char *why, size_t why_bytes)
{
	uint64_t patience_ns = f->board->patience_ns;
	char kind[512];
	struct attempt a = {f, kind, s, *s, why, why_bytes, TRIES};
	int before;

	snprintf(kind, sizeof(kind), "%s", why);
	f->board->patience_ns = PATIENCE_NS;
	if (!fails(&a)) {
		f->board->patience_ns = patience_ns;
		return false;
	}
	a.tries = 2;
	do {
		before = s->n;
		drop_steps(&a);
		drop_requests(&a);
	} while (s->n < before);
	f->board->patience_ns = patience_ns;
	return true;
}
