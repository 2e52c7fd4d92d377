/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The file as memory: address space for all of it, made accessible bit by bit. */
#include <errno.h>
#include <sys/mman.h>

#include "backing/private.h"
#include "pool/sizes.h"

int weft_map(struct weft_backed *b, uint8_t **base)
{
	void *at;

	if (b->home != &b->far)
		return weft_parts_map(b, PROT_NONE, base);
	at = mmap(NULL, b->bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, b->life, 0);
	if (at == MAP_FAILED)
		return -errno;
	/* a child must not keep our proof of life, nor a core dump hold other members' memory */
	madvise(at, b->bytes, MADV_DONTFORK);
	madvise(at, b->bytes, MADV_DONTDUMP);
	*base = b->base = at;
	return 0;
}

void weft_map_end(struct weft_backed *b)
{
	if (b->base)
		munmap(b->base, b->bytes);
	b->base = NULL;
}

int weft_map_descriptor(struct weft_backed *b)
{
	return weft_descriptor(&b->far);
}

int weft_map_touch(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	return mprotect(b->base + off, len_bytes, PROT_READ | PROT_WRITE) ? -errno : 0;
}

void weft_map_populate(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	uint64_t skew = off % WEFT_PAGE;

	madvise(b->base + off - skew, len_bytes + skew, MADV_POPULATE_WRITE);
}
