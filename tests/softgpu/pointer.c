/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What CUDA knows about an address; threads without a context may ask, too. */
#include "soft.h"

#include <string.h>

/* Sizes are those of CUDA's manual. Of memory that it does not know: zeros, and -2 for the device.
 */
static weft_cu_result answer(void *data, unsigned int attribute, const struct soft_range *range,
			     uint64_t at)
{
	bool host = range && soft_is_host(range);
	uint64_t start = range ? range->start : 0;
	size_t bytes = range ? range->bytes : 0;

	if (range && range->kind == SOFT_MAPPED)
		soft_mapping_around(range, &start, &bytes);
	switch (attribute) {
	case WEFT_CU_POINTER_ATTRIBUTE_CONTEXT:
		*(weft_cu_context *)data =
			range && range->kind != SOFT_POOL ? range->context : NULL;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = !range ? 0
					: host ? WEFT_CU_MEMORYTYPE_HOST
					       : WEFT_CU_MEMORYTYPE_DEVICE;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(weft_cu_ptr *)data = range ? at : 0;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(void **)data = host || (range && range->kind == SOFT_MANAGED)
					 ? (void *)(uintptr_t)at
					 : NULL;
		return range && !host && range->kind != SOFT_MANAGED ? WEFT_CUDA_ERROR_INVALID_VALUE
								     : WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned int *)data = range && range->sync;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = range ? range->id : 0;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)data = range && range->kind == SOFT_MANAGED;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = !range		? -2
			       : range->context ? range->context->device
						: range->memory->device;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned int *)data = range && range->kind == SOFT_LEGACY;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(weft_cu_ptr *)data = start;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = bytes;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)data = range != NULL;
		return WEFT_CUDA_SUCCESS;
	case WEFT_CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data =
			range && range->kind == SOFT_MAPPED && range->memory->exportable;
		return WEFT_CUDA_SUCCESS;
	}
	return WEFT_CUDA_ERROR_INVALID_VALUE;
}

weft_cu_result cuPointerGetAttribute(void *data, unsigned int attribute, weft_cu_ptr at)
{
	struct soft_range *range;

	SOFT_BEGIN();
	range = soft_range_at(at);
	return range && data ? answer(data, attribute, range, at) : WEFT_CUDA_ERROR_INVALID_VALUE;
}

weft_cu_result cuPointerGetAttributes(unsigned int count, unsigned int *attributes, void **data,
				      weft_cu_ptr at)
{
	struct soft_range *range;

	SOFT_BEGIN();
	if (!count || !attributes || !data)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	range = soft_range_at(at);
	for (unsigned int i = 0; i < count; i++) {
		weft_cu_result err = answer(data[i], attributes[i], range, at);

		/* asked for among several, an attribute that this kind of memory does not have is zero */
		if (err && attributes[i] != WEFT_CU_POINTER_ATTRIBUTE_HOST_POINTER)
			return err;
	}
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuPointerSetAttribute(const void *value, unsigned int attribute, weft_cu_ptr at)
{
	struct soft_range *range;

	SOFT_BEGIN();
	range = soft_range_at(at);
	if (range && range->kind == SOFT_MAPPED)
		return WEFT_CUDA_ERROR_NOT_SUPPORTED;
	if (!value || !range || attribute != WEFT_CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	range->sync = *(const unsigned int *)value;
	return WEFT_CUDA_SUCCESS;
}
