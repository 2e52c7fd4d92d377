/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a libcuda says of processes and kernels. */
#include "facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long long id;
static weft_cu_context context, other;
static weft_cu_stream stream;
static weft_cu_event event;
static weft_cu_ptr at;
static char own[4096];
static int number;

/* What the CPU finds at an address of a device: by a load, and by process_vm. */
static void touch(const char *fact, weft_cu_ptr address)
{
	struct iovec local = {own, 8}, remote = {(void *)(uintptr_t)address, 8};
	char line[64];
	ssize_t n;

	ASK(fact, (__atomic_load_n((uint64_t *)(uintptr_t)address, __ATOMIC_RELAXED), 0u));
	n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	snprintf(line, sizeof(line), "%s by process_vm", fact);
	facts_say(line, n == 8 ? "8" : strerrorname_np(errno));
}

void facts_cpu(void)
{
	weft_cu_memory shared;
	int fd = -1;

	gpu_context();
	for (enum facts_kind kind = 0; kind < FACTS_KINDS; kind++)
		touch(facts_kinds[kind], facts_memory(kind));
	shared = facts_handle(true);
	GPU_OK(cu.cuMemExportToShareableHandle(&fd, shared, 1, 0));
	TELL("descriptor maps",
	     mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
}

void facts_dmabuf(void)
{
	struct stat first, second;
	int fd = -1, fd2 = -1;

	gpu_context();
	for (enum facts_kind kind = 0; kind < FACTS_PAGEABLE; kind++) {
		at = facts_memory(kind);
		ASK(facts_kinds[kind],
		    cu.cuMemGetHandleForAddressRange(&fd, at, FACTS_BYTES, 1, 0));
	}
	at = facts_memory(FACTS_LEGACY);
	ASK("part", cu.cuMemGetHandleForAddressRange(&fd, at + 4096, 8192, 1, 0));
	ASK("the same", cu.cuMemGetHandleForAddressRange(&fd2, at + 4096, 8192, 1, 0));
	TELL("bytes", lseek(fd, 0, SEEK_END));
	TELL("inodes alike",
	     !fstat(fd, &first) && !fstat(fd2, &second) && first.st_ino == second.st_ino);
	TELL("maps", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
	ASK("not of pages", cu.cuMemGetHandleForAddressRange(&fd, at + 512, 8192, 1, 0));
	ASK("of half a page", cu.cuMemGetHandleForAddressRange(&fd, at, 512, 1, 0));
	ASK("beyond the end", cu.cuMemGetHandleForAddressRange(&fd, at, 2 * FACTS_BYTES, 1, 0));
	ASK("of nothing", cu.cuMemGetHandleForAddressRange(&fd, at, 0, 1, 0));
	GPU_OK(cu.cuMemAlloc_v2(&at, 100));
	ASK("small", cu.cuMemGetHandleForAddressRange(&fd, at & ~4095ull, 4096, 1, 0));
}

/* The other process, which begins CUDA on its own. */
static void open_peer(int in, int out)
{
	struct weft_cu_ipc_memory handle;
	weft_cu_ptr here = 0, again = 0;

	gpu_context();
	if (read(in, &handle, sizeof(handle)) != sizeof(handle))
		_exit(3);
	ASK("open with no flags", cu.cuIpcOpenMemHandle_v2(&here, handle, 0));
	ASK("open",
	    cu.cuIpcOpenMemHandle_v2(&here, handle, WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ASK("open again",
	    cu.cuIpcOpenMemHandle_v2(&again, handle, WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	TELL("the same address", here == again);
	ASK("attribute", cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, here));
	ASK("read", cu.cuMemcpyDtoH_v2(own, here + 512, 1));
	TELL("is", own[0]);
	ASK("write", cu.cuMemsetD8_v2(here, 9, 16));
	ASK("free", cu.cuMemFree_v2(here));
	ASK("handle of it", cu.cuIpcGetMemHandle(&handle, here));
	ASK("descriptor of it", cu.cuMemGetHandleForAddressRange(&number, here, 4096, 1, 0));
	ASK("close", cu.cuIpcCloseMemHandle(here));
	ASK("close again", cu.cuIpcCloseMemHandle(here));
	ASK("close once more", cu.cuIpcCloseMemHandle(here));
	_exit(write(out, "", 1) != 1);
}

void facts_ipc(void)
{
	struct weft_cu_ipc_memory handle;
	int to[2], from[2];
	pid_t pid;

	if (pipe(to) || pipe(from))
		return;
	pid = fork();
	if (!pid)
		open_peer(to[0], from[1]);
	gpu_context();
	for (enum facts_kind kind = 0; kind < FACTS_KINDS; kind++)
		ASK(facts_kinds[kind], cu.cuIpcGetMemHandle(&handle, facts_memory(kind)));
	at = facts_memory(FACTS_LEGACY);
	GPU_OK(cu.cuMemsetD8_v2(at, 7, FACTS_BYTES));
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuIpcGetMemHandle(&handle, at + 4096));
	ASK("open in the same process",
	    cu.cuIpcOpenMemHandle_v2(&at, handle, WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	fflush(stdout);
	if (write(to[1], &handle, sizeof(handle)) != sizeof(handle) || read(from[0], own, 1) != 1)
		facts_say("peer", "ended early");
	waitpid(pid, NULL, 0);
	ASK("what it wrote", cu.cuMemcpyDtoH_v2(own, at, 1));
	TELL("is there", own[0]);
	memset(&handle, 1, sizeof(handle));
	ASK("open of nonsense", cu.cuIpcOpenMemHandle_v2(&at, handle, 1));
	ASK("close of others", cu.cuIpcCloseMemHandle(facts_memory(FACTS_LEGACY)));
}

void facts_fork(void)
{
	pid_t pid;

	context = gpu_context();
	at = facts_memory(FACTS_LEGACY);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		ASK("init", cu.cuInit(0));
		ASK("count", cu.cuDeviceGetCount(&number));
		ASK("attribute",
		    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
		ASK("current", cu.cuCtxGetCurrent(&context));
		ASK("push", cu.cuCtxPushCurrent_v2(context));
		ASK("copy", cu.cuMemcpyHtoD_v2(at, own, 16));
		ASK("free", cu.cuMemFree_v2(at));
		ASK("synchronize", cu.cuCtxSynchronize());
		_exit(0);
	}
	waitpid(pid, &number, 0);
	TELL("status", number);
	ASK("the parent goes on", cu.cuMemcpyHtoD_v2(at, own, 16));
}

static void at_exit(void)
{
	ASK("attribute", cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ASK("copy", cu.cuMemcpyHtoD_v2(at, own, 16));
	ASK("push", cu.cuCtxPushCurrent_v2(context));
	ASK("init", cu.cuInit(0));
	ASK("free", cu.cuMemFree_v2(at));
}

void facts_exit(void)
{
	atexit(at_exit); /* before CUDA's, so it runs behind that */
	context = gpu_context();
	at = facts_memory(FACTS_LEGACY);
}

void facts_kernels(void)
{
	struct {
		uint64_t at, count, value;
	} args = {0, 1000, 5};
	void *params[] = {&args};
	weft_cu_module module = NULL;
	weft_cu_function fill = NULL;

	gpu_context();
	ASK("of nonsense",
	    cu.cuModuleLoadData(&module, "nonsense, which is neither ELF nor source"));
	ASK("load", cu.cuModuleLoadData(&module, gpu_image(facts_image)));
	ASK("no such function", cu.cuModuleGetFunction(&fill, module, "nobody"));
	ASK("function", cu.cuModuleGetFunction(&fill, module, "fill"));
	args.at = facts_memory(FACTS_LEGACY);
	ASK("no block", cu.cuLaunchKernel(fill, 0, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	ASK("too many threads",
	    cu.cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL));
	ASK("launch", cu.cuLaunchKernel(fill, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	ASK("result", cu.cuMemcpyDtoH_v2(own, args.at, 4096));
	TELL("last word", ((uint64_t *)own)[511]);
	args.at = facts_memory(FACTS_HOST);
	ASK("on pinned memory", cu.cuLaunchKernel(fill, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	ASK("done", cu.cuCtxSynchronize());
	TELL("word 999", ((uint64_t *)(uintptr_t)args.at)[999]);
	ASK("unload", cu.cuModuleUnload(module));
}

/* A kernel that stores where nothing is: nothing of that context works any more. */
void facts_fault(void)
{
	struct {
		uint64_t at, count, value;
	} args = {4096, 16, 5};
	void *params[] = {&args};
	weft_cu_ptr there, more = 0;
	weft_cu_module module = NULL;
	weft_cu_function fill = NULL;

	other = gpu_context();
	there = facts_memory(FACTS_LEGACY);
	GPU_OK(cu.cuCtxCreate_v2(&context, 0, 0));
	at = facts_memory(FACTS_LEGACY);
	GPU_OK(cu.cuStreamCreate(&stream, 0));
	GPU_OK(cu.cuEventCreate(&event, 0));
	module = gpu_module(facts_image);
	GPU_OK(cu.cuModuleGetFunction(&fill, module, "fill"));
	ASK("launch", cu.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	ASK("wait", cu.cuStreamSynchronize(stream));
	ASK("copy", cu.cuMemcpyHtoD_v2(at, own, 16));
	ASK("alloc", cu.cuMemAlloc_v2(&more, 16));
	ASK("attribute", cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
	ASK("query", cu.cuStreamQuery(stream));
	ASK("event", cu.cuEventQuery(event));
	ASK("free", cu.cuMemFree_v2(at));
	ASK("set the other context", cu.cuCtxSetCurrent(other));
	ASK("copy there", cu.cuMemcpyHtoD_v2(there, own, 16));
	ASK("attribute there",
	    cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, there));
	ASK("synchronize there", cu.cuCtxSynchronize());
	ASK("destroy", cu.cuCtxDestroy_v2(context));
	ASK("new context", cu.cuCtxCreate_v2(&context, 0, 0));
}
