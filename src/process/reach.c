/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory that is not in the pool: by the kernel's process_vm calls where they are allowed, else by the helper of
 * its owner (ask.c, late.c). Atomics are always the owner's.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "migrate/vma.h"
#include "pool/format_member.h"
#include "pool/format_region.h"
#include "pool/slice.h"
#include "process/ask.h"
#include "process/device.h"
#include "process/process.h"

/* Asked before any byte, as the executor may have stood still since its grant and key were found. */
int weft_reach_check(const struct weft_pool *pool, const struct weft_in_place *memory)
{
	const _Atomic uint64_t *id = &pool->mrs[(uint32_t)memory->id >> WEFT_KEY_BITS].id;

	if (atomic_load_explicit(memory->grant->word, memory_order_acquire) != memory->grant->was)
		return -ESRCH;
	return atomic_load_explicit(id, memory_order_acquire) == memory->id ? 0 : -EACCES;
}

int weft_reach_fill(struct weft_pool *pool, const struct weft_in_place *memory, uint8_t *bounce,
		    uint8_t *here, uint64_t len_bytes, bool write)
{
	if (memory->here_id)
		return weft_device_copy(pool, memory->here_id, (uintptr_t)here, bounce, len_bytes,
					!write)
			       ? -ENXIO
			       : 0;
	memcpy(write ? bounce : here, write ? here : bounce, len_bytes);
	return 0;
}

/* Whether those bytes here can be read, or written. */
static bool is_mapped(const void *here, uint64_t len_bytes, int prot)
{
	uintptr_t at = (uintptr_t)here, end = at + len_bytes;
	struct weft_vma_walk walk;
	struct weft_vma vma;

	if (weft_vma_open(&walk))
		return true; /* cannot tell */
	while (at < end && !weft_vma_next(&walk, at, &vma) && vma.start <= at && vma.prot & prot)
		at = vma.end;
	weft_vma_close(&walk);
	return at >= end;
}

int weft_reach_by_kernel(pid_t pid, uint64_t witness, uint64_t va, void *here, uint64_t len_bytes,
			 bool write)
{
	while (len_bytes) {
		uint8_t seen = 0;
		struct iovec local[2] = {{&seen, 1}, {here, len_bytes}};
		/* programs poll on the last byte: the kernel copies in any order, but one element
		 * after the other, all of one program */
		struct iovec remote[3] = {{(void *)(uintptr_t)witness, 1},
					  {(void *)(uintptr_t)va, len_bytes - 1},
					  {(void *)(uintptr_t)(va + len_bytes - 1), 1}};
		ssize_t n = write ? process_vm_writev(pid, local, 2, remote, 3, 0)
				  : process_vm_readv(pid, local, 2, remote, 3, 0);

		if (n < 0)
			return errno == EFAULT ? -ESRCH : -errno;
		if (n-- <= 1)
			return is_mapped(here, len_bytes, write ? PROT_READ : PROT_WRITE) ? -EFAULT
											  : -ENXIO;
		here = (uint8_t *)here + n;
		va += (uint64_t)n;
		len_bytes -= (uint64_t)n;
	}
	return 0;
}

int weft_reach(void *context, const struct weft_caller *caller, const struct weft_in_place *memory,
	       void *here, uint64_t len_bytes, bool write)
{
	struct weft_pool *pool = ((struct weft_process *)context)->pool;
	struct weft_pool_member *m = weft_pool_member(pool, memory->grant->member);
	uint64_t incarnation;
	int err;

	if (!m)
		return -ESRCH;
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	err = incarnation ? weft_reach_check(pool, memory) : -ESRCH;
	if (err)
		return err;
	err = -EPERM;
	/* its process number may be another process's by now: the witness says so, in the same call */
	if (weft_is_near(pool, memory->grant->member) && m->pid_ns == pool->self->pid_ns &&
	    m->witness && !memory->here_id)
		err = weft_reach_by_kernel((pid_t)m->pid, m->witness, memory->va, here, len_bytes,
					   write);
	/* a process whose first thread has ended cannot be reached by its number, but lives */
	if (err != -EPERM && err != -ENOSYS && err != -ESRCH)
		return err;
	if (!weft_pool_alive(pool, memory->grant->member, incarnation))
		return -ESRCH;
	return weft_reach_by_helper(pool, caller, memory, here, len_bytes, write);
}

/* Whether a helper of another host still looks at what is taken back cannot be seen from here. */
static bool is_later(const struct weft_pool *pool, const struct weft_in_place *memory)
{
	return memory->later && weft_is_near(pool, memory->grant->member);
}

int weft_reach_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
			 const struct weft_in_place *memory, void *here, uint64_t len_bytes,
			 bool write)
{
	int err = weft_reach_check(pool, memory);

	if (err)
		return err;
	return is_later(pool, memory) ? weft_late_copy(pool, memory, here, len_bytes, write)
				      : weft_ask_copy(pool, caller, memory, here, len_bytes, write);
}

int weft_reach_atomic(void *context, const struct weft_caller *caller,
		      const struct weft_in_place *memory, bool add, uint64_t compare_add,
		      uint64_t swap, uint64_t *value)
{
	return weft_reach_atomic_by_helper(((struct weft_process *)context)->pool, caller, memory,
					   add, compare_add, swap, value);
}

int weft_reach_atomic_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
				const struct weft_in_place *memory, bool add, uint64_t compare_add,
				uint64_t swap, uint64_t *value)
{
	enum weft_ask_kind kind = add ? WEFT_ASK_FETCH_ADD : WEFT_ASK_CMP_SWAP;
	const uint64_t operand[2] = {compare_add, swap};
	int err;

	if (!is_later(pool, memory))
		return weft_ask_atomic(pool, caller, memory, kind, operand, value);
	err = weft_reach_check(pool, memory);
	return err ? err : weft_late_atomic(pool, memory, kind, operand, value);
}
