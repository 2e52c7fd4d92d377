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

#define MOST_ALIGN                                                                                 \
	((uint64_t)2 << 20) /* where the home is mapped over it begins and ends on multiples */

_Static_assert(WEFT_OFF_HOME % MOST_ALIGN == 0 && WEFT_OFF_HOME_END % MOST_ALIGN == 0,
	       "the home can be mapped over its place");

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
	int err;

	*why = "the device's memory cannot be looked at";
	err = weft_hosts_extent(fd, &all_bytes, &align);
	if (err)
		return err;
	*why = "the device maps multiples of more than 2 MiB alone: its align "
	       "(/sys/bus/dax/devices) is to be less";
	if (align > MOST_ALIGN)
		return -EINVAL;
	*why = "the pool is larger than the device's memory";
	bytes = plan->bytes ?: all_bytes / align * align;
	if (bytes > all_bytes)
		return -EINVAL;
	*why = "the pool's size is no multiple of what the device maps";
	if (bytes % align)
		return -EINVAL;
	err = weft_hosts_check_plan(plan, bytes, why);
	if (err)
		return err;
	err = weft_hosts_take(fd, why);
	if (err)
		return err;
	*why = "the device's memory cannot be mapped";
	err = zero_all(fd, bytes);
	return err ? err : weft_hosts_lay_out(fd, plan, bytes, signature);
}

/* ---- Its bytes ---- */

static bool is_near(uint64_t off)
{
	return off >= WEFT_OFF_HOME && off < WEFT_OFF_HOME_END;
}

/* Three mappings in room of ours: a mapping of a device is not to be cut, nor merges with its neighbour. All of it may
 * be touched, as nothing of it is allocated. */
static int map_parts(struct weft_backed *b)
{
	const struct {
		uint64_t off, end;
		int fd, rights;
	} parts[] = {
		{0, WEFT_OFF_HOME, b->far.fd, PROT_READ | PROT_WRITE},
		{WEFT_OFF_HOME, WEFT_OFF_HOME_END, b->life, PROT_NONE},
		{WEFT_OFF_HOME_END, b->bytes, b->far.fd, PROT_READ | PROT_WRITE},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (mmap(b->base + parts[i].off, parts[i].end - parts[i].off, parts[i].rights,
			 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, parts[i].fd,
			 (off_t)parts[i].off) == MAP_FAILED)
			return -errno;
	return 0;
}

int weft_fixed_map(struct weft_backed *b, uint8_t **base)
{
	uint8_t *room = mmap(NULL, b->bytes + MOST_ALIGN, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t skew = -(uintptr_t)room % MOST_ALIGN;
	int err;

	if (room == MAP_FAILED)
		return -errno;
	/* device-dax wants addresses that are multiples, too */
	if (skew)
		munmap(room, skew);
	munmap(room + skew + b->bytes, MOST_ALIGN - skew);
	room += skew;
	b->base = room;
	err = map_parts(b);
	if (err) {
		weft_map_end(b);
		return err;
	}
	/* a child must not keep our proof of life, nor a core dump hold other members' memory */
	madvise(room, b->bytes, MADV_DONTFORK);
	madvise(room, b->bytes, MADV_DONTDUMP);
	*base = b->base;
	return 0;
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
