/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory and addresses apart: cuMemCreate, cuMemAddressReserve, cuMemMap. */
#include "soft.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A handle, made by cuMemCreate or by an import. */
struct handle {
	struct soft_memory *memory; /* NULL: released */
	unsigned int count;	    /* releases that are due */
	struct handle *next;
};
static struct handle *handles;

/* Reservations are areas without a range of their own. */
static unsigned int reservations;

unsigned int soft_handles_left(void)
{
	unsigned int left = 0;

	for (struct handle *handle = handles; handle; handle = handle->next)
		left += handle->memory != NULL;
	return left;
}

unsigned int soft_reservations_left(void)
{
	return reservations;
}

static struct handle *handle_of(weft_cu_memory value)
{
	for (struct handle *handle = handles; handle; handle = handle->next)
		if ((uintptr_t)handle == value)
			return handle->memory ? handle : NULL;
	return NULL;
}

/* Takes the reference. */
static weft_cu_result handle_new(struct soft_memory *memory, weft_cu_memory *value)
{
	struct handle *handle = memory ? malloc(sizeof(*handle)) : NULL;

	if (!handle) {
		soft_memory_drop(memory);
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	}
	*handle = (struct handle){memory, 1, handles};
	handles = handle;
	*value = (uintptr_t)handle;
	return WEFT_CUDA_SUCCESS;
}

