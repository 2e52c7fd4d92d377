/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What CUDA knows about memory, and whether that is still the same: an address of a device does not identify an allocation,
 * since the next one may get it; the id that CUDA gives to each allocation is never used twice. Any thread, with a
 * context or without one; takes no lock of Weft's.
 */
#ifndef WEFT_CUDA_MEMORY_H
#define WEFT_CUDA_MEMORY_H

#include <stdbool.h>

#include "cuda/driver.h"

enum weft_cuda_kind {
	WEFT_CUDA_UNKNOWN, /* nothing of it is CUDA's: the program's own */
	WEFT_CUDA_PINNED,  /* the host's, registered or allocated by CUDA: its pages stay */
	WEFT_CUDA_MANAGED, /* the CPU reaches it, too */
	WEFT_CUDA_DEVICE,
};

/* One allocation, or one mapping of several that follow each other. */
struct weft_cuda_part {
	weft_cu_ptr start;
	size_t bytes;
	unsigned long long id;
};

struct weft_cuda_memory {
	enum weft_cuda_kind kind;
	int device; /* whose memory it is; of PINNED: whose context's */
	weft_cu_context
		context; /* to be current for copies; NULL: it has none, any of the device */
	bool exportable; /* by cuIpcGetMemHandle */
	struct weft_cuda_part *part; /* in rising order, without gaps */
	unsigned int parts;
};

/*
 * Looks at [at, at + bytes), bytes > 0, but for what whole pages have too much. 0, then *memory is to be ended by
 * weft_cuda_forget; -EFAULT: it is
 * partly CUDA's and partly not, or of two kinds or devices; -ENOMEM; -EIO: CUDA answers neither yes nor no,
 * as behind a fork or at the process's end.
 */
int weft_cuda_look(const struct weft_cuda *cuda, weft_cu_ptr at, size_t bytes,
		   struct weft_cuda_memory *memory);
void weft_cuda_forget(struct weft_cuda_memory *memory);

/* Whether the memory that was looked at is still there, not freed, nor its addresses given to others. */
bool weft_cuda_is_still(const struct weft_cuda *cuda, const struct weft_cuda_memory *memory);

/* Whether CUDA knows any byte of host memory there: it may be pinned, and must stay where it is. True if
 * CUDA does not answer. */
bool weft_cuda_may_pin(const struct weft_cuda *cuda, weft_cu_ptr at, size_t bytes);

/* The same for whole pages, bytes > 0: [*from, *end) is the first run of them of which it knows a byte, in one allocation or
 * registration; of a process that has not begun CUDA, or is the child of one that has, it knows none. */
bool weft_cuda_pinned_run(const struct weft_cuda *cuda, weft_cu_ptr at, size_t bytes,
			  uint64_t *from, uint64_t *end);

#endif
