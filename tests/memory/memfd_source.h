/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A source of extents for tests: a memfd, which can be told to be full. */
#ifndef WEFT_TESTS_MEMFD_SOURCE_H
#define WEFT_TESTS_MEMFD_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "migrate/region.h"

extern const struct weft_extent_source memfd_source;

/* Attaches the regions to a fresh memfd; exits on failure. */
void memfd_source_attach(void);
/* The same with an empty file. */
void memfd_source_attach_file(int file);

/* Fails the n-th allocation from now (1 is the next) and all later ones; 0: none. */
void memfd_source_fail_at(unsigned int n);

/* Fails allocations that would make more bytes than this; 0: none. */
void memfd_source_limit(size_t bytes);

/* The suspects have gone on: what was retired is free. */
void memfd_source_go_on(void);

unsigned int memfd_source_extents(void);
unsigned int memfd_source_revoked(void);
size_t memfd_source_bytes(void);
/* Bytes the file really uses. */
size_t memfd_source_resident(void);

/* As a peer sees it. */
uint8_t *memfd_source_at(uint64_t off);

#endif
