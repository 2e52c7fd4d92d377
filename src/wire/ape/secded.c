/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/secded.h"

#define PARITIES 7u
#define ALL_DATA ((1ull << (WEFT_APE_DATA_BITS - 64)) - 1)

/* The data bits whose number has bit i. */
static const struct weft_ape_word members[PARITIES] = {
	{0xab55555556aaad5bull, 0x00aaaaaaaaaaaaaaull},
	{0xcd9999999b33366dull, 0x00ccccccccccccccull},
	{0xf1e1e1e1e3c3c78eull, 0x00f0f0f0f0f0f0f0ull},
	{0x01fe01fe03fc07f0ull, 0x00ff00ff00ff00ffull},
	{0x01fffe0003fff800ull, 0x00ffff0000ffff00ull},
	{0x01fffffffc000000ull, 0x00ffffffff000000ull},
	{0xfe00000000000000ull, 0x00ffffffffffffffull},
};

static unsigned int parity(struct weft_ape_word w)
{
	return __builtin_parityll(w.lo ^ w.hi);
}

/* The exclusive or of the numbers of the data bits that are set. */
static unsigned int sum_of_bits(struct weft_ape_word w)
{
	unsigned int numbers = 0;

	for (unsigned int i = 0; i < PARITIES; i++) {
		struct weft_ape_word part = {w.lo & members[i].lo, w.hi & members[i].hi};

		numbers |= parity(part) << i;
	}
	return numbers;
}

struct weft_ape_word weft_ape_secded_encode(struct weft_ape_word data)
{
	struct weft_ape_word w = {data.lo, data.hi & ALL_DATA};

	weft_ape_put_bits(&w, WEFT_APE_DATA_BITS, sum_of_bits(w));
	weft_ape_put_bits(&w, 127, parity(w));
	return w;
}

/* The position of the data bit with this number; for a power of two that of the check bit. */
static unsigned int bit_of(unsigned int number)
{
	unsigned int log = 31 - __builtin_clz(number);

	return number & (number - 1) ? number - 2 - log : WEFT_APE_DATA_BITS + log;
}

enum weft_ape_checked weft_ape_secded_check(struct weft_ape_word *word)
{
	unsigned int wrong = sum_of_bits(*word) ^ weft_ape_bits(*word, 126, WEFT_APE_DATA_BITS);

	if (!parity(*word))
		return wrong ? WEFT_APE_SPOILT : WEFT_APE_INTACT;
	weft_ape_flip_bit(word, wrong ? bit_of(wrong) : 127);
	return WEFT_APE_CORRECTED;
}
