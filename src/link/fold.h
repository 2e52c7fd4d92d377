/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Long runs of bytes under a CRC of 32 bits (reflected, as CRC-32 and CRC-32C are), 256 at a time: by products without carries of
 * 64 bytes each, where the processor has those (x86, VPCLMULQDQ). 16 bytes that stand so many bits before others are, modulo the
 * polynomial, their product with that power of t, and join those.
 */
#ifndef WEFT_LINK_FOLD_H
#define WEFT_LINK_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_FOLD_LEAST 256u /* bytes of a run that is worth it */
#define WEFT_FOLD_BYTES 16u

/* Powers of t for the two halves of 16 bytes, the earlier one first, that go so many bits on: t^(bits + 32) and
 * t^(bits - 32) modulo the polynomial, the coefficient of 1 at 2^32. */
struct weft_fold {
	uint64_t by_2048[2], by_512[2], by_256[2], by_128[2];
};

/* Whether this processor has products of 64 bytes, and whether it has those of 32. Tests of what others do say that it has none. */
extern bool weft_folds_wide, weft_folds_half;

/* polynomial: without its highest coefficient, the others from bit 31 down. */
void weft_fold_init(struct weft_fold *fold, uint32_t polynomial);

/* The power by whose product with the register, of which the lower half counts, that goes over so many bytes of zeros. */
uint64_t weft_fold_over(uint32_t polynomial, unsigned int bytes);

/* Folds a run of at least WEFT_FOLD_LEAST bytes behind which crc is the register: `rest` leaves what the bytes leave that were
 * taken, if the register is 0 before it. How many were taken: all but fewer than 16. Only if weft_folds_wide. */
size_t weft_fold_wide(const struct weft_fold *fold, uint32_t crc, const uint8_t *at, size_t bytes,
		      uint8_t rest[WEFT_FOLD_BYTES]);

#ifdef __x86_64__
#include <immintrin.h>

#define WEFT_FOLDS __attribute__((target("pclmul,sse2")))

/* 16 bytes, as far on as the powers say, and what stands there. */
static inline WEFT_FOLDS __m128i weft_fold_into(__m128i x, __m128i powers, __m128i next)
{
	__m128i earlier = _mm_clmulepi64_si128(x, powers, 0x00),
		later = _mm_clmulepi64_si128(x, powers, 0x11);

	return _mm_xor_si128(_mm_xor_si128(earlier, later), next);
}

#define WEFT_FOLDS_HALF __attribute__((target("avx2,pclmul,vpclmulqdq")))

/* The same of 32 bytes. Only if weft_folds_half. */
static inline WEFT_FOLDS_HALF __m256i weft_fold_into_half(__m256i x, __m256i powers, __m256i next)
{
	__m256i earlier = _mm256_clmulepi64_epi128(x, powers, 0x00),
		later = _mm256_clmulepi64_epi128(x, powers, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(earlier, later), next);
}
#endif

#endif