static bool is_known(const struct weft_cu_memory_prop *prop)
{
	return prop && prop->type == WEFT_CU_MEM_ALLOCATION_TYPE_PINNED &&
	       prop->location.type == WEFT_CU_MEM_LOCATION_TYPE_DEVICE && prop->location.id >= 0 &&
	       prop->location.id < SOFT_DEVICES &&
	       prop->requestedHandleTypes <= WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

weft_cu_result cuMemGetAllocationGranularity(size_t *bytes, const struct weft_cu_memory_prop *prop,
					     unsigned int option)
{
	SOFT_BEGIN();
	if (!is_known(prop) || option > 1)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	*bytes = SOFT_BLOCK;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemAddressReserve(weft_cu_ptr *at, size_t bytes, size_t alignment,
				   weft_cu_ptr wanted, unsigned long long flags)
{
	SOFT_BEGIN();
	if (!bytes || bytes % SOFT_BLOCK || alignment & (alignment - 1) || flags)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	*at = soft_area_take(bytes, alignment > SOFT_BLOCK ? alignment : SOFT_BLOCK, wanted);
	if (!*at)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	reservations++;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemAddressFree(weft_cu_ptr at, size_t bytes)
{
	struct soft_range *range;

	SOFT_BEGIN();
	range = soft_range_start(at);
	if (!bytes || soft_area_at(at) != bytes || (range && range->kind != SOFT_MAPPED) ||
	    soft_range_overlaps(at, bytes))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	soft_area_give(at);
	reservations--;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemCreate(weft_cu_memory *memory, size_t bytes,
			   const struct weft_cu_memory_prop *prop, unsigned long long flags)
{
	SOFT_BEGIN();
	if (!is_known(prop) || !bytes || bytes % SOFT_BLOCK || flags)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	return handle_new(
		soft_memory_new(bytes, prop->location.id,
				prop->requestedHandleTypes != WEFT_CU_MEM_HANDLE_TYPE_NONE),
		memory);
}

/* Memory that is mapped stays until it is unmapped. */
weft_cu_result cuMemRelease(weft_cu_memory value)
{
	struct handle *handle;

	SOFT_BEGIN();
	handle = handle_of(value);
	if (!handle)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (--handle->count)
		return WEFT_CUDA_SUCCESS;
	soft_memory_drop(handle->memory);
	handle->memory = NULL;
	return WEFT_CUDA_SUCCESS;
}

static bool is_reserved(uint64_t at, size_t bytes)
{
	for (uint64_t start = at; start + SOFT_DEVICE_BYTES > at && start <= at;
	     start -= SOFT_BLOCK) {
		size_t area = soft_area_at(start);

		if (area)
			return at + bytes <= start + area && !soft_range_overlaps(at, bytes);
	}
	return false;
}

weft_cu_result cuMemMap(weft_cu_ptr at, size_t bytes, size_t offset, weft_cu_memory value,
			unsigned long long flags)
{
	struct soft_range *range;
	struct handle *handle;

	SOFT_BEGIN();
	handle = handle_of(value);
	if (handle && !flags && bytes && bytes % SOFT_BLOCK)
		return WEFT_CUDA_ERROR_NOT_SUPPORTED;
	if (!handle || offset || flags || !bytes || bytes != handle->memory->bytes ||
	    at % SOFT_BLOCK || !is_reserved(at, bytes))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	range = soft_range_new(SOFT_MAPPED, at, bytes, handle->memory, NULL);
	if (!range)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	handle->memory->refs++;
	return WEFT_CUDA_SUCCESS;
}

/* Whether the range is that of whole mappings, one behind the other. */
static bool covers_mappings(uint64_t at, size_t bytes)
{
	uint64_t end = at + bytes;

	while (at < end) {
		struct soft_range *range = soft_range_start(at);

		if (!range || range->kind != SOFT_MAPPED || range->bytes > end - at)
			return false;
		at += range->bytes;
	}
	return bytes > 0;
}

weft_cu_result cuMemUnmap(weft_cu_ptr at, size_t bytes)
{
	SOFT_BEGIN();
	/* to unmap what is reserved, but not mapped, succeeds */
	if (bytes && at % SOFT_BLOCK == 0 && bytes % SOFT_BLOCK == 0 && is_reserved(at, bytes))
		return WEFT_CUDA_SUCCESS;
	if (!covers_mappings(at, bytes))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	for (uint64_t end = at + bytes; at < end;) {
		struct soft_range *range = soft_range_start(at);

		at += range->bytes;
		soft_range_end(range);
	}
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemSetAccess(weft_cu_ptr at, size_t bytes, const struct weft_cu_access *access,
			      size_t count)
{
	SOFT_BEGIN();
	if (!access || !count || !covers_mappings(at, bytes))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (access[i].location.type != WEFT_CU_MEM_LOCATION_TYPE_DEVICE ||
		    access[i].location.id < 0)
			return WEFT_CUDA_ERROR_INVALID_VALUE;
		if (access[i].location.id >= SOFT_DEVICES)
			return WEFT_CUDA_ERROR_INVALID_DEVICE;
		for (uint64_t next = at; next < at + bytes;) {
			struct soft_range *range = soft_range_start(next);
			unsigned int bit = 1u << access[i].location.id;

			range->access =
				access[i].flags ? range->access | bit : range->access & ~bit;
			next += range->bytes;
		}
	}
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemRetainAllocationHandle(weft_cu_memory *memory, void *at)
{
	struct soft_range *range;

	SOFT_BEGIN();
	range = soft_range_at((uintptr_t)at);
	if (!range || range->kind != SOFT_MAPPED)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	for (struct handle *handle = handles; handle; handle = handle->next)
		if (handle->memory == range->memory) {
			handle->count++;
			*memory = (uintptr_t)handle;
			return WEFT_CUDA_SUCCESS;
		}
	range->memory->refs++;
	return handle_new(range->memory, memory);
}

/* What CUDA tells of a mapping's range: that of all mappings side by side in one reservation, though each has an id of its own. */
void soft_mapping_around(const struct soft_range *range, uint64_t *start, size_t *bytes)
{
	const struct soft_range *beside;
	uint64_t end = range->start + range->bytes;

	*start = range->start;
	while (!soft_area_at(*start) && (beside = soft_range_at(*start - 1)) &&
	       beside->kind == SOFT_MAPPED)
		*start = beside->start;
	while (!soft_area_at(end) && (beside = soft_range_start(end)) &&
	       beside->kind == SOFT_MAPPED)
		end += beside->bytes;
	*bytes = end - *start;
}

/* ---- between processes ---- */

/* A descriptor of the same file, for writing only: mmap needs to read, too, and is refused. */
static int refuses_mmap(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_CLOEXEC);
}

weft_cu_result cuMemExportToShareableHandle(void *out, weft_cu_memory value, unsigned int type,
					    unsigned long long flags)
{
	struct handle *handle;
	int fd;

	SOFT_BEGIN();
	handle = handle_of(value);
	if (!handle || type != WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags ||
	    !handle->memory->exportable)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	fd = refuses_mmap(handle->memory->fd);
	if (fd < 0)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)out = fd;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemImportFromShareableHandle(weft_cu_memory *memory, void *os_handle,
					      unsigned int type)
{
	char path[64], name[64] = "";
	struct stat st;
	int fd;

	SOFT_BEGIN();
	if (type != WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", (int)(intptr_t)os_handle);
	if (readlink(path, name, sizeof(name) - 1) < 0 || !strstr(name, "soft GPU of device "))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		if (fd >= 0)
			close(fd);
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	}
	return handle_new(soft_memory_of(fd, (size_t)st.st_size,
					 atoi(strstr(name, "device ") + sizeof("device ") - 1)),
			  memory);
}

/* A dma-buf of a part of device memory. CUDA imports none; so it needs no bytes, only its size. */
weft_cu_result cuMemGetHandleForAddressRange(void *out, weft_cu_ptr at, size_t bytes,
					     unsigned int type, unsigned long long flags)
{
	struct soft_view view;
	struct soft_range *range;
	int whole, fd;

	SOFT_BEGIN_IN(context);
	range = soft_range_at(at);
	if (type != WEFT_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || !range ||
	    soft_is_host(range) || range->kind == SOFT_MANAGED || range->kind == SOFT_OPENED ||
	    at % SOFT_PAGE || !bytes || bytes % SOFT_PAGE)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (range->kind != SOFT_MAPPED &&
	    at + bytes > range->start + ((range->bytes + SOFT_PAGE - 1) & ~(SOFT_PAGE - 1)))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (range->kind == SOFT_MAPPED && soft_view_open(&view, at, bytes))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (range->kind == SOFT_MAPPED)
		soft_view_close(&view);
	whole = memfd_create("soft GPU's dma-buf", MFD_CLOEXEC);
	fd = whole < 0 || ftruncate(whole, (off_t)bytes) ? -1 : refuses_mmap(whole);
	if (whole >= 0)
		close(whole);
	if (fd < 0)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)out = fd;
	return WEFT_CUDA_SUCCESS;
}
