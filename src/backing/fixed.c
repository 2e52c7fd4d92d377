/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The memory of a device, as that of several hosts. It has a size, no holes, and what it held: it is zeroed when the pool is
 * made, and what is given back then. Its pages are the device's: the kernel reads none of them for system calls.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "backing/private.h"
#include "pool/format.h"

/* ---- Making ---- */

static int zero_all(int fd, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	memset(at, 0, bytes);
	munmap(at, bytes);
	return 0;
}

int weft_fixed_make(int fd, const struct weft_backing_plan *plan, uint64_t signature,
		    const char **why)
{
	uint64_t bytes, all_bytes, align;
	struct weft_parts parts;
	int err;

	*why = "the device's memory cannot be looked at";
	err = weft_hosts_extent(fd, &all_bytes, &align);
	if (err)
		return err;
	*why = "the device maps multiples of more than 2 MiB alone: its align "
	       "(/sys/bus/dax/devices) is to be less";
	if (align > WEFT_PART_BYTES)
		return -EINVAL;
	*why = "the pool is larger than the device's memory";
	bytes = plan->bytes ?: all_bytes / align * align;
	if (bytes > all_bytes)
		return -EINVAL;
	*why = "the pool's size is no multiple of what the device maps";
	if (bytes % align)
		return -EINVAL;
	err = weft_hosts_check_plan(plan, bytes, &parts, why);
	if (err)
		return err;
	err = weft_hosts_take(fd, why);
	if (err)
		return err;
	*why = "the device's memory cannot be mapped";
	err = zero_all(fd, bytes);
	return err ? err : weft_hosts_lay_out(fd, plan, bytes, &parts, signature);
}

/* ---- Its bytes ---- */

static bool is_near(uint64_t off)
{
	return off >= WEFT_OFF_HOME && off < WEFT_OFF_HOME_END;
}

/* All of it may be touched, as nothing of it is allocated. */
int weft_fixed_map(struct weft_backed *b, uint8_t **base)
{
	return weft_parts_map(b, PROT_READ | PROT_WRITE, base);
}

int weft_fixed_reserve(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	return is_near(off) ? weft_reserve(b, off, len_bytes) : 0;
}

int weft_fixed_release(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
	if (is_near(off))
		return weft_reserve_end(b, off, len_bytes);
	memset(b->base + off, 0, len_bytes);
	return 0;
}

/* Its pages are there. */
void weft_fixed_populate(struct weft_backed *b, uint64_t off, uint64_t len_bytes)
{
}

uint64_t weft_fixed_head_room(void)
{
	return UINT64_MAX;
}
