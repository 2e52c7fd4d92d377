/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Hamming (128,120) with a parity bit for the whole: one flipped bit is corrected, two are seen.
 * Three pass for one and make a wrong word, for the code is perfect: the footer's CRC must find that.
 *
 * Bits 119:0 are data. In order they have the numbers 3, 5, 6, 7, 9 … 127, those that are no powers
 * of two; bit 120 + i is the parity of the data bits whose number has bit i; bit 127 makes the
 * parity of all 128 bits even.
 */
#ifndef WEFT_WIRE_APE_SECDED_H
#define WEFT_WIRE_APE_SECDED_H

#include "wire/ape/word.h"

#define WEFT_APE_DATA_BITS 120u

enum weft_ape_checked {
	WEFT_APE_INTACT,
	WEFT_APE_CORRECTED,
	WEFT_APE_SPOILT,
};

/* Sets bits 127:120 to what the others make them. */
struct weft_ape_word weft_ape_secded_encode(struct weft_ape_word data);
/* Corrects *word where it can; SPOILT leaves it as it is. */
enum weft_ape_checked weft_ape_secded_check(struct weft_ape_word *word);

#endif
