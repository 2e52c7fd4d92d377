/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a worker's arena lies. A program of the model has one such table, `worker_memory`: the processes' own memory in
 * one piece (host.c), or slabs of memory of several kinds, of GPUs among them (kinds.c).
 */
#ifndef WEFT_TESTS_MODEL_MEMORY_H
#define WEFT_TESTS_MODEL_MEMORY_H

#include "board.h"

struct worker_memory {
	uint32_t slab_bytes; /* what lies together, and no region leaves; ARENA_BYTES: all does */
	/* Called once, when the device is open. */
	void (*begin)(struct worker *w);
	/* The address of the arena's byte there; the rest of its slab follows it. */
	uint8_t *(*at)(const struct worker *w, uint32_t at);
	void (*write)(const struct worker *w, uint32_t at, const uint8_t *from, uint32_t bytes);
	/* All bytes as they are now, readable until the next call. */
	const uint8_t *(*read)(const struct worker *w);
	/* Bytes that inline requests of the step give, as they were before it. */
	const uint8_t *(*before)(const struct worker *w, uint32_t at);
	/* NULL: each request has been carried out, as far as it can be, when its step has ended. Else whether that is so now. */
	bool (*is_settled)(const struct worker *w);
};

extern const struct worker_memory worker_memory;

#endif
