/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The mappings of this process, in rising order of address.
 *
 * From Linux 6.11 each step is one ioctl of about a microsecond, whatever the number of mappings;
 * before, the text of /proc/self/maps is read up to the address asked for.
 */
#ifndef WEFT_MIGRATE_VMA_H
#define WEFT_MIGRATE_VMA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct weft_vma {
	uintptr_t start, end;
	uint64_t off; /* in the file, in bytes; means nothing for anonymous memory */
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	int prot; /* PROT_ bits */
	bool shared;
};

/* A walk holds a descriptor: end it soon. One thread at a time. */
struct weft_vma_walk {
	int fd;
	FILE *text;	      /* NULL: by ioctl */
	struct weft_vma last; /* read from the text */
};

/* 0, or -errno of opening /proc/self/maps. */
int weft_vma_open(struct weft_vma_walk *walk);

/* The mapping that holds addr, else the first one above it. 0; -ENOENT when there is none above;
 * -errno of reading. */
int weft_vma_next(struct weft_vma_walk *walk, uintptr_t addr, struct weft_vma *vma);

void weft_vma_close(struct weft_vma_walk *walk);

/* How many mappings there are, 0 if that cannot be told. Reads them all. */
unsigned int weft_vma_count(void);

/* Whether `more` mappings, which the caller is about to make, leave a quarter of what the kernel
 * allows. The number is estimated from above and seldom counted. */
bool weft_vma_room(unsigned int more);

static inline bool weft_vma_is_anonymous(const struct weft_vma *vma)
{
	return !vma->inode && !vma->dev_major && !vma->dev_minor && !vma->shared;
}

#endif
