/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory of devices: cuMemAlloc, the default pools, managed. */
#include "soft.h"

#include <sys/mman.h>

static size_t rounded(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) & ~(unit - 1);
}

/* An allocation with addresses of its own. */
static weft_cu_result take(enum soft_kind kind, size_t bytes, size_t unit, weft_cu_context context,
			   struct soft_range **out)
{
	bool exportable = kind == SOFT_LEGACY;
	struct soft_memory *memory;
	uint64_t start;

	if (!bytes)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (bytes > SOFT_DEVICE_BYTES)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	memory = soft_memory_new(rounded(bytes, SOFT_PAGE), context->device, exportable);
	if (!memory)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	start = soft_area_take(rounded(bytes, unit), unit, 0);
	*out = start ? soft_range_new(kind, start, bytes, memory, context) : NULL;
	if (*out)
		return WEFT_CUDA_SUCCESS;
	if (start)
		soft_area_give(start);
	soft_memory_drop(memory);
	return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
}

weft_cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
	SOFT_BEGIN_IN(context);
	*total = SOFT_DEVICE_BYTES;
	*left = SOFT_DEVICE_BYTES - soft_memory_used(context->device);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemAlloc_v2(weft_cu_ptr *at, size_t bytes)
{
	struct soft_range *range;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	err = take(SOFT_LEGACY, bytes, SOFT_UNIT, context, &range);
	if (!err)
		*at = range->start;
	return err;
}

/* Managed memory: the CPU reaches the bytes at the same address. */
weft_cu_result cuMemAllocManaged(weft_cu_ptr *at, size_t bytes, unsigned int flags)
{
	struct soft_memory *memory;
	uint64_t start;
	void *seen;

	SOFT_BEGIN_IN(context);
	if (!bytes || flags != WEFT_CU_MEM_ATTACH_GLOBAL)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	bytes = bytes > SOFT_DEVICE_BYTES ? SOFT_DEVICE_BYTES + 1 : bytes;
	memory = soft_memory_new(rounded(bytes, SOFT_PAGE), context->device, true);
	if (!memory)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	start = soft_area_take(rounded(bytes, SOFT_BLOCK), SOFT_BLOCK, 0);
	if (!start || !soft_range_new(SOFT_MANAGED, start, bytes, memory, context)) {
		soft_memory_drop(memory);
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	}
	seen = mmap((void *)(uintptr_t)start, memory->bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_FIXED, memory->fd, 0);
	if (seen == MAP_FAILED) {
		soft_range_end(soft_range_start(start));
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	}
	soft_range_start(start)->sync = true;
	*at = start;
	return WEFT_CUDA_SUCCESS;
}

/* Waits, as hardware does, for all work of the memory's context, and of the current one, if any. */
weft_cu_result cuMemFree_v2(weft_cu_ptr at)
{
	struct soft_range *range;
	weft_cu_context context;
	weft_cu_result err;

	SOFT_BEGIN();
	if (!at)
		return WEFT_CUDA_SUCCESS;
	range = soft_range_start(at);
	if (!range ||
	    (range->kind != SOFT_LEGACY && range->kind != SOFT_POOL && range->kind != SOFT_MANAGED))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	err = soft_hold_all(range->context);
	if (!err && !soft_current(&context))
		err = soft_hold_all(context);
	range = soft_range_start(
		at); /* asked again: another thread may have freed it while this one waited */
	if (!err && range)
		soft_range_end(range);
	return err;
}

weft_cu_result cuMemGetAddressRange_v2(weft_cu_ptr *start, size_t *bytes, weft_cu_ptr at)
{
	struct soft_range *range;

	if (!start && !bytes)
		return WEFT_CUDA_SUCCESS;
	SOFT_BEGIN_IN(context);
	range = soft_range_at(at);
	if (!range)
		return WEFT_CUDA_ERROR_NOT_FOUND;
	if (start)
		*start = range->start;
	if (bytes)
		*bytes = range->bytes;
	return WEFT_CUDA_SUCCESS;
}

/* ---- in the order of a stream ---- */

static weft_cu_result nothing(struct soft_op *op)
{
	return WEFT_CUDA_SUCCESS;
}

static weft_cu_result release(struct soft_op *op)
{
	struct soft_range *range;

	pthread_mutex_lock(&soft_lock);
	range = soft_range_start(op->to);
	if (range && (range->kind == SOFT_POOL || range->kind == SOFT_LEGACY))
		soft_range_end(range);
	pthread_mutex_unlock(&soft_lock);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuMemAllocAsync(weft_cu_ptr *at, size_t bytes, weft_cu_stream handle)
{
	struct soft_range *range;
	weft_cu_stream stream;
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	err = soft_stream_find(context, handle, &stream);
	if (!err)
		err = take(SOFT_POOL, bytes, SOFT_UNIT, stream->context, &range);
	if (!err)
		*at = range->start;
	return err ? err : soft_enqueue(stream, soft_op_new(nothing));
}

weft_cu_result cuMemFreeAsync(weft_cu_ptr at, weft_cu_stream handle)
{
	struct soft_range *range;
	weft_cu_stream stream;
	weft_cu_result err;
	struct soft_op *op;

	SOFT_BEGIN_IN(context);
	err = soft_stream_find(context, handle, &stream);
	if (err)
		return err;
	range = soft_range_start(at);
	if (!range || (range->kind != SOFT_POOL && range->kind != SOFT_LEGACY))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	op = soft_op_new(release);
	if (op)
		op->to = at;
	return soft_enqueue(stream, op);
}
