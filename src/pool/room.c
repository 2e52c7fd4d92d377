/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Large tables of this process alone, of which hardly anything is ever touched. */
#include <sys/mman.h>

#include "pool/internal.h"

void *weft_room(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void weft_room_free(void *at, size_t bytes)
{
	munmap(at, bytes);
}
