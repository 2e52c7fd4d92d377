/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Addresses as engines and kernels see them: where their bytes really are. */
#include "soft.h"

#include <stdlib.h>

struct soft_segment {
	uint64_t start;
	size_t bytes;
	uint8_t *at;
	struct soft_memory
		*memory; /* referred to until the view is closed; NULL: the process's own */
};

static weft_cu_result add(struct soft_view *view, const struct soft_segment *segment)
{
	struct soft_segment *more =
		realloc(view->segment, (view->count + 1) * sizeof(*view->segment));

	if (!more)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	view->segment = more;
	view->segment[view->count++] = *segment;
	if (segment->memory)
		segment->memory->refs++;
	return WEFT_CUDA_SUCCESS;
}

/* The segment from `at` on, up to the end of one mapping. */
static weft_cu_result segment_at(uint64_t at, size_t bytes, struct soft_segment *segment)
{
	struct soft_range *range = soft_range_at(at);
	size_t left;

	*segment = (struct soft_segment){at, bytes, (uint8_t *)(uintptr_t)at, NULL};
	if (!range)
		return soft_is_device_address(at) ? WEFT_CUDA_ERROR_ILLEGAL_ADDRESS
						  : WEFT_CUDA_SUCCESS;
	if (range->pin)
		soft_pin_check(range->pin);
	left = range->bytes - (at - range->start);
	if (range->kind == SOFT_REGISTERED)
		return WEFT_CUDA_SUCCESS;
	segment->bytes = left < bytes ? left : bytes;
	segment->memory = range->memory;
	segment->at = range->memory->at + range->into + (at - range->start);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result soft_view_open(struct soft_view *view, uint64_t at, size_t bytes)
{
	weft_cu_result err = WEFT_CUDA_SUCCESS;

	*view = (struct soft_view){0};
	while (bytes && !err) {
		struct soft_segment segment;

		err = segment_at(at, bytes, &segment);
		if (!err)
			err = add(view, &segment);
		at += segment.bytes;
		bytes -= segment.bytes;
	}
	if (err)
		soft_view_close(view);
	return err;
}

void soft_view_close(struct soft_view *view)
{
	for (unsigned int i = 0; i < view->count; i++)
		soft_memory_drop(view->segment[i].memory);
	free(view->segment);
	*view = (struct soft_view){0};
}

uint8_t *soft_view_at(const struct soft_view *view, uint64_t at, size_t *left)
{
	const struct soft_segment *segment = view->segment;

	while (at - segment->start >= segment->bytes)
		segment++;
	*left = segment->bytes - (at - segment->start);
	return segment->at + (at - segment->start);
}
