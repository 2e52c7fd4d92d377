/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* 64b66b (IEEE 802.3, clause 49): blocks of 64 bits behind a header of two, scrambled by 1 + x^39 +
 * x^58, bit 0 sent first. The header is not scrambled: 01 as sent is data, 10 control. */
#ifndef WEFT_WIRE_APE_B64B66_H
#define WEFT_WIRE_APE_B64B66_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_APE_BLOCK_BITS    66u
#define WEFT_APE_BLOCK_DATA    2u /* headers, the first bit lowest */
#define WEFT_APE_BLOCK_CONTROL 1u

/* The last 58 bits of the line. A descrambler is right after as many, whatever it began with. */
uint64_t weft_ape_scramble(uint64_t *state, uint64_t block);
uint64_t weft_ape_descramble(uint64_t *state, uint64_t block);

/* Where blocks begin: 64 good headers in a row lock; 16 bad ones of 64 lose it. */
struct weft_ape_block_lock {
	bool locked;
	uint8_t looked, bad;
};

enum weft_ape_lock_step {
	WEFT_APE_LOCK_KEEP,
	WEFT_APE_LOCK_SLIP, /* look one bit further on */
	WEFT_APE_LOCK_LOST,
};
enum weft_ape_lock_step weft_ape_block_lock(struct weft_ape_block_lock *lock, unsigned int header);

#endif
