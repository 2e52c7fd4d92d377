/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CRC-32C: by products of long runs (link/fold.h), by the processor's instruction where there is one, else by a table. The instruction
 * waits three clocks for itself, so that of a long run three parts go side by side; a product moves what a part leaves over the
 * next. Products of 32 bytes are as fast as that, and another part of the processor makes them: both at once take half the time.
 */
#include "link/crc32c.h"

#include <string.h>

#include "link/fold.h"

#define POLYNOMIAL 0x82f63b78u

static uint32_t table[256];

static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t count)
{
	while (count--)
		crc = crc >> 8 ^ table[(crc ^ *at++) & 255];
	return crc;
}

__attribute__((constructor)) static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t rest = i;

		for (int bit = 0; bit < 8; bit++)
			rest = rest & 1 ? rest >> 1 ^ POLYNOMIAL : rest >> 1;
		table[i] = rest;
	}
}

#ifdef __x86_64__
#define CRCS	   __attribute__((target("sse4.2,pclmul")))
#define BOTH	   __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))

#define WORD	   sizeof(uint64_t)
#define PARTS	   3u
#define PART_BYTES 336u /* four times three parts are a payload of 4,096 bytes, but 64 */
#define LINE	   64u
#define STEP	   (3 * WORD) /* of each part, while a line is folded: either takes as long */
#define STEPS	   29u	      /* with the line in front a payload, but 88 bytes */
#define LONG_BYTES (STEPS * STEP)
#define BOTH_BYTES (LINE + STEPS * LINE + PARTS * LONG_BYTES)

static struct weft_fold fold;
/* What moves a register over one part, two, and three. */
static uint64_t over_parts[PARTS], over_long_parts[PARTS];

__attribute__((constructor)) static void make_powers(void)
{
	weft_fold_init(&fold, POLYNOMIAL);
	for (unsigned int n = 0; n < PARTS; n++) {
		over_parts[n] = weft_fold_over(POLYNOMIAL, (n + 1) * PART_BYTES);
		over_long_parts[n] = weft_fold_over(POLYNOMIAL, (n + 1) * LONG_BYTES);
	}
}

static inline CRCS uint64_t one_word(uint64_t sum, const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return __builtin_ia32_crc32di(sum, word);
}

/* Of a register, moved over what the power says: what is still to be taken modulo the polynomial. */
static inline CRCS uint64_t moved(uint64_t sum, uint64_t over)
{
	return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(
		_mm_cvtsi64_si128((long long)sum), _mm_cvtsi64_si128((long long)over), 0x00));
}

/* The next word of each part. */
static inline CRCS void sum_words(uint64_t sum[PARTS], const uint8_t *at, size_t part_bytes)
{
	sum[0] = one_word(sum[0], at);
	sum[1] = one_word(sum[1], at + part_bytes);
	sum[2] = one_word(sum[2], at + 2 * part_bytes);
}

/* Three parts; the register is sum[0] before the first, and 0 before the others. */
static inline CRCS uint64_t joined(const uint64_t sum[PARTS], const uint64_t over[PARTS])
{
	return __builtin_ia32_crc32di(0, moved(sum[0], over[1]) ^ moved(sum[1], over[0])) ^ sum[2];
}

static CRCS uint64_t by_parts(uint64_t crc, const uint8_t *at)
{
	uint64_t sum[PARTS] = {crc};

	for (size_t i = 0; i < PART_BYTES; i += WORD)
		sum_words(sum, at + i, PART_BYTES);
	return joined(sum, over_parts);
}

/* ---- Both at once ---- */

struct line {
	__m256i x, y;
};

static inline BOTH struct line line_at(const uint8_t *at)
{
	return (struct line){_mm256_loadu_si256((const __m256i *)at),
			     _mm256_loadu_si256((const __m256i *)(at + LINE / 2))};
}

static inline BOTH __m256i powers_in_halves(const uint64_t powers[2])
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)powers));
}

static inline BOTH struct line fold_line(struct line l, __m256i by_512, const uint8_t *at)
{
	struct line next = line_at(at);

	return (struct line){weft_fold_into_half(l.x, by_512, next.x),
			     weft_fold_into_half(l.y, by_512, next.y)};
}

/* What a line leaves, if the register is 0 before it. */
static inline BOTH uint64_t sum_of(struct line l)
{
	__m256i half = weft_fold_into_half(l.x, powers_in_halves(fold.by_256), l.y);
	__m128i last = weft_fold_into(_mm256_castsi256_si128(half),
				      _mm_loadu_si128((const __m128i *)fold.by_128),
				      _mm256_extracti128_si256(half, 1));
	uint64_t sum = __builtin_ia32_crc32di(0, (uint64_t)_mm_cvtsi128_si64(last));

	return __builtin_ia32_crc32di(sum, (uint64_t)_mm_extract_epi64(last, 1));
}

/* At least BOTH_BYTES. How many were taken, all but less than a line: *taken. */
static BOTH uint64_t by_both(uint64_t crc, const uint8_t *at, size_t count, size_t *taken)
{
	const __m256i by_512 = powers_in_halves(fold.by_512);
	const uint8_t *part, *end;
	struct line line = line_at(at);
	uint64_t sum[PARTS] = {0}, folded;

	*taken = BOTH_BYTES + (count - BOTH_BYTES) / LINE * LINE;
	end = at + *taken;
	line.x = _mm256_xor_si256(line.x, _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)crc)));
	for (at += LINE; (size_t)(end - at) > BOTH_BYTES - LINE; at += LINE)
		line = fold_line(line, by_512, at);
	for (part = at + STEPS * LINE; at < end - PARTS * LONG_BYTES; at += LINE, part += STEP) {
		line = fold_line(line, by_512, at);
		sum_words(sum, part, LONG_BYTES);
		sum_words(sum, part + WORD, LONG_BYTES);
		sum_words(sum, part + 2 * WORD, LONG_BYTES);
	}
	folded = __builtin_ia32_crc32di(0, moved(sum_of(line), over_long_parts[2]));
	return folded ^ joined(sum, over_long_parts);
}

/* ---- Runs ---- */

static CRCS uint32_t by_instruction(uint32_t crc, const uint8_t *at, size_t count)
{
	uint8_t rest[WEFT_FOLD_BYTES];
	uint64_t sum = crc;
	size_t taken;

	if (weft_folds_wide && count >= WEFT_FOLD_LEAST) {
		taken = weft_fold_wide(&fold, crc, at, count, rest);
		sum = one_word(one_word(0, rest), rest + WORD);
		at += taken;
		count -= taken;
	} else if (weft_folds_half && count >= BOTH_BYTES) {
		sum = by_both(sum, at, count, &taken);
		at += taken;
		count -= taken;
	}
	for (; count >= PARTS * PART_BYTES; count -= PARTS * PART_BYTES, at += PARTS * PART_BYTES)
		sum = by_parts(sum, at);
	for (; count >= WORD; count -= WORD, at += WORD)
		sum = one_word(sum, at);
	return by_table((uint32_t)sum, at, count);
}
#endif

uint32_t weft_crc32c(uint32_t crc, const void *bytes, size_t count)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
		return ~by_instruction(~crc, bytes, count);
#endif
	return ~by_table(~crc, bytes, count);
}
