/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The ioctl of /proc/self/maps that tells of one mapping. */
#ifndef WEFT_MIGRATE_PROCMAP_H
#define WEFT_MIGRATE_PROCMAP_H

#include <stdint.h>
#include <sys/ioctl.h>

/* As in linux/fs.h since 6.11; the floor's headers are older. */
struct weft_procmap {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};

#define WEFT_PROCMAP_READABLE	      0x01
#define WEFT_PROCMAP_WRITABLE	      0x02
#define WEFT_PROCMAP_EXECUTABLE	      0x04
#define WEFT_PROCMAP_SHARED	      0x08
#define WEFT_PROCMAP_COVERING_OR_NEXT 0x10
#define WEFT_PROCMAP_OF_FILE	      0x20
#define WEFT_PROCMAP_QUERY	      _IOWR('f', 17, struct weft_procmap)

#endif
