/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One of the two sides that try a memory of several hosts: what `weft pool test` does (pool/format_trial.h). Context: one
 * thread. */
#ifndef WEFT_CLI_SIDES_H
#define WEFT_CLI_SIDES_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/format_trial.h"

#define WEFT_SIDES_ADDITIONS ((uint64_t)1000000) /* of each side */

struct weft_sides_plan {
	uint64_t store_ns; /* how long numbers are stored */
	uint64_t wait_ns;  /* for the other to come, and for one that stands still */
	bool adds;	   /* if the other does */
};

struct weft_sides_one {
	char name[WEFT_TRIAL_NAME_WORDS * 8 + 1]; /* of its machine */
	bool adds;
	uint64_t kernel, stored;
	uint64_t found[WEFT_TRIAL_FINDINGS]; /* by enum weft_trial_finding */
};

struct weft_sides_outcome {
	struct weft_sides_one mine, theirs;
	bool added; /* as both were to */
};

/* -ETIMEDOUT (no other has come, or it stands still), -ECONNRESET (it has ended before); *why says it. */
int weft_sides_try(struct weft_trial_room *room, const struct weft_sides_plan *plan,
		   struct weft_sides_outcome *out, const char **why);

#endif
