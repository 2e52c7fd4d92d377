/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * CRC-32, and products without carries. Where the processor has those (x86, PCLMULQDQ) long runs of bytes are folded: 16 bytes
 * that stand so many bits before others are, modulo the polynomial, their product with that power of t, and join
 * those. What remains of a run is 16 bytes, which the table takes, as it does short runs. Where it has them four by four, long runs are
 * folded so (link/fold.h).
 */
#include "card/math.h"

#include "link/fold.h"

#define POLYNOMIAL 0xedb88320u
#define AT_ONCE	   8

/* table[k][b]: what a byte b leaves that is followed by k zeros */
static uint32_t table[AT_ONCE][256];
static struct weft_fold fold;

static void __attribute__((constructor)) fill_table(void)
{
	weft_fold_init(&fold, POLYNOMIAL);
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[0][byte] = crc;
	}
	for (int k = 1; k < AT_ONCE; k++)
		for (uint32_t byte = 0; byte < 256; byte++)
			table[k][byte] =
				table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 0xff];
}

/* The register after these bytes. */
static uint32_t crc_bytes(uint32_t crc, const uint8_t *at, size_t bytes)
{
	for (; bytes >= AT_ONCE; bytes -= AT_ONCE, at += AT_ONCE) {
		uint64_t word;
		uint32_t next = 0;

		__builtin_memcpy(&word, at, sizeof(word));
		word ^= crc;
		for (int i = 0; i < AT_ONCE; i++)
			next ^= table[AT_ONCE - 1 - i][word >> 8 * i & 0xff];
		crc = next;
	}
	if (bytes >= 4) { /* packets are of whole words */
		uint32_t word;

		__builtin_memcpy(&word, at, sizeof(word));
		word ^= crc;
		crc = table[3][word & 0xff] ^ table[2][word >> 8 & 0xff] ^
		      table[1][word >> 16 & 0xff] ^ table[0][word >> 24];
		at += 4;
		bytes -= 4;
	}
	while (bytes--)
		crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
	return crc;
}

#if defined(__x86_64__)
#define FOLDED_LEAST 32u

static inline WEFT_FOLDS __m128i load_sixteen(const void *at)
{
	return _mm_loadu_si128(at);
}

static WEFT_FOLDS uint32_t crc_folded(uint32_t crc, const uint8_t *at, size_t bytes)
{
	const __m128i far = load_sixteen(fold.by_512), near = load_sixteen(fold.by_128);
	__m128i x = _mm_xor_si128(load_sixteen(at), _mm_cvtsi32_si128((int)crc));
	uint8_t rest[WEFT_FOLD_BYTES];

	at += 16;
	bytes -= 16;
	if (bytes >= 112) { /* four at once, which hides how long a product takes */
		__m128i y = load_sixteen(at), z = load_sixteen(at + 16), w = load_sixteen(at + 32);

		for (at += 48, bytes -= 48; bytes >= 64; at += 64, bytes -= 64) {
			x = weft_fold_into(x, far, load_sixteen(at));
			y = weft_fold_into(y, far, load_sixteen(at + 16));
			z = weft_fold_into(z, far, load_sixteen(at + 32));
			w = weft_fold_into(w, far, load_sixteen(at + 48));
		}
		x = weft_fold_into(weft_fold_into(weft_fold_into(x, near, y), near, z), near, w);
	}
	for (; bytes >= 16; at += 16, bytes -= 16)
		x = weft_fold_into(x, near, load_sixteen(at));
	_mm_storeu_si128((__m128i *)rest, x);
	return crc_bytes(crc_bytes(0, rest, sizeof(rest)), at, bytes);
}

static uint32_t crc_of_long(uint32_t crc, const uint8_t *at, size_t bytes)
{
	uint8_t rest[WEFT_FOLD_BYTES];
	size_t folded;

	if (!weft_folds_wide || bytes < WEFT_FOLD_LEAST)
		return crc_folded(crc, at, bytes);
	folded = weft_fold_wide(&fold, crc, at, bytes, rest);
	return crc_bytes(crc_bytes(0, rest, sizeof(rest)), at + folded, bytes - folded);
}

static bool can_multiply(void)
{
	return __builtin_cpu_supports("pclmul");
}

static WEFT_FOLDS uint64_t carryless(uint32_t a, uint32_t b)
{
	return (uint64_t)_mm_cvtsi128_si64(
		_mm_clmulepi64_si128(_mm_cvtsi64_si128(a), _mm_cvtsi64_si128(b), 0));
}
#else
#define FOLDED_LEAST SIZE_MAX

static uint32_t crc_of_long(uint32_t crc, const uint8_t *at, size_t bytes)
{
	return crc_bytes(crc, at, bytes);
}

static bool can_multiply(void)
{
	return false;
}

static uint64_t carryless(uint32_t a, uint32_t b)
{
	return 0;
}
#endif

static uint32_t crc32(uint32_t crc, const uint8_t *at, size_t bytes)
{
	return ~(bytes >= FOLDED_LEAST && can_multiply() ? crc_of_long(~crc, at, bytes)
							 : crc_bytes(~crc, at, bytes));
}

/* Four bits of `b` at a time, where the processor cannot. */
static uint64_t clmul(uint32_t a, uint32_t b)
{
	uint64_t of[16] = {0}, product = 0;

	if (can_multiply())
		return carryless(a, b);
	for (uint32_t i = 1; i < 16; i++)
		of[i] = of[i >> 1] << 1 ^ (i & 1 ? a : 0);
	for (int shift = 28; shift >= 0; shift -= 4)
		product = product << 4 ^ of[b >> shift & 15];
	return product;
}

const struct weft_roce_math weft_card_math = {crc32, clmul};
