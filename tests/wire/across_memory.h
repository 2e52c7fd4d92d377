/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory of each kind, for across_verbs.c: `plain`; `shared`, a mapping of a file, which stays where it is; `half`, whose
 * second half is; `demand`, registered so; `inline`, plain, but that short messages go inline; `dm`, device memory; `gpu`, of a GPU;
 * `imported`, which another process has registered. Trouble ends the program with a line.
 */
#ifndef WEFT_TESTS_WIRE_ACROSS_MEMORY_H
#define WEFT_TESTS_WIRE_ACROSS_MEMORY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define ACROSS_INLINE 256u /* bytes that go inline at most */

struct across_memory {
	const char *kind;
	uint8_t *at; /* where the program sees it, or has a copy */
	uint64_t bytes;
	uint64_t va; /* its address for verbs */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
};

/* Makes memory, and opens the device in which it is; of one kind in a process's life. */
void across_memory_make(struct across_memory *m, const char *kind, uint64_t bytes);
void across_memory_register(struct across_memory *m, int access);
void across_memory_deregister(struct across_memory *m);
/* The copy from the memory, and to it, if there is one. */
void across_memory_pull(const struct across_memory *m);
void across_memory_push(const struct across_memory *m);
bool across_memory_is(const struct across_memory *m, const char *kind);

#endif
