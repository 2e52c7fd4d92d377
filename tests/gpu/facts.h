/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Questions to a libcuda, whose answers are lines `fact TAB answer` on standard output: names of errors and
 * what does not differ from run to run. facts.tsv has what hardware says; test_facts.py compares the
 * stand-in's answers with it. Each group of questions has a process of its own, with CUDA not begun.
 */
#ifndef WEFT_TESTS_GPU_FACTS_H
#define WEFT_TESTS_GPU_FACTS_H

#include <setjmp.h>
#include <stdio.h>

#include "gpu.h"

/* Says what the call answers, or that it ends by SIGSEGV. */
#define ASK(fact, call)                                                                            \
	do {                                                                                       \
		facts_guarded = 1;                                                                 \
		if (sigsetjmp(facts_escape, 1))                                                    \
			facts_say(fact, "SIGSEGV");                                                \
		else                                                                               \
			facts_say(fact, gpu_error(call));                                          \
		facts_guarded = 0;                                                                 \
	} while (0)
#define TELL(fact, value) facts_say_number(fact, (long long)(value))

extern sigjmp_buf facts_escape;
extern _Atomic int facts_guarded;
extern const char *facts_image; /* of kernels.c */
void facts_say(const char *fact, const char *answer);
void facts_say_number(const char *fact, long long answer);

/* ---- facts_memory.c: kinds of memory, which other groups ask about, too ---- */

#define FACTS_BYTES (2ul << 20)
enum facts_kind {
	FACTS_LEGACY,
	FACTS_POOL,
	FACTS_MANAGED,
	FACTS_VMM, /* cuMemMap, of a handle that cannot be exported */
	FACTS_VMM_FD,
	FACTS_HOST,
	FACTS_REGISTERED,
	FACTS_PAGEABLE,
	FACTS_KINDS,
};
extern const char *const facts_kinds[FACTS_KINDS];
/* FACTS_BYTES of that kind, in the current context. */
weft_cu_ptr facts_memory(enum facts_kind kind);
weft_cu_memory facts_handle(bool exportable);

/* ---- the groups ---- */

void facts_before_init(void);
void facts_no_context(void);
void facts_alloc(void);
void facts_attributes(void);
void facts_copies(void);
void facts_register(void);
void facts_contexts(void);
void facts_foreign(void);
void facts_destroyed(void);
void facts_streams(void);
void facts_vmm(void);
void facts_cpu(void);
void facts_dmabuf(void);
void facts_ipc(void);
void facts_fork(void);
void facts_exit(void);
void facts_kernels(void);
void facts_beside(void); /* a kernel that runs */
void facts_held(void);	 /* the context, by a thread */
void facts_fault(void);
void facts_sides(void);
void facts_pairs(void); /* of two devices */

#endif
