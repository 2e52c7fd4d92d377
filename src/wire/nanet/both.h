/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* WEFT_BOTH stands before each function that CPUs call and kernels of GPUs do, too. */
#ifndef WEFT_WIRE_NANET_BOTH_H
#define WEFT_WIRE_NANET_BOTH_H

#ifdef __CUDACC__
#define WEFT_BOTH __host__ __device__
#else
#define WEFT_BOTH
#endif

#endif
