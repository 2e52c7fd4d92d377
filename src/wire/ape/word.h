/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Words of the torus. Content (headers, payload, footers, credits) is words of 128 bits, bit 0 the
 * lowest; a cable carries beats of W bits, W = 64 × quads. Byte i of a payload is bits 8i to 8i + 7
 * of its word, whatever the machine's own order.
 */
#ifndef WEFT_WIRE_APE_WORD_H
#define WEFT_WIRE_APE_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_APE_WORD_BYTES 16u
#define WEFT_APE_QUADS	    4u /* of the widest beat */
#define WEFT_APE_MAGIC	    0xffffaaaa5555aaaaull
#define WEFT_APE_START	    0xffffbbbb6666bbbbull

struct weft_ape_word {
	uint64_t lo, hi; /* bits 63:0, 127:64 */
};

/* What a cable carries in one word time. Quads beyond the cable's width are 0. */
struct weft_ape_beat {
	uint64_t quad[WEFT_APE_QUADS];
};

static inline bool weft_ape_word_equal(struct weft_ape_word a, struct weft_ape_word b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

static inline unsigned int weft_ape_least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* The bits high:low of the word, at most 64. */
static inline uint64_t weft_ape_bits(struct weft_ape_word w, unsigned int high, unsigned int low)
{
	unsigned int count = high - low + 1;
	uint64_t bits = low >= 64 ? w.hi >> (low - 64) : w.lo >> low;

	if (low && low < 64 && high >= 64)
		bits |= w.hi << (64 - low);
	return count < 64 ? bits & ((1ull << count) - 1) : bits;
}

/* Puts them into a word that has zeros there. */
static inline void weft_ape_put_bits(struct weft_ape_word *w, unsigned int low, uint64_t bits)
{
	if (low >= 64) {
		w->hi |= bits << (low - 64);
		return;
	}
	w->lo |= bits << low;
	if (low)
		w->hi |= bits >> (64 - low);
}

static inline void weft_ape_flip_bit(struct weft_ape_word *w, unsigned int bit)
{
	if (bit < 64)
		w->lo ^= 1ull << bit;
	else
		w->hi ^= 1ull << (bit - 64);
}

/* To and from the order of the bytes of a payload. */
static inline uint64_t weft_ape_le(uint64_t quad)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? quad : __builtin_bswap64(quad);
}

static inline struct weft_ape_word weft_ape_word_load(const uint8_t bytes[WEFT_APE_WORD_BYTES])
{
	struct weft_ape_word w;

	__builtin_memcpy(&w.lo, bytes, 8);
	__builtin_memcpy(&w.hi, bytes + 8, 8);
	w.lo = weft_ape_le(w.lo);
	w.hi = weft_ape_le(w.hi);
	return w;
}

static inline void weft_ape_word_store(struct weft_ape_word w, uint8_t bytes[WEFT_APE_WORD_BYTES])
{
	w.lo = weft_ape_le(w.lo);
	w.hi = weft_ape_le(w.hi);
	__builtin_memcpy(bytes, &w.lo, 8);
	__builtin_memcpy(bytes + 8, &w.hi, 8);
}

/* The same for runs of words, which may be where the bytes are. */
static inline void weft_ape_words_load(struct weft_ape_word *to, const uint8_t *bytes,
				       unsigned int count)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
		if ((const uint8_t *)to != bytes)
			__builtin_memcpy(to, bytes, (size_t)count * WEFT_APE_WORD_BYTES);
		return;
	}
	for (unsigned int i = 0; i < count; i++)
		to[i] = weft_ape_word_load(bytes + (size_t)i * WEFT_APE_WORD_BYTES);
}

static inline void weft_ape_words_store(const struct weft_ape_word *words, uint8_t *to,
					unsigned int count)
{
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
		if (to != (const uint8_t *)words)
			__builtin_memcpy(to, words, (size_t)count * WEFT_APE_WORD_BYTES);
		return;
	}
	for (unsigned int i = 0; i < count; i++)
		weft_ape_word_store(words[i], to + (size_t)i * WEFT_APE_WORD_BYTES);
}

/* ---- Looking for MAGIC ---- */

static inline bool weft_ape_is_magic(struct weft_ape_word w)
{
	return w.lo == WEFT_APE_MAGIC && w.hi == WEFT_APE_MAGIC;
}

#define WEFT_APE_LOOK 16u

/* Whether one of WEFT_APE_LOOK words may be MAGIC. Half a word is seldom like it. */
static inline bool weft_ape_may_be_magic(const struct weft_ape_word *words)
{
#pragma GCC unroll 16
	for (unsigned int i = 0; i < WEFT_APE_LOOK; i++)
		if (words[i].lo == WEFT_APE_MAGIC)
			return true;
	return false;
}

/* How many of the words stand before the first that is MAGIC. */
static inline unsigned int weft_ape_before_magic(const struct weft_ape_word *words,
						 unsigned int count)
{
	unsigned int n = 0;

	while (count - n >= WEFT_APE_LOOK && !weft_ape_may_be_magic(words + n))
		n += WEFT_APE_LOOK;
	for (; n < count; n++)
		if (weft_ape_is_magic(words[n]))
			break;
	return n;
}

/* MAGIC and START fill a beat. */
static inline bool weft_ape_beat_is(const struct weft_ape_beat *beat, uint64_t pattern,
				    unsigned int quads)
{
	uint64_t differ = 0;

	for (unsigned int i = 0; i < quads; i++)
		differ |= beat->quad[i] ^ pattern;
	return !differ;
}

#endif
