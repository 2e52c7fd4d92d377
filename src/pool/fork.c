/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/fork.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct copy {
	uintptr_t va;
	size_t len_bytes;
	int prot;
};

static struct copy *copies;
static size_t count;
static uint8_t *room; /* the copies, one behind the other */
static size_t room_bytes, used_bytes;

int weft_fork_begin(size_t bytes, size_t runs)
{
	copies = NULL;
	room = NULL;
	count = used_bytes = room_bytes = 0;
	if (!runs)
		return 0;
	copies = calloc(runs, sizeof(*copies));
	if (!copies)
		return -ENOMEM;
	room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED) {
		room = NULL;
		return -ENOMEM;
	}
	room_bytes = bytes;
	return 0;
}

void weft_fork_add(uintptr_t va, size_t len_bytes, const void *alias, int prot)
{
	struct copy *next = &copies[count];

	memcpy(room + used_bytes, alias, len_bytes);
	used_bytes += len_bytes;
	if (count && next[-1].va + next[-1].len_bytes == va && next[-1].prot == prot) {
		next[-1].len_bytes += len_bytes;
	} else {
		*next = (struct copy){ va, len_bytes, prot };
		count++;
	}
}

void weft_fork_place(void)
{
	uint8_t *from = room;

	for (size_t i = 0; i < count; i++) {
		struct copy *copy = &copies[i];

		mremap(from, copy->len_bytes, copy->len_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		       copy->va);
		if (copy->prot != (PROT_READ | PROT_WRITE))
			mprotect((void *)copy->va, copy->len_bytes, copy->prot);
		from += copy->len_bytes;
	}
	count = 0;
}

void weft_fork_end(void)
{
	if (room)
		munmap(room, room_bytes);
	room = NULL;
	free(copies);
	copies = NULL;
	count = 0;
}
