/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/b64b66.h"

#define WINDOW	64u
#define BAD_MAX 16u

static unsigned int taps(uint64_t state)
{
	return (state >> 38 ^ state >> 57) & 1;
}

uint64_t weft_ape_scramble(uint64_t *state, uint64_t block)
{
	uint64_t line = 0;

	for (unsigned int i = 0; i < 64; i++) {
		uint64_t bit = (block >> i & 1) ^ taps(*state);

		line |= bit << i;
		*state = *state << 1 | bit;
	}
	return line;
}

uint64_t weft_ape_descramble(uint64_t *state, uint64_t line)
{
	uint64_t block = 0;

	for (unsigned int i = 0; i < 64; i++) {
		uint64_t bit = line >> i & 1;

		block |= (bit ^ taps(*state)) << i;
		*state = *state << 1 | bit;
	}
	return block;
}

enum weft_ape_lock_step weft_ape_block_lock(struct weft_ape_block_lock *lock, unsigned int header)
{
	bool good = header == WEFT_APE_BLOCK_DATA || header == WEFT_APE_BLOCK_CONTROL;

	lock->looked++;
	lock->bad += !good;
	if (!lock->locked && !good) {
		lock->looked = lock->bad = 0;
		return WEFT_APE_LOCK_SLIP;
	}
	if (lock->bad >= BAD_MAX) {
		*lock = (struct weft_ape_block_lock){0};
		return WEFT_APE_LOCK_LOST;
	}
	if (lock->looked == WINDOW) {
		lock->locked = true;
		lock->looked = lock->bad = 0;
	}
	return WEFT_APE_LOCK_KEEP;
}
