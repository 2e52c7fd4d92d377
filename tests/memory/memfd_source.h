/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A source of extents for tests: a memfd, which can be made full. */
#ifndef WEFT_TESTS_MEMFD_SOURCE_H
#define WEFT_TESTS_MEMFD_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "migrate/region.h"

extern const struct weft_extent_source memfd_source;

/* Attaches the regions to a fresh memfd. Exits on failure. */
void memfd_source_attach(void);
/* The same with that file, which must be empty. */
void memfd_source_attach_file(int file);
/* The same with the memory of a device, so many bytes, of which nothing can be reserved or freed; NULL: a memfd plays it. */
void memfd_source_attach_device(const char *path, size_t bytes);

/* The n-th allocation from now on (1: the next) and all later ones fail; 0: none does. */
void memfd_source_fail_at(unsigned int n);

/* Allocations fail that would make more bytes than this in all; 0: no limit. */
void memfd_source_limit(size_t bytes);

/* The suspects have gone on: frees the extents that were retired. */
void memfd_source_go_on(void);

unsigned int memfd_source_extents(void);
unsigned int memfd_source_revoked(void);
size_t memfd_source_bytes(void);
/* Bytes that the file really uses. */
size_t memfd_source_resident(void);

/* The bytes at that offset, as a peer sees them. */
uint8_t *memfd_source_at(uint64_t off);

#endif
