/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The libcuda of this process, as the tests of tests/gpu/ call it: the stand-in of tests/softgpu/, or a real
 * one. They run unchanged on both.
 */
#ifndef WEFT_TESTS_GPU_H
#define WEFT_TESTS_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/driver.h"

extern struct weft_cuda cu;
/* Holds back, or lets go, what the device has to do. Only the stand-in has it; NULL on hardware. */
extern void (*gpu_hold)(bool hold);
/* How often this process has waited for a stream; likewise. */
extern unsigned long (*gpu_waits)(void);
/* How many of this process's calls wait for its kernels at the moment, or for a call that does; likewise. */
extern unsigned int (*gpu_blocked)(void);

/* Fills in `cu` and those three; false: there is no libcuda.so.1. */
bool gpu_load(void);
/* The name of the error, or its number if it has none, until the next call. */
const char *gpu_error(weft_cu_result result);
/* A new context of device 0, which is then current. Ends the program if there is none. */
weft_cu_context gpu_context(void);
/* A file of kernels, as cuModuleLoadData takes it: to be freed. */
void *gpu_image(const char *path);
/* The module of that file in the current context. Ends the program if it cannot be loaded. */
weft_cu_module gpu_module(const char *path);

/* Pinned memory of the host, all 0, and memory of the current context's device. End the program if there is
 * none. */
void *gpu_pinned(size_t bytes);
weft_cu_ptr gpu_alloc(size_t bytes);

/* Ends the program if the call fails. */
#define GPU_OK(call) gpu_ok((call), #call)
void gpu_ok(weft_cu_result result, const char *call);

#endif
