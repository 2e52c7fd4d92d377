/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the host and the pull kernel (pull_kernel.c) have in common: a ring in the host's memory, of things to copy from the host's room to
 * the same places of a GPU's memory, each in whatever order. The kernel takes them up in order: one warp looks at the ring, at several lines at
 * once, since a look from the GPU takes as long as a copy. What is small, and has nothing behind it yet, it copies itself; all else it tells the
 * others in the GPU's memory. They are teams, each of which copies a turn while the others copy the next ones.
 *
 * Each word of a line has the tag of the line's turn, so that one look, of all its words at once, tells whether all have come.
 *
 * word    | writer | transition                     | order
 * a line  | host   | to the next turn's             | relaxed, behind a release fence; the kernel's acquire, of each word
 * `done`  | kernel | to the line's turn             | release, after the bytes and the word; the host's acquire
 *
 * Stale values: a kernel that sees a word of an old tag looks again; so does a host that reads an old `done`. A line is
 * written anew when the host has read its `done`: so tags, of 16 bits, are never a whole round apart.
 */
#ifndef WEFT_CUDA_PULL_H
#define WEFT_CUDA_PULL_H

#include <stdint.h>

#define WEFT_PULL_ENTRIES   256u
#define WEFT_PULL_ALONE	    4096u /* bytes of both parts that one warp copies */
#define WEFT_PULL_TAG_SHIFT 48u
#define WEFT_PULL_VALUE	    ((1ull << WEFT_PULL_TAG_SHIFT) - 1)

/* The words of a line: two parts, as offset and bytes; an offset, and what is stored there behind both parts, in two halves
 * (all 0: the kernel ends); its turn on the host's ring. */
enum {
	WEFT_PULL_OFFSET = 0,
	WEFT_PULL_BYTES = 2,
	WEFT_PULL_WORD_AT = 4,
	WEFT_PULL_WORD = 5,
	WEFT_PULL_TURN = 7,
	WEFT_PULL_WORDS = 8,
};

struct weft_pull_line {
	uint64_t word[WEFT_PULL_WORDS];
} __attribute__((aligned(64)));

struct weft_pull_ring {
	struct weft_pull_line line[WEFT_PULL_ENTRIES];
	uint64_t done[WEFT_PULL_ENTRIES];
};

/* In the GPU's memory, all zeros at first: the lines that one warp has read of the ring for all others, with turns of their own; how many
 * warps of a line's team have copied their share; and how many lines are done. */
struct weft_pull_relay {
	struct weft_pull_line line[WEFT_PULL_ENTRIES];
	uint64_t count[WEFT_PULL_ENTRIES];
	uint64_t finished;
};

struct weft_pull_args {
	uint64_t ring, host, gpu, bytes;
	uint64_t relay; /* a struct weft_pull_relay */
	uint64_t team;	/* warps, at least, if there are as many */
};

/* Where turns, from 1 on, have their lines; no line is that of turn 0. */
#define WEFT_PULL_TAG(turn) (((turn) / WEFT_PULL_ENTRIES + 1) << WEFT_PULL_TAG_SHIFT)

#endif
