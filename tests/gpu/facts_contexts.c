/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a libcuda says of contexts and streams. */
#include "facts.h"

static unsigned long long id;
static weft_cu_context context, other;
static weft_cu_stream stream;
static weft_cu_event event;
static weft_cu_ptr at;
static char own[4096];
static void *host;
static int number;

void facts_before_init(void)
{
	ASK("count", cu.cuDeviceGetCount(&number));
	ASK("alloc", cu.cuMemAlloc_v2(&at, 1));
	ASK("attribute",
	    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, (uintptr_t)own));
	ASK("current", cu.cuCtxGetCurrent(&context));
	ASK("create", cu.cuCtxCreate_v2(&context, 0, 0));
	ASK("version", cu.cuDriverGetVersion(&number));
	ASK("flags", cu.cuInit(1));
	ASK("init", cu.cuInit(0));
	ASK("init again", cu.cuInit(0));
}

void facts_no_context(void)
{
	GPU_OK(cu.cuInit(0));
	ASK("current", cu.cuCtxGetCurrent(&context));
	TELL("is NULL", context == NULL);
	ASK("alloc", cu.cuMemAlloc_v2(&at, 1));
	ASK("free", cu.cuMemFree_v2(4096));
	ASK("copy", cu.cuMemcpyHtoD_v2(4096, own, 1));
	ASK("attribute of host memory",
	    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, (uintptr_t)own));
	ASK("synchronize", cu.cuCtxSynchronize());
	ASK("pop", cu.cuCtxPopCurrent_v2(&context));
	ASK("push NULL", cu.cuCtxPushCurrent_v2(NULL));
	ASK("set NULL", cu.cuCtxSetCurrent(NULL));
	ASK("device", cu.cuCtxGetDevice(&number));
	ASK("stream", cu.cuStreamCreate(&stream, 0));
	ASK("event", cu.cuEventCreate(&event, 0));
	ASK("register", cu.cuMemHostRegister_v2(own, 16, 0));
	ASK("host", cu.cuMemAllocHost_v2(&host, 16));
	ASK("no such device", cu.cuDeviceGet(&number, 99));
	ASK("context on no such device", cu.cuCtxCreate_v2(&context, 0, 99));
	ASK("primary is active", cu.cuDevicePrimaryCtxGetState(0, &(unsigned int){0}, &number));
	TELL("is", number);
	ASK("release of the primary", cu.cuDevicePrimaryCtxRelease_v2(0));
	/* memory is asked about by a thread that has no context */
	GPU_OK(cu.cuCtxCreate_v2(&context, 0, 0));
	at = facts_memory(FACTS_LEGACY);
	GPU_OK(cu.cuCtxPopCurrent_v2(&context));
	ASK("attribute", cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ASK("range of nothing", cu.cuMemGetAddressRange_v2(NULL, NULL, at));
	ASK("range", cu.cuMemGetAddressRange_v2(&at, NULL, at));
	ASK("free of memory", cu.cuMemFree_v2(at));
}

void facts_contexts(void)
{
	weft_cu_context now = NULL, primary = NULL, again = NULL;

	context = gpu_context();
	ASK("another", cu.cuCtxCreate_v2(&other, 0, 0));
	cu.cuCtxGetCurrent(&now);
	TELL("is current", now == other);
	ASK("pop", cu.cuCtxPopCurrent_v2(&now));
	TELL("popped", now == other);
	cu.cuCtxGetCurrent(&now);
	TELL("below", now == context);
	ASK("set", cu.cuCtxSetCurrent(other));
	ASK("set NULL", cu.cuCtxSetCurrent(NULL));
	cu.cuCtxGetCurrent(&now);
	TELL("then none", now == NULL);
	ASK("primary", cu.cuDevicePrimaryCtxRetain(&primary, 0));
	TELL("is another", primary != context && primary != other);
	ASK("primary again", cu.cuDevicePrimaryCtxRetain(&again, 0));
	TELL("is the same", primary == again);
	ASK("destroy primary", cu.cuCtxDestroy_v2(primary));
	ASK("release", cu.cuDevicePrimaryCtxRelease_v2(0));
	ASK("release again", cu.cuDevicePrimaryCtxRelease_v2(0));
	ASK("release once more", cu.cuDevicePrimaryCtxRelease_v2(0));
	ASK("destroy one that is not current", cu.cuCtxDestroy_v2(other));
	GPU_OK(cu.cuCtxSetCurrent(context));
	ASK("peer of the same device", cu.cuCtxEnablePeerAccess(context, 0));
	ASK("no peer", cu.cuCtxDisablePeerAccess(context));
	ASK("destroy the current", cu.cuCtxDestroy_v2(context));
	cu.cuCtxGetCurrent(&now);
	TELL("none is left", now == NULL);
}

