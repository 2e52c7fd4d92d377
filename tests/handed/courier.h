/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a card does without a wire: it carries requests that are handed to it to queue pairs of the same pool
 * that are handed to it, too. Each request goes in steps, and a seed draws the queue pair that makes the next
 * step; so requests of one queue pair keep their order, and those of several interleave in any way. Requests
 * of a reliable connection wait as the verb's timers say, and the courier ends them when these run out.
 */
#ifndef WEFT_TESTS_HANDED_COURIER_H
#define WEFT_TESTS_HANDED_COURIER_H

#include "card/hand.h"

#define COURIER_MOST_BYTES 65536u /* of a part, at most */

struct courier {
	struct weft_card card;
	uint64_t random;     /* the seed's sequence; not 0 */
	uint32_t part_bytes; /* of each part, at most; 0: parts of any size */
	uint64_t now_ns;
	uint64_t carried, refused; /* how many requests */
	uint64_t rounds;	   /* how many rounds of courier_rests */
};

/* courier: zeros, but for the seed and the size of parts. */
int courier_begin(struct courier *courier, struct weft_nic *nic, struct weft_caller *caller);
void courier_end(struct courier *courier);

/* Looks at the doorbells and makes one step. Returns whether it did something. */
bool courier_step(struct courier *courier, uint64_t now_ns);

/* Makes a step of each queue pair. Returns whether every request that is left waits for a receive or an
 * answer. */
bool courier_rests(struct courier *courier, uint64_t now_ns);

#endif
