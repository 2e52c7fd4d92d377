/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Host memory that devices reach: cuMemAllocHost's, and what the program registers. */
#include "soft.h"

static weft_cu_result allocate(void **at, size_t bytes)
{
	struct soft_memory *memory;
	weft_cu_context context;
	weft_cu_result err = soft_current(&context);

	if (err)
		return err;
	if (!bytes)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	memory = soft_memory_new((bytes + SOFT_PAGE - 1) & ~(SOFT_PAGE - 1), -1, false);
	if (!memory)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	if (!soft_range_new(SOFT_HOST, (uintptr_t)memory->at, bytes, memory, context)) {
		soft_memory_drop(memory);
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	}
	*at = memory->at;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemAllocHost_v2(void **at, size_t bytes)
{
	SOFT_BEGIN();
	return allocate(at, bytes);
}

weft_cu_result cuMemHostAlloc(void **at, size_t bytes, unsigned int flags)
{
	SOFT_BEGIN();
	return flags & ~7u ? WEFT_CUDA_ERROR_INVALID_VALUE : allocate(at, bytes);
}

weft_cu_result cuMemFreeHost(void *at)
{
	struct soft_range *range;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	range = soft_range_start((uintptr_t)at);
	if (!range || range->kind != SOFT_HOST)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	err = soft_hold_all(range->context);
	range = soft_range_start((uintptr_t)at);
	if (!err && range)
		soft_range_end(range);
	return err;
}

/* Whether all of it is mapped and can be written: else CUDA does not pin it. */
static bool is_writable(uint64_t start, size_t bytes)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long from, to;
	uint64_t at = start;
	char line[512], perms[5];

	while (maps && at < start + bytes && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx %4s", &from, &to, perms) == 3 && from <= at &&
		    at < to && perms[1] == 'w')
			at = to;
	if (maps)
		fclose(maps);
	return at >= start + bytes;
}

weft_cu_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
	uint64_t start = (uintptr_t)at;
	struct soft_range *range;

	SOFT_BEGIN_IN(context);
	if (!at || !bytes || flags & ~15u)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	/* two registrations may share a page, but no byte */
	for (range = soft_ranges; range; range = range->next)
		if (start < range->start + range->bytes && range->start < start + bytes)
			return range->kind == SOFT_REGISTERED
				       ? WEFT_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
				       : WEFT_CUDA_ERROR_INVALID_VALUE;
	if (soft_is_device_address(start) || !is_writable(start, bytes))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	range = soft_range_new(SOFT_REGISTERED, start, bytes, NULL, context);
	if (!range)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	range->pin = soft_pin_new(start, bytes);
	if (range->pin)
		return WEFT_CUDA_SUCCESS;
	soft_range_end(range);
	return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
}

weft_cu_result cuMemHostUnregister(void *at)
{
	struct soft_range *range;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	range = soft_range_at((uintptr_t)at);
	if (!range)
		return WEFT_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (range->kind != SOFT_REGISTERED || range->start != (uintptr_t)at)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	err = soft_hold_all(range->context);
	range = soft_range_start((uintptr_t)at);
	if (!err && range)
		soft_range_end(range);
	return err;
}

weft_cu_result cuMemHostGetDevicePointer_v2(weft_cu_ptr *device, void *at, unsigned int flags)
{
	struct soft_range *range;

	SOFT_BEGIN_IN(context);
	range = soft_range_at((uintptr_t)at);
	if (flags || !range || !soft_is_host(range))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	*device = (uintptr_t)at;
	return WEFT_CUDA_SUCCESS;
}
