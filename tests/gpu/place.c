/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "place.h"

#include <string.h>
#include <sys/mman.h>

const char *const place_names[PLACE_KINDS] = {
	"pooled", "host",  "pinned", "registered", "managed",
	"gpu",	  "async", "mapped", "other",	   "othermapped",
};

/* shared: MAP_SHARED, and they stay in place; or MAP_PRIVATE, and they move into the pool when they are registered. */
static void *pages(size_t bytes, int shared)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, shared | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

#define BLOCK (2ul << 20) /* CUDA's granularity of mappings */

/* Maps so many handles side by side; the place is their middle, and reaches into all of them. */
static void map_handles(struct place *place, int device, unsigned int count)
{
	struct weft_cu_memory_prop prop = {
		.type = WEFT_CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {WEFT_CU_MEM_LOCATION_TYPE_DEVICE, device},
	};
	struct weft_cu_access access = {{WEFT_CU_MEM_LOCATION_TYPE_DEVICE, device},
					WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	weft_cu_ptr at;

	GPU_OK(cu.cuMemAddressReserve(&at, count * BLOCK, 0, 0, 0));
	for (unsigned int i = 0; i < count; i++) {
		GPU_OK(cu.cuMemCreate(&place->memory[i], BLOCK, &prop, 0));
		GPU_OK(cu.cuMemMap(at + i * BLOCK, BLOCK, 0, place->memory[i], 0));
	}
	GPU_OK(cu.cuMemSetAccess(at, count * BLOCK, &access, 1));
	place->at = (uint8_t *)(uintptr_t)(at + (count * BLOCK - place->bytes) / 2);
}

static void unmap_handles(const struct place *place)
{
	unsigned int count = place->memory[1] ? 2 : 1;
	weft_cu_ptr at = (uintptr_t)place->at - (count * BLOCK - place->bytes) / 2;

	GPU_OK(cu.cuMemUnmap(at, count * BLOCK));
	for (unsigned int i = 0; i < count; i++)
		GPU_OK(cu.cuMemRelease(place->memory[i]));
	GPU_OK(cu.cuMemAddressFree(at, count * BLOCK));
}

static void begin_other(struct place *place)
{
	weft_cu_context ours;
	weft_cu_ptr at;
	int devices;

	GPU_OK(cu.cuDeviceGetCount(&devices));
	if (devices < 2)
		return;
	GPU_OK(cu.cuCtxCreate_v2(&place->other, 0, 1));
	if (place->kind == PLACE_OTHER_MAPPED) {
		map_handles(place, 1, 1);
	} else {
		GPU_OK(cu.cuMemAlloc_v2(&at, place->bytes));
		place->at = (uint8_t *)(uintptr_t)at;
	}
	GPU_OK(cu.cuCtxPopCurrent_v2(&ours));
}

void place_begin(struct place *place, enum place_kind kind, size_t bytes)
{
	weft_cu_ptr at = 0;

	*place = (struct place){.kind = kind, .bytes = bytes};
	switch (kind) {
	case PLACE_HOST:
		place->at = pages(bytes, MAP_SHARED);
		break;
	case PLACE_POOLED:
	case PLACE_REGISTERED:
		place->at = pages(bytes, MAP_PRIVATE);
		break;
	case PLACE_PINNED:
		GPU_OK(cu.cuMemAllocHost_v2((void **)&place->at, bytes));
		break;
	case PLACE_MANAGED:
		GPU_OK(cu.cuMemAllocManaged(&at, bytes, WEFT_CU_MEM_ATTACH_GLOBAL));
		break;
	case PLACE_GPU:
		GPU_OK(cu.cuMemAlloc_v2(&at, bytes));
		break;
	case PLACE_ASYNC:
		GPU_OK(cu.cuMemAllocAsync(&at, bytes, NULL));
		GPU_OK(cu.cuCtxSynchronize());
		break;
	case PLACE_MAPPED:
		map_handles(place, 0, 2);
		break;
	case PLACE_OTHER:
	case PLACE_OTHER_MAPPED:
		begin_other(place);
		break;
	case PLACE_KINDS:
		break;
	}
	if (kind == PLACE_REGISTERED)
		GPU_OK(cu.cuMemHostRegister_v2(place->at, bytes, 0));
	place->at = at ? (uint8_t *)(uintptr_t)at : place->at;
}

void place_register(struct place *place, struct ibv_pd *pd)
{
	if (!place->at)
		return;
	place->mr = ibv_reg_mr(pd, place->at, place->bytes, RIG_ALL);
	if (!place->mr)
		print_error("%s memory is not registered\n", place_names[place->kind]);
	assert_non_null(place->mr);
}

static void end_other(struct place *place)
{
	weft_cu_context ours;

	GPU_OK(cu.cuCtxPushCurrent_v2(place->other));
	if (place->kind == PLACE_OTHER_MAPPED)
		unmap_handles(place);
	else
		GPU_OK(cu.cuMemFree_v2((uintptr_t)place->at));
	GPU_OK(cu.cuCtxPopCurrent_v2(&ours));
	GPU_OK(cu.cuCtxDestroy_v2(place->other));
}

void place_end(struct place *place)
{
	if (!place->at)
		return;
	if (place->mr)
		assert_int_equal(ibv_dereg_mr(place->mr), 0);
	if (place->kind == PLACE_REGISTERED)
		GPU_OK(cu.cuMemHostUnregister(place->at));
	switch (place->kind) {
	case PLACE_POOLED:
	case PLACE_HOST:
	case PLACE_REGISTERED:
		munmap(place->at, place->bytes);
		break;
	case PLACE_PINNED:
		GPU_OK(cu.cuMemFreeHost(place->at));
		break;
	case PLACE_MANAGED:
	case PLACE_GPU:
		GPU_OK(cu.cuMemFree_v2((uintptr_t)place->at));
		break;
	case PLACE_ASYNC:
		GPU_OK(cu.cuMemFreeAsync((uintptr_t)place->at, NULL));
		GPU_OK(cu.cuCtxSynchronize());
		break;
	case PLACE_MAPPED:
		unmap_handles(place);
		break;
	case PLACE_OTHER:
	case PLACE_OTHER_MAPPED:
		end_other(place);
		break;
	case PLACE_KINDS:
		break;
	}
	place->at = NULL;
}

/* Copies, and waits until all copies of this context have arrived, as programs do. */
static void copy(const struct place *place, weft_cu_ptr to, weft_cu_ptr from, size_t bytes)
{
	weft_cu_context ours;

	if (place->other)
		GPU_OK(cu.cuCtxPushCurrent_v2(place->other));
	GPU_OK(cu.cuMemcpy(to, from, bytes));
	GPU_OK(cu.cuCtxSynchronize());
	if (place->other)
		GPU_OK(cu.cuCtxPopCurrent_v2(&ours));
}

void place_write(const struct place *place, size_t at, const void *from, size_t bytes)
{
	if (place_is_device(place->kind))
		copy(place, (uintptr_t)place->at + at, (uintptr_t)from, bytes);
	else
		memcpy(place->at + at, from, bytes);
}

void place_read(const struct place *place, size_t at, void *to, size_t bytes)
{
	if (place_is_device(place->kind))
		copy(place, (uintptr_t)to, (uintptr_t)place->at + at, bytes);
	else
		memcpy(to, place->at + at, bytes);
}
