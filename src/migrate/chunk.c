/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#define PAGE	     4096ul
#define PAGE_DOWN(a) ((a) & ~(PAGE - 1))
#define PAGE_UP(a)   PAGE_DOWN((a) + PAGE - 1)

/* glibc's header of a block, since 2.0: the word before it says how far into its mapping it begins. */
#define HEADER	     (2 * sizeof(size_t))
#define FLAGS	     7ul
#define FLAG_MMAPPED 2ul

/* What lies before a page may be a guard, a device, or a file that reading would make larger. */
static bool header_is_readable(struct weft_vma_walk *walk, uintptr_t header, uintptr_t addr)
{
	struct weft_vma vma;

	if (PAGE_DOWN(header) == PAGE_DOWN(addr))
		return true;
	return !weft_vma_next(walk, header, &vma) && vma.start <= header && vma.prot & PROT_READ &&
	       weft_vma_is_anonymous(&vma);
}

/* Where the block ends that begins at addr and has a mapping for itself; 0: there is no such block. */
static uintptr_t end_of_block(struct weft_vma_walk *walk, uintptr_t addr)
{
	const size_t *header = (const size_t *)(addr - HEADER);
	size_t before, size;

	if (addr % HEADER || addr < PAGE + HEADER || !header_is_readable(walk, addr - HEADER, addr))
		return 0;
	before = header[0];
	size = header[1];
	if ((size & FLAGS) != FLAG_MMAPPED || before > addr - HEADER)
		return 0;
	size -= FLAG_MMAPPED;
	/* whole pages; neighbours may have become one mapping with them, so that their bounds show here only. Not one
	 * page: mremap, as realloc calls it, would grow it over what lies behind it in the pool */
	if ((addr - HEADER - before) % PAGE || (before + size) % PAGE || before + size <= PAGE)
		return 0;
	return addr - HEADER + size;
}

/* For a block with an alignment glibc takes so much more, before it and behind it. */
static uintptr_t spare(uintptr_t addr)
{
	uintptr_t align = addr & -addr;

	return align >= PAGE ? align : 0;
}

void weft_chunk_pages(struct weft_vma_walk *walk, uintptr_t addr, uintptr_t end, uintptr_t *first,
		      uintptr_t *last)
{
	uintptr_t block_end;

	*first = PAGE_UP(addr);
	*last = PAGE_DOWN(end);
	if (*first >= *last)
		return;
	block_end = end_of_block(walk, addr);
	if (block_end < end)
		return;
	*first = PAGE_DOWN(addr);
	if (block_end - PAGE_UP(end) <= spare(addr))
		*last = PAGE_UP(end);
}
