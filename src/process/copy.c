/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The string copy that carries the bytes of a message: see struct weft_machine. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "process/copy.h"

#if defined(__x86_64__)

/* Below, and above, glibc's memmove takes no longer; in between it takes the string instruction, which is
 * slow to start (docs/decisions/0015-beside-others.md). */
#define LINES_LEAST 2048u
#define LINES_MOST  16384u

#define LINE	    64u
typedef uint64_t line_t __attribute__((vector_size(LINE), aligned(1), may_alias));

/* n: more than a line. To whole lines, but for the first and the last, which overlap others. */
static __attribute__((target("avx512f"))) void copy_lines(uint8_t *to, const uint8_t *from,
							  size_t n)
{
	*(line_t *)to = *(const line_t *)from;
	for (size_t at = LINE - (uintptr_t)to % LINE; at < n - LINE; at += LINE)
		*(line_t *)(to + at) = *(const line_t *)(from + at);
	*(line_t *)(to + n - LINE) = *(const line_t *)(from + n - LINE);
}

static inline bool may_copy_lines(const uint8_t *to, const uint8_t *from, size_t n)
{
	return n >= LINES_LEAST && n <= LINES_MOST && __builtin_cpu_supports("avx512f") &&
	       (uintptr_t)(to - from) >= n && (uintptr_t)(from - to) >= n;
}

/* Programs poll on what is written behind these bytes: that line comes while they are copied. Asked for
 * much sooner, it would be back with the poller by then. */
#define AHEAD 4096u

static void copy_and_ask(uint8_t *to, const uint8_t *from, size_t n)
{
	size_t first = n > 2 * AHEAD ? n - AHEAD : 0;

	if (first)
		copy_lines(to, from, first);
	__builtin_prefetch(to + n, 1);
	__builtin_prefetch(to + n + LINE - 1, 1);
	copy_lines(to + first, from + first, n - first);
}

void weft_copy_body(uint8_t *to, const uint8_t *from, size_t n)
{
	if (may_copy_lines(to, from, n))
		copy_and_ask(to, from, n);
	else
		memmove(to, from, n);
}

#else

void weft_copy_body(uint8_t *to, const uint8_t *from, size_t n)
{
	memmove(to, from, n);
}

#endif
