/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory of each kind that a program beside a GPU registers, and its bytes as the program itself sees them. */
#ifndef WEFT_TESTS_GPU_PLACE_H
#define WEFT_TESTS_GPU_PLACE_H

#include "../verbs/rig.h"

#include "gpu.h"

enum place_kind {
	PLACE_POOLED, /* the program's own, which moves when it is registered, or has moved before there was a libcuda */
	PLACE_HOST,	  /* the program's own, which stays in place */
	PLACE_PINNED,	  /* cuMemAllocHost */
	PLACE_REGISTERED, /* cuMemHostRegister */
	PLACE_MANAGED,	  /* cuMemAllocManaged */
	PLACE_GPU,	  /* cuMemAlloc */
	PLACE_ASYNC,	  /* cuMemAllocAsync */
	PLACE_MAPPED,	  /* cuMemMap of two handles */
	PLACE_OTHER, /* cuMemAlloc of the second device, in a context that is never current; if there is one */
	PLACE_OTHER_MAPPED, /* cuMemMap of one handle there */
	PLACE_KINDS,
};

extern const char *const place_names[PLACE_KINDS];

struct place {
	enum place_kind kind;
	uint8_t *at; /* NULL: there is none of that kind here */
	size_t bytes;
	struct ibv_mr *mr; /* with all rights */
	weft_cu_context other;
	weft_cu_memory memory[2];
};

/* Allocates memory of that kind. A context of device 0 must be current, but for PLACE_POOLED. */
void place_begin(struct place *place, enum place_kind kind, size_t bytes);
void place_register(struct place *place, struct ibv_pd *pd);
void place_end(struct place *place);

void place_write(const struct place *place, size_t at, const void *from, size_t bytes);
void place_read(const struct place *place, size_t at, void *to, size_t bytes);

/* Whether verbs reach it by a GPU's driver alone. */
static inline bool place_is_device(enum place_kind kind)
{
	return kind >= PLACE_MANAGED;
}

#endif
