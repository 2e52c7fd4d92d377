/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Mutations: one-line mistakes that a test build of the plugin can be told to make (WEFT_MUTATION), so that
 * tests/gpu shows which test notices each. In the product there are none.
 */
#ifndef WEFT_CUDA_MUTATION_H
#define WEFT_CUDA_MUTATION_H

#include <stdbool.h>

#ifdef WEFT_MUTATIONS
bool weft_mutated(const char *name);
#define WEFT_MUTATED(label) weft_mutated(#label)
#else
#define WEFT_MUTATED(label) false
#endif

#endif
