/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The libcuda of this process, if the program has brought one. Nothing is loaded, and the loader's lock is
 * not taken: a thread that is just loading Weft, and waits for another, may hold it.
 */
#ifndef WEFT_CUDA_FIND_H
#define WEFT_CUDA_FIND_H

#include "cuda/driver.h"

/*
 * Fills in the calls of the libcuda.so that is among the process's objects. 0; -ENOENT: there is none;
 * -ENOSYS: it lacks a call, which *lacks then names (it may be NULL). The calls are good for as long as the
 * program does not unload it. Any thread, no lock.
 */
int weft_cuda_find(struct weft_cuda *cuda, const char **lacks);

#endif
