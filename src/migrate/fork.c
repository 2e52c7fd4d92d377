/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/fork.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/sizes.h"
#include "migrate/hold.h"
#include "backing/unhooked.h"

struct copy {
	uintptr_t va;
	size_t len_bytes;
	int prot;
};

/* In one mapping: the list, and the copies one behind the other. */
static struct copy *copies;
static uint8_t *room;
static size_t count, bytes_mapped, bytes_used;
static pid_t parent;
static bool installed;

int weft_fork_begin(size_t bytes, size_t runs)
{
	/* not malloc, whose memory may be among what the child lacks at first */
	size_t list_bytes = (runs * sizeof(*copies) + WEFT_PAGE - 1) & ~(WEFT_PAGE - 1);
	uint8_t *mapping;

	if (!runs)
		return 0;
	mapping = weft_unhooked_mmap(NULL, list_bytes + bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapping == MAP_FAILED)
		return -ENOMEM;
	copies = (struct copy *)mapping;
	room = mapping + list_bytes;
	bytes_mapped = list_bytes + bytes;
	bytes_used = 0;
	parent = getpid();
	installed = weft_segv_install();
	return 0;
}

void weft_fork_add(uintptr_t va, size_t len_bytes, const void *alias, int prot)
{
	struct copy *next = &copies[count];

	weft_migrate_copy(room + bytes_used, alias, len_bytes);
	bytes_used += len_bytes;
	if (count && next[-1].va + next[-1].len_bytes == va && next[-1].prot == prot) {
		next[-1].len_bytes += len_bytes;
	} else {
		*next = (struct copy){va, len_bytes, prot};
		count++;
	}
}

void weft_fork_place(void)
{
	uint8_t *from = room;

	for (size_t i = 0; i < count; i++) {
		struct copy *copy = &copies[i];

		weft_unhooked_mremap(from, copy->len_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
				     copy->va);
		if (copy->prot != (PROT_READ | PROT_WRITE))
			weft_unhooked_mprotect((void *)copy->va, copy->len_bytes, copy->prot);
		from += copy->len_bytes;
	}
	count = 0;
}

bool weft_fork_rescue(void)
{
	if (!count || getpid() == parent)
		return false;
	weft_fork_place();
	return true;
}

void weft_fork_end(void)
{
	if (installed)
		weft_segv_uninstall();
	installed = false;
	if (copies)
		weft_unhooked_munmap(copies, bytes_mapped);
	copies = NULL;
	count = 0;
}
