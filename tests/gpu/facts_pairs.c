/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a libcuda says of copies between memory of two devices in a context of either. With one device it asks nothing. */
#include "facts.h"

#include <stdio.h>

enum { LEGACY, POOL, MAPPED, MANAGED, PAIR_KINDS };
static const char *const names[] = {"legacy", "pool", "vmm", "managed"};

/* Memory of that kind, in a context of that device, which must be current. */
static weft_cu_ptr memory_of(int device, int kind)
{
	struct weft_cu_memory_prop prop = {.type = WEFT_CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = {WEFT_CU_MEM_LOCATION_TYPE_DEVICE, device}};
	struct weft_cu_access access = {prop.location, WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	weft_cu_memory memory;
	weft_cu_ptr at;

	if (kind == MANAGED)
		return facts_memory(FACTS_MANAGED);
	if (kind != MAPPED)
		return facts_memory(kind == LEGACY ? FACTS_LEGACY : FACTS_POOL);
	GPU_OK(cu.cuMemCreate(&memory, FACTS_BYTES, &prop, 0));
	GPU_OK(cu.cuMemAddressReserve(&at, FACTS_BYTES, 0, 0, 0));
	GPU_OK(cu.cuMemMap(at, FACTS_BYTES, 0, memory, 0));
	GPU_OK(cu.cuMemSetAccess(at, FACTS_BYTES, &access, 1));
	return at;
}

static void ask_copy(int context, int to_kind, int to_device, int from_kind, int from_device,
		     weft_cu_ptr to, weft_cu_ptr from)
{
	weft_cu_stream stream;
	char fact[80];

	snprintf(fact, sizeof(fact), "in %d: %s of %d to %s of %d", context, names[from_kind],
		 from_device, names[to_kind], to_device);
	GPU_OK(cu.cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING));
	ASK(fact, cu.cuMemcpyAsync(to, from, 4096, stream));
	snprintf(fact, sizeof(fact), "in %d: %s of %d to %s of %d, waited for", context,
		 names[from_kind], from_device, names[to_kind], to_device);
	ASK(fact, cu.cuStreamSynchronize(stream));
	GPU_OK(cu.cuStreamDestroy_v2(stream));
}

/* Two handles that lie side by side: to which calls they are one allocation. */
void facts_sides(void)
{
	struct weft_cu_memory_prop prop = {.type = WEFT_CU_MEM_ALLOCATION_TYPE_PINNED,
					   .requestedHandleTypes =
						   WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   .location = {WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	struct weft_cu_access access = {prop.location, WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	struct weft_cu_ipc_memory legacy;
	weft_cu_memory memory[2], seen[3];
	unsigned long long start, size, id[2];
	weft_cu_context context;
	weft_cu_ptr at;

	GPU_OK(cu.cuInit(0));
	GPU_OK(cu.cuCtxCreate_v2(&context, 0, 0));
	GPU_OK(cu.cuMemAddressReserve(&at, 2 * FACTS_BYTES, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		GPU_OK(cu.cuMemCreate(&memory[i], FACTS_BYTES, &prop, 0));
		GPU_OK(cu.cuMemMap(at + (weft_cu_ptr)i * FACTS_BYTES, FACTS_BYTES, 0, memory[i],
				   0));
	}
	GPU_OK(cu.cuMemSetAccess(at, 2 * FACTS_BYTES, &access, 1));
	for (int i = 0; i < 2; i++) {
		weft_cu_ptr in = at + (weft_cu_ptr)i * FACTS_BYTES + 4096;

		GPU_OK(cu.cuPointerGetAttribute(&start, WEFT_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
						in));
		GPU_OK(cu.cuPointerGetAttribute(&size, WEFT_CU_POINTER_ATTRIBUTE_RANGE_SIZE, in));
		GPU_OK(cu.cuPointerGetAttribute(&id[i], WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, in));
		TELL(i ? "second starts" : "first starts", start - at);
		TELL(i ? "second has" : "first has", size);
	}
	TELL("ids differ", id[0] != id[1]);
	GPU_OK(cu.cuMemRetainAllocationHandle(&seen[0], (void *)(uintptr_t)at));
	GPU_OK(cu.cuMemRetainAllocationHandle(&seen[1], (void *)(uintptr_t)(at + FACTS_BYTES - 1)));
	GPU_OK(cu.cuMemRetainAllocationHandle(&seen[2], (void *)(uintptr_t)(at + FACTS_BYTES)));
	TELL("one handle at both ends of the first", seen[0] == seen[1]);
	TELL("and the one that made it", seen[0] == memory[0]);
	TELL("one handle of both", seen[0] == seen[2]);
	ASK("legacy handle of the pool's", cu.cuIpcGetMemHandle(&legacy, facts_memory(FACTS_POOL)));
	ASK("legacy handle of a mapping", cu.cuIpcGetMemHandle(&legacy, at));
	ASK("legacy handle of managed", cu.cuIpcGetMemHandle(&legacy, facts_memory(FACTS_MANAGED)));
}

void facts_pairs(void)
{
	weft_cu_ptr at[2][PAIR_KINDS];
	weft_cu_context context[2], popped;
	int devices;

	GPU_OK(cu.cuInit(0));
	GPU_OK(cu.cuDeviceGetCount(&devices));
	if (devices < 2)
		return;
	for (int d = 0; d < 2; d++) {
		GPU_OK(cu.cuCtxCreate_v2(&context[d], 0, d));
		for (int kind = 0; kind < PAIR_KINDS; kind++)
			at[d][kind] = memory_of(d, kind);
		GPU_OK(cu.cuCtxSynchronize());
		GPU_OK(cu.cuCtxPopCurrent_v2(&popped));
	}
	for (int c = 0; c < 2; c++) {
		GPU_OK(cu.cuCtxPushCurrent_v2(context[c]));
		for (int to = 0; to < PAIR_KINDS; to++)
			for (int from = 0; from < PAIR_KINDS; from++)
				ask_copy(c, to, 1, from, 0, at[1][to], at[0][from]);
		GPU_OK(cu.cuCtxPopCurrent_v2(&popped));
	}
}