/* Memory and streams of a context that is not current. */
void facts_foreign(void)
{
	weft_cu_event foreign_event;
	weft_cu_ptr here, held = 0;
	weft_cu_context of = NULL;
	weft_cu_module module;
	weft_cu_function fill;
	struct {
		uint64_t at, count, value;
	} args = {0, 1, 0};
	void *params[] = {&args};

	context = gpu_context();
	at = facts_memory(FACTS_LEGACY);
	GPU_OK(cu.cuStreamCreate(&stream, 0));
	GPU_OK(cu.cuEventCreate(&foreign_event, 0));
	GPU_OK(cu.cuCtxCreate_v2(&other, 0, 0));
	here = facts_memory(FACTS_LEGACY);
	ASK("copy to its memory", cu.cuMemcpyHtoD_v2(at, own, 16));
	ASK("copy between both", cu.cuMemcpyDtoD_v2(at, here, 16));
	ASK("copy in its stream", cu.cuMemcpyHtoDAsync_v2(at, own, 16, stream));
	ASK("copy of ours in its stream", cu.cuMemcpyHtoDAsync_v2(here, own, 16, stream));
	ASK("set in its stream", cu.cuMemsetD8Async(at, 0, 16, stream));
	ASK("synchronize its stream", cu.cuStreamSynchronize(stream));
	ASK("query its stream", cu.cuStreamQuery(stream));
	ASK("context of its stream", cu.cuStreamGetCtx(stream, &of));
	TELL("is", of == context);
	GPU_OK(cu.cuEventCreate(&event, 0));
	ASK("our event in its stream", cu.cuEventRecord(event, stream));
	ASK("its event in its stream", cu.cuEventRecord(foreign_event, stream));
	ASK("our stream waits for its event", cu.cuStreamWaitEvent(NULL, foreign_event, 0));
	ASK("value in its stream", cu.cuStreamWriteValue64_v2(stream, at, 1, 0));
	ASK("pool memory in its stream", cu.cuMemAllocAsync(&held, 512, stream));
	GPU_OK(cu.cuCtxSetCurrent(context));
	module = gpu_module(facts_image);
	GPU_OK(cu.cuModuleGetFunction(&fill, module, "fill"));
	args.at = at;
	GPU_OK(cu.cuCtxSetCurrent(other));
	ASK("its kernel", cu.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	ASK("its kernel in its stream",
	    cu.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	ASK("free its memory", cu.cuMemFree_v2(at));
	ASK("and all is well", cu.cuCtxSynchronize());
}

void facts_destroyed(void)
{
	void *registered = (void *)(uintptr_t)facts_memory(FACTS_PAGEABLE);
	weft_cu_ptr pinned;

	context = gpu_context();
	at = facts_memory(FACTS_LEGACY);
	pinned = facts_memory(FACTS_HOST);
	GPU_OK(cu.cuMemHostRegister_v2(registered, FACTS_BYTES, 0));
	GPU_OK(cu.cuStreamCreate(&stream, 0));
	GPU_OK(cu.cuEventCreate(&event, 0));
	GPU_OK(cu.cuCtxDestroy_v2(context));
	ASK("alloc", cu.cuMemAlloc_v2(&pinned, 16));
	ASK("attribute of its memory",
	    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ASK("attribute of its registered memory",
	    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID,
				     (uintptr_t)registered));
	ASK("push", cu.cuCtxPushCurrent_v2(context));
	ASK("set", cu.cuCtxSetCurrent(context));
	ASK("alloc in it", cu.cuMemAlloc_v2(&pinned, 16));
	ASK("synchronize it", cu.cuCtxSynchronize());
	/* which error it is differs from run to run */
	TELL("destroyed again", cu.cuCtxDestroy_v2(context) == 0);
	ASK("its stream", cu.cuStreamQuery(stream));
	ASK("its event", cu.cuEventQuery(event));
	GPU_OK(cu.cuCtxCreate_v2(&other, 0, 0));
	ASK("copy to its memory", cu.cuMemcpyHtoD_v2(at, own, 16));
	ASK("free its memory", cu.cuMemFree_v2(at));
	ASK("unregister its memory", cu.cuMemHostUnregister(registered));
	ASK("and all is well", cu.cuCtxSynchronize());
}

void facts_streams(void)
{
	weft_cu_ptr pageable = facts_memory(FACTS_PAGEABLE);

	gpu_context();
	at = facts_memory(FACTS_LEGACY);
	ASK("create", cu.cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING));
	ASK("flags", cu.cuStreamCreate(&stream, 99));
	ASK("query of an empty one", cu.cuStreamQuery(stream));
	ASK("query of NULL", cu.cuStreamQuery(NULL));
	ASK("event", cu.cuEventCreate(&event, WEFT_CU_EVENT_DISABLE_TIMING));
	ASK("never recorded", cu.cuEventQuery(event));
	ASK("wait for that", cu.cuEventSynchronize(event));
	ASK("in order of that", cu.cuStreamWaitEvent(stream, event, 0));
	ASK("record", cu.cuEventRecord(event, stream));
	ASK("wait", cu.cuEventSynchronize(event));
	ASK("done", cu.cuEventQuery(event));
	ASK("value", cu.cuStreamWriteValue64_v2(stream, at, 5, 0));
	ASK("misaligned", cu.cuStreamWriteValue64_v2(stream, at + 4, 5, 0));
	ASK("of 32 bits", cu.cuStreamWriteValue32_v2(stream, at + 12, 5, 0));
	ASK("to pageable memory", cu.cuStreamWriteValue64_v2(stream, pageable, 5, 0));
	ASK("to pinned memory", cu.cuStreamWriteValue64_v2(stream, facts_memory(FACTS_HOST), 5, 0));
	ASK("to memory of a pool",
	    cu.cuStreamWriteValue64_v2(stream, facts_memory(FACTS_POOL), 5, 0));
	ASK("to a mapping", cu.cuStreamWriteValue64_v2(stream, facts_memory(FACTS_VMM), 5, 0));
	ASK("already there",
	    cu.cuStreamWaitValue32_v2(stream, at, 5, WEFT_CU_STREAM_WAIT_VALUE_EQ));
	ASK("pool memory", cu.cuMemAllocAsync(&at, 512, stream));
	ASK("its end", cu.cuMemFreeAsync(at, stream));
	ASK("synchronize", cu.cuStreamSynchronize(stream));
	ASK("its end again", cu.cuMemFreeAsync(at, stream));
	ASK("destroy NULL", cu.cuStreamDestroy_v2(NULL));
	ASK("destroy", cu.cuStreamDestroy_v2(stream));
	ASK("destroy the event", cu.cuEventDestroy_v2(event));
	ASK("and all is well", cu.cuCtxSynchronize());
}
