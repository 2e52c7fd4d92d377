/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Blocks of malloc that have their pages for themselves: a large block of glibc is a mapping of its own, which begins
 * with the sixteen bytes of its header, so that the first page and the last hold nothing else.
 */
#ifndef WEFT_MIGRATE_CHUNK_H
#define WEFT_MIGRATE_CHUNK_H

#include <stdint.h>

#include "migrate/vma.h"

/*
 * The pages of [addr, end), which is mapped and readable, that hold no other block's bytes: the whole ones inside it; if it
 * is such a block from its first byte on, the first page, too, and if it goes on into the block's last page (but for
 * those that an alignment has cost), the one in which it ends.
 * What lies before addr is read: the block's header, if it is one.
 */
void weft_chunk_pages(struct weft_vma_walk *walk, uintptr_t addr, uintptr_t end, uintptr_t *first,
		      uintptr_t *last);

#endif
