/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Numbers that a seed decides: of the generator, the simulator and the tests. */
#ifndef WEFT_STREAM_RANDOM_H
#define WEFT_STREAM_RANDOM_H

#include <stdint.h>

static inline uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

#endif
