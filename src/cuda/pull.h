/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the host and the pull kernel (pull_kernel.c) have in common: a ring in the host's memory, of things to copy from the host's room to
 * the same places of a GPU's memory. The kernel takes them in order, each by all its warps.
 *
 * word    | writer | transition                  | order
 * `turn`  | host   | to the next number          | release, after the entry's other words; the kernel's acquire
 * `done`  | kernel | to the entry's `turn`       | release, after the bytes and the word; the host's acquire
 *
 * Stale values: a kernel that reads an old `turn` looks again; so does a host that reads an old `done`. An entry is
 * written anew when the host has read its `done`.
 */
#ifndef WEFT_CUDA_PULL_H
#define WEFT_CUDA_PULL_H

#include <stdint.h>

#define WEFT_PULL_ENTRIES 256u

struct weft_pull_entry {
	uint64_t offset[2], bytes[2]; /* two parts */
	uint64_t word_at,
		word; /* stored behind both: an offset, and what. 0 and 0: the kernel ends */
	uint64_t turn, reserved;
};

struct weft_pull_ring {
	struct weft_pull_entry entry[WEFT_PULL_ENTRIES];
	uint64_t done[WEFT_PULL_ENTRIES];
};

/* In the GPU's memory, all zeros at first: what one warp has read of the ring, for all others; how many of these have copied their share;
 * and that the last entry has come. */
struct weft_pull_relay {
	struct weft_pull_entry entry[WEFT_PULL_ENTRIES];
	uint64_t count[WEFT_PULL_ENTRIES];
	uint64_t ended;
};

struct weft_pull_args {
	uint64_t ring, host, gpu, bytes;
	uint64_t relay; /* a struct weft_pull_relay */
};

#endif
