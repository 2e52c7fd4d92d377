/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a libcuda says of memory. */
#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul

const char *const facts_kinds[] = {"legacy", "pool", "managed",	   "vmm",
				   "vmmfd",  "host", "registered", "pageable"};

static const struct weft_cu_memory_prop plain = {
	.type = WEFT_CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
};

weft_cu_memory facts_handle(bool exportable)
{
	struct weft_cu_memory_prop prop = plain;
	weft_cu_memory memory;

	prop.requestedHandleTypes = exportable ? WEFT_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
					       : WEFT_CU_MEM_HANDLE_TYPE_NONE;
	GPU_OK(cu.cuMemCreate(&memory, FACTS_BYTES, &prop, 0));
	return memory;
}

static weft_cu_ptr mapped(bool exportable)
{
	struct weft_cu_access access = {plain.location, WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	weft_cu_memory memory = facts_handle(exportable);
	weft_cu_ptr at;

	GPU_OK(cu.cuMemAddressReserve(&at, FACTS_BYTES, 0, 0, 0));
	GPU_OK(cu.cuMemMap(at, FACTS_BYTES, 0, memory, 0));
	GPU_OK(cu.cuMemSetAccess(at, FACTS_BYTES, &access, 1));
	return at;
}

weft_cu_ptr facts_memory(enum facts_kind kind)
{
	weft_cu_ptr at = 0;
	void *host = NULL;

	switch (kind) {
	case FACTS_LEGACY:
		GPU_OK(cu.cuMemAlloc_v2(&at, FACTS_BYTES));
		return at;
	case FACTS_POOL:
		GPU_OK(cu.cuMemAllocAsync(&at, FACTS_BYTES, NULL));
		GPU_OK(cu.cuStreamSynchronize(NULL));
		return at;
	case FACTS_MANAGED:
		GPU_OK(cu.cuMemAllocManaged(&at, FACTS_BYTES, WEFT_CU_MEM_ATTACH_GLOBAL));
		return at;
	case FACTS_VMM:
	case FACTS_VMM_FD:
		return mapped(kind == FACTS_VMM_FD);
	case FACTS_HOST:
		GPU_OK(cu.cuMemAllocHost_v2(&host, FACTS_BYTES));
		return (uintptr_t)host;
	case FACTS_REGISTERED:
	case FACTS_PAGEABLE:
	case FACTS_KINDS:
		break;
	}
	host = mmap(NULL, FACTS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(host, 0, FACTS_BYTES);
	if (kind == FACTS_REGISTERED)
		GPU_OK(cu.cuMemHostRegister_v2(host, FACTS_BYTES, 0));
	return (uintptr_t)host;
}

void facts_alloc(void)
{
	weft_cu_ptr at = 0, other = 0, start = 0;
	unsigned long long id = 0, id2 = 0;
	size_t bytes = 0;
	char host[64] = "";

	gpu_context();
	ASK("zero", cu.cuMemAlloc_v2(&at, 0));
	ASK("too much", cu.cuMemAlloc_v2(&at, 1ul << 50));
	ASK("one byte", cu.cuMemAlloc_v2(&at, 1));
	ASK("another", cu.cuMemAlloc_v2(&other, 1));
	TELL("neighbours", other - at);
	ASK("range of one byte", cu.cuMemGetAddressRange_v2(&start, &bytes, at));
	TELL("range starts", start == at);
	TELL("range bytes", bytes);
	ASK("behind the byte", cu.cuMemGetAddressRange_v2(&start, &bytes, at + 1));
	ASK("attribute behind the byte",
	    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at + 1));
	ASK("attribute 512 behind the last",
	    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, other + 512));
	ASK("id", cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ASK("free", cu.cuMemFree_v2(at));
	ASK("id after free",
	    cu.cuPointerGetAttribute(&id2, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ASK("free twice", cu.cuMemFree_v2(at));
	ASK("copy after free", cu.cuMemcpyHtoD_v2(at, host, 1));
	start = at;
	ASK("again", cu.cuMemAlloc_v2(&at, 1));
	TELL("the same address", start == at);
	GPU_OK(cu.cuPointerGetAttribute(&id2, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	TELL("the same id", id == id2);
	ASK("free NULL", cu.cuMemFree_v2(0));
	at = facts_memory(FACTS_LEGACY);
	ASK("free inside", cu.cuMemFree_v2(at + 512));
	ASK("range of NULL", cu.cuMemGetAddressRange_v2(&start, &bytes, 0));
	ASK("range of host memory", cu.cuMemGetAddressRange_v2(&start, &bytes, (uintptr_t)host));
	ASK("free host memory", cu.cuMemFree_v2(facts_memory(FACTS_HOST)));
	ASK("free managed", cu.cuMemFree_v2(facts_memory(FACTS_MANAGED)));
	ASK("free pool", cu.cuMemFree_v2(facts_memory(FACTS_POOL)));
	ASK("free vmm", cu.cuMemFree_v2(facts_memory(FACTS_VMM)));
	ASK("free legacy in a stream's order", cu.cuMemFreeAsync(at, NULL));
	GPU_OK(cu.cuCtxSynchronize());
	ASK("and again at once", cu.cuMemFree_v2(at));
}

/* Numbers that do not change from run to run. */
static void ask_attribute(enum facts_kind kind, weft_cu_ptr at, weft_cu_context context,
			  unsigned int attribute, const char *name)
{
	unsigned long long value = 0;
	weft_cu_result result = cu.cuPointerGetAttribute(&value, attribute, at + 100);
	char fact[64];

	snprintf(fact, sizeof(fact), "%s %s", facts_kinds[kind], name);
	facts_say(fact, gpu_error(result));
	if (result)
		return;
	strcat(fact, " is");
	switch (attribute) {
	case WEFT_CU_POINTER_ATTRIBUTE_CONTEXT:
		facts_say(fact, !value			      ? "NULL"
				: value == (uintptr_t)context ? "current"
							      : "another");
		return;
	case WEFT_CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case WEFT_CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case WEFT_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		TELL(fact, value ? (long long)(value - at) : -1);
		return;
	case WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID:
		TELL(fact, value != 0);
		return;
	case WEFT_CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		TELL(fact, value);
		return;
	}
	TELL(fact, (int)value);
}

void facts_attributes(void)
{
	static unsigned int names[] = {
		WEFT_CU_POINTER_ATTRIBUTE_CONTEXT, WEFT_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, WEFT_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		WEFT_CU_POINTER_ATTRIBUTE_HOST_POINTER};
	weft_cu_context context = gpu_context();

	for (enum facts_kind kind = 0; kind < FACTS_KINDS; kind++) {
		weft_cu_ptr at = facts_memory(kind);
		unsigned long long values[5] = {7, 7, 7, 7, 7};
		void *all[] = {&values[0], &values[1], &values[2], &values[3], &values[4]};
		char fact[64];

#define ATTRIBUTE(name) ask_attribute(kind, at, context, WEFT_CU_POINTER_ATTRIBUTE_##name, #name)
		ATTRIBUTE(CONTEXT);
		ATTRIBUTE(MEMORY_TYPE);
		ATTRIBUTE(DEVICE_POINTER);
		ATTRIBUTE(HOST_POINTER);
		ATTRIBUTE(SYNC_MEMOPS);
		ATTRIBUTE(BUFFER_ID);
		ATTRIBUTE(IS_MANAGED);
		ATTRIBUTE(DEVICE_ORDINAL);
		ATTRIBUTE(IS_LEGACY_CUDA_IPC_CAPABLE);
		ATTRIBUTE(RANGE_START_ADDR);
		ATTRIBUTE(RANGE_SIZE);
		ATTRIBUTE(MAPPED);
		ATTRIBUTE(ALLOWED_HANDLE_TYPES);
		snprintf(fact, sizeof(fact), "%s several", facts_kinds[kind]);
		facts_say(fact, gpu_error(cu.cuPointerGetAttributes(5, names, all, at)));
		snprintf(fact, sizeof(fact), "%s several types", facts_kinds[kind]);
		TELL(fact, (int)values[1]);
		snprintf(fact, sizeof(fact), "%s several devices", facts_kinds[kind]);
		TELL(fact, (int)values[3]);
		snprintf(fact, sizeof(fact), "%s sync", facts_kinds[kind]);
		ASK(fact, cu.cuPointerSetAttribute(&(unsigned int){1},
						   WEFT_CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
		snprintf(fact, sizeof(fact), "%s address range", facts_kinds[kind]);
		ASK(fact, cu.cuMemGetAddressRange_v2(NULL, NULL, at + 100));
	}
}

void facts_copies(void)
{
	weft_cu_ptr legacy, host, pageable;
	char own[4096] = "";

	gpu_context();
	legacy = facts_memory(FACTS_LEGACY);
	host = facts_memory(FACTS_HOST);
	pageable = facts_memory(FACTS_PAGEABLE);
	ASK("to device", cu.cuMemcpyHtoD_v2(legacy, own, sizeof(own)));
	ASK("of nothing", cu.cuMemcpyHtoD_v2(legacy, own, 0));
	ASK("of nothing to NULL", cu.cuMemcpyHtoD_v2(0, own, 0));
	ASK("to NULL", cu.cuMemcpyHtoD_v2(0, own, 1));
	ASK("to a device that is the host", cu.cuMemcpyHtoD_v2((uintptr_t)own, own, 1));
	ASK("to a device that is pinned", cu.cuMemcpyHtoD_v2(host, own, 1));
	ASK("from a device that is the host", cu.cuMemcpyDtoH_v2(own, pageable, 1));
	ASK("from a device to one", cu.cuMemcpyDtoH_v2((void *)(uintptr_t)legacy, legacy + 512, 1));
	ASK("beyond the end", cu.cuMemcpyHtoD_v2(legacy + FACTS_BYTES - 1, own, 2));
	ASK("beyond the end, later",
	    cu.cuMemcpyHtoDAsync_v2(legacy + FACTS_BYTES - 1, own, 2, NULL));
	ASK("from beyond the end of pinned",
	    cu.cuMemcpyHtoD_v2(legacy, (void *)(uintptr_t)(host + FACTS_BYTES - 1), 2));
	ASK("host to host", cu.cuMemcpy(pageable, (uintptr_t)own, 16));
	ASK("device to host by address", cu.cuMemcpy(pageable, legacy, 16));
	ASK("onto itself", cu.cuMemcpyDtoD_v2(legacy, legacy, 64));
	ASK("set", cu.cuMemsetD8_v2(legacy, 1, FACTS_BYTES));
	ASK("set beyond the end", cu.cuMemsetD8_v2(legacy, 1, FACTS_BYTES + 1));
	ASK("set pageable", cu.cuMemsetD8_v2(pageable, 1, 16));
	ASK("set pinned", cu.cuMemsetD8_v2(host, 1, 16));
	TELL("is set", *(char *)(uintptr_t)host);
	ASK("and all is well", cu.cuCtxSynchronize());
}

void facts_register(void)
{
	char *at =
		mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *readable = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = memfd_create("file", 0);
	weft_cu_ptr device = 0;
	char *shared;

	gpu_context();
	if (ftruncate(file, 4 * PAGE))
		return;
	shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ASK("anonymous", cu.cuMemHostRegister_v2(at, 8 * PAGE, 0));
	ASK("the same", cu.cuMemHostRegister_v2(at, 8 * PAGE, 0));
	ASK("inside", cu.cuMemHostRegister_v2(at + PAGE, PAGE, 0));
	ASK("overlapping", cu.cuMemHostRegister_v2(at + 7 * PAGE, 2 * PAGE, 0));
	ASK("behind", cu.cuMemHostRegister_v2(at + 8 * PAGE, PAGE, 0));
	ASK("part of a page", cu.cuMemHostRegister_v2(at + 16 * PAGE + 100, 100, 0));
	ASK("rest of that page", cu.cuMemHostRegister_v2(at + 16 * PAGE + 1000, 100, 0));
	ASK("device pointer", cu.cuMemHostGetDevicePointer_v2(&device, at + 100, 0));
	TELL("is", device - (uintptr_t)at);
	ASK("device pointer of others",
	    cu.cuMemHostGetDevicePointer_v2(&device, at + 40 * PAGE, 0));
	ASK("nothing", cu.cuMemHostRegister_v2(at + 32 * PAGE, 0, 0));
	ASK("NULL", cu.cuMemHostRegister_v2(NULL, PAGE, 0));
	ASK("only readable", cu.cuMemHostRegister_v2(readable, PAGE, 0));
	ASK("a file's", cu.cuMemHostRegister_v2(shared, 4 * PAGE, 0));
	munmap(at + 60 * PAGE, 4 * PAGE);
	ASK("what is not mapped", cu.cuMemHostRegister_v2(at + 58 * PAGE, 4 * PAGE, 0));
	ASK("of a device",
	    cu.cuMemHostRegister_v2((void *)(uintptr_t)facts_memory(FACTS_LEGACY), PAGE, 0));
	ASK("of cuMemAllocHost",
	    cu.cuMemHostRegister_v2((void *)(uintptr_t)facts_memory(FACTS_HOST), PAGE, 0));
	ASK("of managed memory",
	    cu.cuMemHostRegister_v2((void *)(uintptr_t)facts_memory(FACTS_MANAGED), PAGE, 0));
	ASK("end inside", cu.cuMemHostUnregister(at + PAGE));
	ASK("end", cu.cuMemHostUnregister(at));
	ASK("end twice", cu.cuMemHostUnregister(at));
	ASK("end of what is allocated",
	    cu.cuMemHostUnregister((void *)(uintptr_t)facts_memory(FACTS_HOST)));
	ASK("free of what is registered", cu.cuMemFreeHost(at + 8 * PAGE));
	munmap(shared, 4 * PAGE);
	ASK("attribute of what is unmapped",
	    cu.cuPointerGetAttribute(&device, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID,
				     (uintptr_t)shared));
	ASK("end of what is unmapped", cu.cuMemHostUnregister(shared));
}

void facts_vmm(void)
{
	struct weft_cu_access access = {plain.location, WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	struct weft_cu_memory_prop prop = plain;
	weft_cu_memory memory = 0, shared = 0, other = 0;
	size_t unit = 0;
	weft_cu_ptr at = 0;
	char own[64] = "";
	int fd = -1;

	gpu_context();
	ASK("granularity", cu.cuMemGetAllocationGranularity(&unit, &prop, 0));
	TELL("granularity is", unit);
	ASK("reserve a page", cu.cuMemAddressReserve(&at, PAGE, 0, 0, 0));
	ASK("reserve", cu.cuMemAddressReserve(&at, 4 * FACTS_BYTES, 0, 0, 0));
	ASK("create a page", cu.cuMemCreate(&memory, PAGE, &prop, 0));
	memory = facts_handle(false);
	shared = facts_handle(true);
	ASK("map half", cu.cuMemMap(at, FACTS_BYTES / 2, 0, memory, 0));
	ASK("map where nothing is reserved",
	    cu.cuMemMap(at + 64 * FACTS_BYTES, FACTS_BYTES, 0, memory, 0));
	ASK("map", cu.cuMemMap(at, FACTS_BYTES, 0, memory, 0));
	ASK("map over it", cu.cuMemMap(at, FACTS_BYTES, 0, shared, 0));
	ASK("map beside it", cu.cuMemMap(at + FACTS_BYTES, FACTS_BYTES, 0, shared, 0));
	ASK("map the same twice", cu.cuMemMap(at + 2 * FACTS_BYTES, FACTS_BYTES, 0, shared, 0));
	ASK("copy without access", cu.cuMemcpyHtoD_v2(at, own, 8));
	ASK("access to the gap, too", cu.cuMemSetAccess(at, 4 * FACTS_BYTES, &access, 1));
	ASK("access", cu.cuMemSetAccess(at, 3 * FACTS_BYTES, &access, 1));
	ASK("copy over both", cu.cuMemcpyHtoD_v2(at + FACTS_BYTES - 8, own, 16));
	ASK("copy into the gap", cu.cuMemcpyHtoD_v2(at + 3 * FACTS_BYTES - 8, own, 16));
	ASK("retain", cu.cuMemRetainAllocationHandle(&other, (void *)(uintptr_t)(at + 100)));
	ASK("release it", cu.cuMemRelease(other));
	ASK("retain of none", cu.cuMemRetainAllocationHandle(&other, own));
	ASK("export of what is not for it", cu.cuMemExportToShareableHandle(&fd, memory, 1, 0));
	ASK("export", cu.cuMemExportToShareableHandle(&fd, shared, 1, 0));
	ASK("import", cu.cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, 1));
	TELL("is the same", other == shared);
	ASK("import of no such descriptor",
	    cu.cuMemImportFromShareableHandle(&other, (void *)0, 1));
	ASK("release", cu.cuMemRelease(memory));
	ASK("copy after release", cu.cuMemcpyHtoD_v2(at, own, 8));
	GPU_OK(cu.cuCtxSynchronize());
	ASK("free what is mapped", cu.cuMemAddressFree(at, 4 * FACTS_BYTES));
	ASK("unmap half", cu.cuMemUnmap(at, FACTS_BYTES / 2));
	ASK("unmap two", cu.cuMemUnmap(at, 2 * FACTS_BYTES));
	ASK("unmap again", cu.cuMemUnmap(at, FACTS_BYTES));
	ASK("copy after unmap", cu.cuMemcpyHtoD_v2(at, own, 8));
	ASK("unmap the last", cu.cuMemUnmap(at + 2 * FACTS_BYTES, FACTS_BYTES));
	ASK("free half", cu.cuMemAddressFree(at, 2 * FACTS_BYTES));
	ASK("free", cu.cuMemAddressFree(at, 4 * FACTS_BYTES));
	ASK("and all is well", cu.cuCtxSynchronize());
}
