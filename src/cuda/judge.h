/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the host and the kernel that judges events (stream/rich/judge_kernel.c) have in common. A launch is of one buffer of a list in the
 * GPU's memory. Each of its warps goes through all headers, and takes a share of the datagrams; each lane decides on an event. Decisions
 * lie in the host's memory, by the number of the event in the buffer.
 *
 * word      | writer              | transition                  | order
 * `done`    | warp that ends last | to the launch's turn        | release, after all decisions and the other words; the host's acquire
 * `wrong`   | host                | 0, before the launch        | the launch's
 *           | any warp            | 1                           | before that warp counts itself; all write the same
 * `ended`   | warps               | grows; to 0 by the last one | relaxed, between fences
 *
 * Stale values: a host that reads an old `done` looks again.
 */
#ifndef WEFT_CUDA_JUDGE_H
#define WEFT_CUDA_JUDGE_H

#include <stdint.h>

/* In the host's memory. */
struct weft_judge_told {
	uint64_t done;
	uint64_t events;  /* decisions */
	uint64_t sent_ns; /* by the first datagram that has it; 0: none has */
	uint64_t
		wrong; /* not all are whole datagrams, for which there is room: no decision counts */
};

struct weft_judge_args {
	uint64_t data, bytes;
	uint64_t detector;
	uint64_t work,
		work_bytes; /* a struct weft_rings of each lane, or the part of it that is needed */
	uint64_t ended;	    /* a word in the GPU's memory */
	uint64_t told;
	uint64_t decision, room; /* for so many */
	uint64_t turn;
	uint32_t algorithm, drop;
};

#endif
