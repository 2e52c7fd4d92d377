/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a card does without a wire: it carries requests to queue pairs of the same pool, that are handed to it, too. Each
 * goes in steps, and whose is next is drawn by a seed; so requests of one queue pair keep their order, and those of
 * several interleave in any. Reliable ones wait as the verb's timers say, and the courier gives the verdict.
 */
#ifndef WEFT_TESTS_HANDED_COURIER_H
#define WEFT_TESTS_HANDED_COURIER_H

#include "card/hand.h"

#define COURIER_MOST_BYTES 65536u /* of a part */

struct courier {
	struct weft_card card;
	uint64_t random;     /* the seed; not 0 */
	uint32_t part_bytes; /* at most, of each step; 0: parts of any size */
	uint64_t now_ns;
	uint64_t carried, refused; /* requests */
	uint64_t rounds;	   /* of courier_rests */
};

/* courier: zeros, but for the seed and the size of parts. */
int courier_begin(struct courier *courier, struct weft_nic *nic, struct weft_caller *caller);
void courier_end(struct courier *courier);

/* Hears doorbells and makes one step. Whether it did something. */
bool courier_step(struct courier *courier, uint64_t now_ns);

/* Makes a step of each. Whether all that there is to do waits for a receive or an answer. */
bool courier_rests(struct courier *courier, uint64_t now_ns);

#endif
