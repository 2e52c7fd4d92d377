/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a test may tell the soft GPU, beside the driver API: found by dlsym in its libcuda.so.1, where a
 * real one has none of it. WEFT_SOFT_GPU_SEED in the environment repeats a run's order of pieces; WEFT_SOFT_GPU_CONTEXTS says for how many
 * contexts of cuCtxCreate there is room. */
#ifndef WEFT_SOFTGPU_H
#define WEFT_SOFTGPU_H

#include <stdbool.h>

/* While held, no operation of any stream of this process begins, whichever thread waits. May be called by any thread. */
__attribute__((visibility("default"))) void weft_soft_gpu_hold(bool hold);
/* How often this process has called cuStreamSynchronize. Any thread. */
__attribute__((visibility("default"))) unsigned long weft_soft_gpu_waits(void);
/* How many calls of this process wait at the moment for all work of a context, or for such a call. Any thread. */
__attribute__((visibility("default"))) unsigned int weft_soft_gpu_blocked(void);

#endif
