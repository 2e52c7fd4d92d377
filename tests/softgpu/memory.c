/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Bytes of devices, and the addresses that show them: a reservation that the CPU may not touch,
 * while the bytes themselves are mapped elsewhere. */
#include "soft.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ADDRESSES (16ull << 30) /* valgrind has no room for much more */

struct area {
	uint64_t start;
	size_t bytes;
	struct area *next; /* in rising order */
};

static struct {
	uint64_t start; /* where the addresses of devices begin; 0 until the first is wanted */
	struct area *areas;
	size_t used[SOFT_DEVICES];
	uint64_t last_id;
} self;
struct soft_range *soft_ranges;

/* ---- bytes ---- */

static struct soft_memory *memory_map(int fd, size_t bytes, int device)
{
	struct soft_memory *memory = calloc(1, sizeof(*memory));
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;

	if (!memory)
		return NULL;
	memory->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
	if (memory->at == MAP_FAILED) {
		free(memory);
		return NULL;
	}
	memory->fd = fd;
	memory->bytes = bytes;
	memory->device = device;
	memory->refs = 1;
	return memory;
}

struct soft_memory *soft_memory_new(size_t bytes, int device, bool exportable)
{
	struct soft_memory *memory;
	char name[32];
	int fd = -1;

	if (device >= 0 &&
	    (bytes > SOFT_DEVICE_BYTES || self.used[device] > SOFT_DEVICE_BYTES - bytes))
		return NULL;
	if (exportable) {
		snprintf(name, sizeof(name), "soft GPU of device %d", device);
		fd = memfd_create(name, MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)bytes))
			goto close_fd;
	}
	memory = memory_map(fd, bytes, device);
	if (memory) {
		memory->exportable = exportable;
		memory->counted = device >= 0;
		if (memory->counted)
			self.used[device] += bytes;
		return memory;
	}
close_fd:
	if (fd >= 0)
		close(fd);
	return NULL;
}

struct soft_memory *soft_memory_of(int fd, size_t bytes, int device)
{
	struct soft_memory *memory = memory_map(fd, bytes, device);

	if (!memory) {
		close(fd);
		return NULL;
	}
	memory->exportable = true;
	return memory;
}

void soft_memory_drop(struct soft_memory *memory)
{
	if (!memory || --memory->refs)
		return;
	munmap(memory->at, memory->bytes);
	if (memory->counted)
		self.used[memory->device] -= memory->bytes;
	if (memory->fd >= 0)
		close(memory->fd);
	free(memory);
}

size_t soft_memory_used(int device)
{
	return self.used[device];
}

/* ---- addresses ---- */

static uint64_t rounded(uint64_t value, uint64_t alignment)
{
	return (value + alignment - 1) & ~(alignment - 1);
}

static bool reserve(void)
{
	void *at;

	if (self.start)
		return true;
	at = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return false;
	self.start = rounded((uintptr_t)at, SOFT_BLOCK);
	return true;
}

bool soft_is_device_address(uint64_t at)
{
	return self.start && at >= self.start && at < self.start + ADDRESSES - SOFT_BLOCK;
}

static bool is_free(uint64_t start, size_t bytes)
{
	for (struct area *area = self.areas; area; area = area->next)
		if (start < area->start + area->bytes && area->start < start + bytes)
			return false;
	return soft_is_device_address(start) && soft_is_device_address(start + bytes);
}

uint64_t soft_area_take(size_t bytes, size_t alignment, uint64_t wanted)
{
	struct area *area, **link = &self.areas;
	uint64_t start;

	if (!reserve() || bytes > ADDRESSES / 2)
		return 0;
	start = self.start;
	if (wanted && wanted % alignment == 0 && is_free(wanted, bytes))
		start = wanted;
	for (struct area *next = self.areas; next && !is_free(start, bytes); next = next->next)
		start = rounded(next->start + next->bytes, alignment);
	area = is_free(start, bytes) ? malloc(sizeof(*area)) : NULL;
	if (!area)
		return 0;
	while (*link && (*link)->start < start)
		link = &(*link)->next;
	*area = (struct area){start, bytes, *link};
	*link = area;
	return start;
}

size_t soft_area_at(uint64_t at)
{
	for (struct area *area = self.areas; area; area = area->next)
		if (area->start == at)
			return area->bytes;
	return 0;
}

void soft_area_give(uint64_t at)
{
	for (struct area **link = &self.areas; *link; link = &(*link)->next) {
		struct area *area = *link;

		if (area->start != at)
			continue;
		*link = area->next;
		free(area);
		return;
	}
}

/* ---- ranges ---- */

bool soft_is_host(const struct soft_range *range)
{
	return range->kind == SOFT_HOST || range->kind == SOFT_REGISTERED;
}

struct soft_range *soft_range_new(enum soft_kind kind, uint64_t start, size_t bytes,
				  struct soft_memory *memory, weft_cu_context context)
{
	struct soft_range *range = calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	*range = (struct soft_range){.kind = kind,
				     .start = start,
				     .id = ++self.last_id,
				     .bytes = bytes,
				     .memory = memory,
				     .context = context,
				     .next = soft_ranges};
	soft_ranges = range;
	return range;
}

struct soft_range *soft_range_at(uint64_t at)
{
	struct soft_range *range = soft_ranges;

	while (range && (at < range->start || at - range->start >= range->bytes))
		range = range->next;
	return range;
}

struct soft_range *soft_range_start(uint64_t at)
{
	struct soft_range *range = soft_ranges;

	while (range && at != range->start)
		range = range->next;
	return range;
}

bool soft_range_overlaps(uint64_t start, size_t bytes)
{
	for (struct soft_range *range = soft_ranges; range; range = range->next)
		if (start < range->start + range->bytes && range->start < start + bytes)
			return true;
	return false;
}

void soft_range_end(struct soft_range *range)
{
	struct soft_range **link = &soft_ranges;

	while (*link != range)
		link = &(*link)->next;
	*link = range->next;
	if (range->kind == SOFT_MANAGED)
		(void)mmap((void *)(uintptr_t)range->start, rounded(range->bytes, SOFT_BLOCK),
			   PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			   0);
	if (!soft_is_host(range) && range->kind != SOFT_MAPPED)
		soft_area_give(range->start);
	soft_memory_drop(range->memory);
	soft_pin_free(range->pin);
	free(range);
}

void soft_ranges_end(weft_cu_context context)
{
	struct soft_range *next;

	for (struct soft_range *range = soft_ranges; range; range = next) {
		next = range->next;
		if (range->context == context && range->kind != SOFT_MAPPED)
			soft_range_end(range);
	}
}
