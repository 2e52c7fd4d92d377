/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Words of the torus. Content (headers, payload, footers, credits) is words of 128 bits, bit 0 the
 * lowest; a cable carries beats of W bits, W = 64 × quads. Byte i of a payload is bits 8i to 8i + 7
 * of its word, whatever the machine's own order.
 */
#ifndef WEFT_WIRE_APE_WORD_H
#define WEFT_WIRE_APE_WORD_H

#include <stdbool.h>
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

static inline struct weft_ape_word weft_ape_word_load(const uint8_t bytes[WEFT_APE_WORD_BYTES])
{
	struct weft_ape_word w = {0};

	for (unsigned int i = 0; i < 8; i++) {
		w.lo |= (uint64_t)bytes[i] << 8 * i;
		w.hi |= (uint64_t)bytes[8 + i] << 8 * i;
	}
	return w;
}

static inline void weft_ape_word_store(struct weft_ape_word w, uint8_t bytes[WEFT_APE_WORD_BYTES])
{
	for (unsigned int i = 0; i < 8; i++) {
		bytes[i] = w.lo >> 8 * i;
		bytes[8 + i] = w.hi >> 8 * i;
	}
}

/* MAGIC and START fill a beat. */
static inline struct weft_ape_beat weft_ape_beat_of(uint64_t pattern, unsigned int quads)
{
	struct weft_ape_beat beat = {{0}};

	for (unsigned int i = 0; i < quads; i++)
		beat.quad[i] = pattern;
	return beat;
}

static inline bool weft_ape_beat_is(const struct weft_ape_beat *beat, uint64_t pattern,
				    unsigned int quads)
{
	uint64_t differ = 0;

	for (unsigned int i = 0; i < quads; i++)
		differ |= beat->quad[i] ^ pattern;
	return !differ;
}

#endif
