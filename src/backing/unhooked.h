/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The memory calls for the program's own addresses, past libc. Caches of registrations (UCX's, Open MPI's) put
 * hooks into libc's functions: ours would look to them as if the program had unmapped what it is registering, and
 * UCX's mremap loses the new address. To the program, memory that migrates into the pool and back stays mapped; no
 * hook is to be told. Results and errno as libc's.
 */
#ifndef WEFT_BACKING_UNHOOKED_H
#define WEFT_BACKING_UNHOOKED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline void *weft_unhooked_mmap(void *at, size_t len_bytes, int prot, int flags, int fd,
				       off_t off)
{
	return (void *)syscall(SYS_mmap, at, len_bytes, prot, flags, fd, off);
}

static inline int weft_unhooked_munmap(void *at, size_t len_bytes)
{
	return (int)syscall(SYS_munmap, at, len_bytes);
}

/* The length stays; to: where to with MREMAP_FIXED, else unused. */
static inline void *weft_unhooked_mremap(void *at, size_t len_bytes, int flags, uintptr_t to)
{
	return (void *)syscall(SYS_mremap, at, len_bytes, len_bytes, flags, to);
}

/* The same pages of a shared mapping once more, elsewhere. */
static inline void *weft_unhooked_alias(void *at, size_t len_bytes)
{
	return (void *)syscall(SYS_mremap, at, 0ul, len_bytes, MREMAP_MAYMOVE, 0ul);
}

static inline int weft_unhooked_mprotect(void *at, size_t len_bytes, int prot)
{
	return (int)syscall(SYS_mprotect, at, len_bytes, prot);
}

static inline int weft_unhooked_madvise(void *at, size_t len_bytes, int advice)
{
	return (int)syscall(SYS_madvise, at, len_bytes, advice);
}

#endif
