/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/fold.h"

bool weft_folds_wide, weft_folds_half;

/* Modulo the polynomial; the coefficient of 1 is the highest bit. */
static uint32_t product(uint32_t polynomial, uint32_t a, uint32_t b)
{
	uint32_t sum = 0;

	for (; a; a <<= 1) {
		sum ^= a >> 31 ? b : 0;
		b = b >> 1 ^ (b & 1 ? polynomial : 0);
	}
	return sum;
}

static uint64_t reflected_power(uint32_t polynomial, unsigned int exponent)
{
	uint32_t power = 1u << 31, square = 1u << 30; /* t^0, t^1 */

	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			power = product(polynomial, power, square);
		square = product(polynomial, square, square);
	}
	return (uint64_t)power << 1;
}

static void set_powers(uint64_t to[2], uint32_t polynomial, unsigned int bits)
{
	to[0] = reflected_power(polynomial, bits + 32);
	to[1] = reflected_power(polynomial, bits - 32);
}

void weft_fold_init(struct weft_fold *fold, uint32_t polynomial)
{
	set_powers(fold->by_2048, polynomial, 2048);
	set_powers(fold->by_512, polynomial, 512);
	set_powers(fold->by_256, polynomial, 256);
	set_powers(fold->by_128, polynomial, 128);
}

uint64_t weft_fold_over(uint32_t polynomial, unsigned int bytes)
{
	return reflected_power(polynomial, 8 * bytes - 32);
}

#ifdef __x86_64__
#define WIDE	__attribute__((target("avx512f,avx512dq,pclmul,vpclmulqdq")))

#define AT_ONCE 256u /* four by four lanes, which hides how long a product takes */
#define LANES	64u

static void __attribute__((constructor)) look_at_processor(void)
{
	weft_folds_half = __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2") &&
			  __builtin_cpu_supports("pclmul");
	weft_folds_wide = weft_folds_half && __builtin_cpu_supports("avx512dq");
}

static inline WIDE __m512i powers_in_lanes(const uint64_t powers[2])
{
	return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)powers));
}

static inline WIDE __m512i fold_lanes(__m512i x, __m512i powers, __m512i next)
{
	__m512i earlier = _mm512_clmulepi64_epi128(x, powers, 0x00),
		later = _mm512_clmulepi64_epi128(x, powers, 0x11);

	return _mm512_xor_si512(_mm512_xor_si512(earlier, later), next);
}

/* As many lines of 64 bytes as there are, into one. */
static inline WIDE __m512i fold_lines(const struct weft_fold *fold, uint32_t crc, const uint8_t *at,
				      size_t lines)
{
	const __m512i far = powers_in_lanes(fold->by_2048), near = powers_in_lanes(fold->by_512);
	__m512i x = _mm512_loadu_si512(at), y = _mm512_loadu_si512(at + LANES),
		z = _mm512_loadu_si512(at + 2 * LANES), w = _mm512_loadu_si512(at + 3 * LANES);

	x = _mm512_xor_si512(x, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	for (at += AT_ONCE, lines -= 4; lines >= 4; at += AT_ONCE, lines -= 4) {
		x = fold_lanes(x, far, _mm512_loadu_si512(at));
		y = fold_lanes(y, far, _mm512_loadu_si512(at + LANES));
		z = fold_lanes(z, far, _mm512_loadu_si512(at + 2 * LANES));
		w = fold_lanes(w, far, _mm512_loadu_si512(at + 3 * LANES));
	}
	x = fold_lanes(fold_lanes(fold_lanes(x, near, y), near, z), near, w);
	for (; lines; at += LANES, lines--)
		x = fold_lanes(x, near, _mm512_loadu_si512(at));
	return x;
}

WIDE size_t weft_fold_wide(const struct weft_fold *fold, uint32_t crc, const uint8_t *at,
			   size_t bytes, uint8_t rest[WEFT_FOLD_BYTES])
{
	const __m128i near = _mm_loadu_si128((const __m128i *)fold->by_128);
	size_t done = bytes / LANES * LANES;
	__m512i lanes = fold_lines(fold, crc, at, bytes / LANES);
	__m128i x = _mm512_castsi512_si128(lanes);

	x = weft_fold_into(x, near, _mm512_extracti64x2_epi64(lanes, 1));
	x = weft_fold_into(x, near, _mm512_extracti64x2_epi64(lanes, 2));
	x = weft_fold_into(x, near, _mm512_extracti64x2_epi64(lanes, 3));
	for (; bytes - done >= WEFT_FOLD_BYTES; done += WEFT_FOLD_BYTES)
		x = weft_fold_into(x, near, _mm_loadu_si128((const __m128i *)(at + done)));
	_mm_storeu_si128((__m128i *)rest, x);
	return done;
}
#else
size_t weft_fold_wide(const struct weft_fold *fold, uint32_t crc, const uint8_t *at, size_t bytes,
		      uint8_t rest[WEFT_FOLD_BYTES])
{
	return 0;
}
#endif
