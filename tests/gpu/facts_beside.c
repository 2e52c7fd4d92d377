/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which calls of a libcuda return while a kernel runs that waits for the program, and, where one does not, whether a copy in a stream of
 * its own goes on meanwhile in another thread. And which return while a thread is in cuMemcpyDtoH, which waits for such a kernel and
 * holds its context.
 */
#include "facts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SMALL	    (64ul << 10)
#define LARGE	    (16ul << 20)
#define PATIENCE_NS 300000000ull  /* on hardware, where nothing else has the processors */
#define SOFT_NS	    5000000000ull /* the stand-in tells that a call waits */

static struct {
	weft_cu_context context, other;
	weft_cu_stream side, copies, used;
	weft_cu_event event;
	weft_cu_module module, second;
	weft_cu_function stay, unused;
	weft_cu_ptr memory, target, freed, opened, mapped;
	weft_cu_memory handle;
	void *pinned, *host, *registered, *large, *pageable, *shared_registered;
	uint64_t *words; /* the kernel's: to end, and that it runs */
	struct weft_cu_ipc_memory peer;
	void *image;
} s;

/* ---- Calls, by a thread of their own ---- */

struct asked {
	weft_cu_result (*call)(void);
	weft_cu_context context;
	weft_cu_result result;
	_Atomic bool returned;
};

static void *run_call(void *arg)
{
	struct asked *asked = arg;

	cu.cuCtxSetCurrent(asked->context);
	asked->result = asked->call();
	atomic_store(&asked->returned, true);
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Whether it has returned; `waiting`: that so many of this process's calls wait is known to the stand-in. */
static bool await(struct asked *asked, unsigned int waiting)
{
	uint64_t until = now_ns() + (gpu_blocked ? SOFT_NS : PATIENCE_NS);

	while (!atomic_load(&asked->returned) && now_ns() < until &&
	       !(gpu_blocked && gpu_blocked() >= waiting))
		usleep(200);
	return atomic_load(&asked->returned);
}

static void launch(weft_cu_stream stream)
{
	struct {
		uint64_t word, answer;
	} args = {(uintptr_t)&s.words[0], (uintptr_t)&s.words[1]};
	void *params[] = {&args};

	s.words[0] = s.words[1] = 0;
	GPU_OK(cu.cuLaunchKernel(s.stay, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	while (!__atomic_load_n(&s.words[1], __ATOMIC_ACQUIRE)) {
		weft_cu_result result = cu.cuStreamQuery(stream);

		if (result && result != WEFT_CUDA_ERROR_NOT_READY)
			GPU_OK(result);
		usleep(100);
	}
}

static weft_cu_result copy_aside(void)
{
	weft_cu_result err = cu.cuMemcpyAsync(s.target, (uintptr_t)s.pinned, 8, s.copies);

	return err ? err : cu.cuStreamSynchronize(s.copies);
}

static void ask_beside(const char *fact, weft_cu_result (*call)(void), weft_cu_stream stream)
{
	struct asked asked = {call, s.context}, copy = {copy_aside, s.context};
	pthread_t thread, copier;
	char answer[96];
	bool returned;

	launch(stream);
	pthread_create(&thread, NULL, run_call, &asked);
	returned = await(&asked, 1);
	if (!returned) {
		bool copied;

		pthread_create(&copier, NULL, run_call, &copy);
		copied = await(&copy, 2);
		snprintf(answer, sizeof(answer), "waits, and copies %s", copied ? "go on" : "wait");
	}
	__atomic_store_n(&s.words[0], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	if (!returned)
		pthread_join(copier, NULL);
	GPU_OK(cu.cuCtxSynchronize());
	if (returned)
		snprintf(answer, sizeof(answer), "%s", gpu_error(asked.result));
	facts_say(fact, answer);
}

/* ---- The calls ---- */

static weft_cu_result copy_from(void *host, size_t bytes)
{
	weft_cu_result err = cu.cuMemcpyAsync(s.target, (uintptr_t)host, bytes, s.side);

	return err ? err : cu.cuStreamSynchronize(s.side);
}

static weft_cu_result copy_pinned(void)
{
	return copy_from(s.pinned, LARGE);
}

static weft_cu_result copy_pageable_8(void)
{
	return copy_from(s.pageable, 8);
}

static weft_cu_result copy_pageable(void)
{
	return copy_from(s.pageable, LARGE);
}

static weft_cu_result copy_back(void)
{
	weft_cu_result err = cu.cuMemcpyAsync((uintptr_t)s.pageable, s.target, LARGE, s.side);

	return err ? err : cu.cuStreamSynchronize(s.side);
}

static weft_cu_result copy_within(void)
{
	weft_cu_result err = cu.cuMemcpyAsync(s.target, s.memory, SMALL, s.side);

	return err ? err : cu.cuStreamSynchronize(s.side);
}

static weft_cu_result set_bytes(void)
{
	weft_cu_result err = cu.cuMemsetD8Async(s.target, 1, SMALL, s.side);

	return err ? err : cu.cuStreamSynchronize(s.side);
}

static weft_cu_result register_small(void)
{
	return cu.cuMemHostRegister_v2(s.registered, SMALL, WEFT_CU_MEMHOSTREGISTER_PORTABLE);
}

static weft_cu_result register_large(void)
{
	return cu.cuMemHostRegister_v2(s.large, LARGE, WEFT_CU_MEMHOSTREGISTER_PORTABLE);
}

static weft_cu_result register_shared(void)
{
	return cu.cuMemHostRegister_v2(s.shared_registered, SMALL,
				       WEFT_CU_MEMHOSTREGISTER_PORTABLE);
}

static weft_cu_result copy_registered(void)
{
	return copy_from(s.registered, SMALL);
}

static weft_cu_result unregister_small(void)
{
	return cu.cuMemHostUnregister(s.registered);
}

static weft_cu_result unregister_shared(void)
{
	return cu.cuMemHostUnregister(s.shared_registered);
}

static weft_cu_result allocate(void)
{
	return cu.cuMemAlloc_v2(&s.freed, LARGE);
}

static weft_cu_result free_it(void)
{
	return cu.cuMemFree_v2(s.freed);
}

static weft_cu_result allocate_host(void)
{
	return cu.cuMemAllocHost_v2(&s.host, LARGE);
}

static weft_cu_result free_host(void)
{
	return cu.cuMemFreeHost(s.host);
}

static weft_cu_result make_stream(void)
{
	return cu.cuStreamCreate(&s.used, WEFT_CU_STREAM_NON_BLOCKING);
}

static weft_cu_result use_stream(void)
{
	weft_cu_result err = cu.cuMemcpyAsync(s.target, (uintptr_t)s.pinned, 8, s.used);

	return err ? err : cu.cuStreamSynchronize(s.used);
}

static weft_cu_result end_stream(void)
{
	return cu.cuStreamDestroy_v2(s.used);
}

static weft_cu_result make_event(void)
{
	return cu.cuEventCreate(&s.event, WEFT_CU_EVENT_DISABLE_TIMING);
}

static weft_cu_result end_event(void)
{
	return cu.cuEventDestroy_v2(s.event);
}

static weft_cu_result load(void)
{
	return cu.cuModuleLoadData(&s.second, s.image);
}

static weft_cu_result find_function(void)
{
	return cu.cuModuleGetFunction(&s.unused, s.second, "fill");
}

static weft_cu_result launch_first(void)
{
	struct {
		uint64_t at, count, value;
	} args = {s.target, 1, 0};
	void *params[] = {&args};

	return cu.cuLaunchKernel(s.unused, 1, 1, 1, 32, 1, 1, 0, s.side, params, NULL);
}

static weft_cu_result unload(void)
{
	return cu.cuModuleUnload(s.second);
}

static weft_cu_result make_handle(void)
{
	s.handle = facts_handle(true);
	return 0;
}

static weft_cu_result map_handle(void)
{
	struct weft_cu_access access = {{WEFT_CU_MEM_LOCATION_TYPE_DEVICE, 0},
					WEFT_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	weft_cu_result err = cu.cuMemAddressReserve(&s.mapped, FACTS_BYTES, 0, 0, 0);

	err = err ? err : cu.cuMemMap(s.mapped, FACTS_BYTES, 0, s.handle, 0);
	return err ? err : cu.cuMemSetAccess(s.mapped, FACTS_BYTES, &access, 1);
}

static weft_cu_result unmap(void)
{
	return cu.cuMemUnmap(s.mapped, FACTS_BYTES);
}

static weft_cu_result free_addresses(void)
{
	return cu.cuMemAddressFree(s.mapped, FACTS_BYTES);
}

static weft_cu_result release_handle(void)
{
	return cu.cuMemRelease(s.handle);
}

static weft_cu_result export_legacy(void)
{
	struct weft_cu_ipc_memory handle;

	return cu.cuIpcGetMemHandle(&handle, s.memory);
}

static weft_cu_result open_peers(void)
{
	return cu.cuIpcOpenMemHandle_v2(&s.opened, s.peer, WEFT_CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static weft_cu_result copy_opened(void)
{
	weft_cu_result err = cu.cuMemcpyAsync(s.target, s.opened, SMALL, s.side);

	return err ? err : cu.cuStreamSynchronize(s.side);
}

static weft_cu_result close_peers(void)
{
	return cu.cuIpcCloseMemHandle(s.opened);
}

static weft_cu_result ask_attribute(void)
{
	unsigned long long id;

	return cu.cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, s.memory);
}

static weft_cu_result retain_primary(void)
{
	return cu.cuDevicePrimaryCtxRetain(&s.other, 0);
}

static weft_cu_result release_primary(void)
{
	return cu.cuDevicePrimaryCtxRelease_v2(0);
}

static const struct {
	const char *name;
	weft_cu_result (*call)(void);
} calls[] = {
	{"copy from pinned memory", copy_pinned},
	{"copy of 8 bytes from pageable memory", copy_pageable_8},
	{"copy from pageable memory", copy_pageable},
	{"copy to pageable memory", copy_back},
	{"copy within the device", copy_within},
	{"set bytes", set_bytes},
	{"register 64 KiB", register_small},
	{"copy from what was registered", copy_registered},
	{"unregister", unregister_small},
	{"register 16 MiB", register_large},
	{"register shared memory", register_shared},
	{"unregister shared memory", unregister_shared},
	{"allocate", allocate},
	{"free", free_it},
	{"allocate of the host", allocate_host},
	{"free of the host", free_host},
	{"make a stream", make_stream},
	{"use a new stream", use_stream},
	{"end a stream", end_stream},
	{"make an event", make_event},
	{"end an event", end_event},
	{"load a module", load},
	{"find a function", find_function},
	{"launch it", launch_first},
	{"unload a module", unload},
	{"make a handle", make_handle},
	{"map a handle", map_handle},
	{"unmap", unmap},
	{"free addresses", free_addresses},
	{"release a handle", release_handle},
	{"export", export_legacy},
	{"open", open_peers},
	{"copy from what was opened", copy_opened},
	{"close", close_peers},
	{"attribute", ask_attribute},
	{"retain the primary context", retain_primary},
	{"release the primary context", release_primary},
};

/* ---- Beside a thread that holds the context ---- */

static weft_cu_result hold_context(void)
{
	return cu.cuMemcpyDtoH_v2(s.pageable, s.memory, SMALL);
}

static void ask_held(const char *fact, weft_cu_result (*call)(void), weft_cu_context context)
{
	struct asked asked = {call, context}, holder = {hold_context, s.context};
	pthread_t thread, holding;
	bool returned;

	launch(NULL);
	pthread_create(&holding, NULL, run_call, &holder);
	await(&holder, 1);
	pthread_create(&thread, NULL, run_call, &asked);
	returned = await(&asked, 2);
	__atomic_store_n(&s.words[0], 1, __ATOMIC_RELEASE);
	pthread_join(holding, NULL);
	pthread_join(thread, NULL);
	GPU_OK(holder.result);
	facts_say(fact, returned ? gpu_error(asked.result) : "waits");
}

static weft_cu_result await_stream(void)
{
	return cu.cuStreamSynchronize(s.side);
}

static weft_cu_result make_another(void)
{
	weft_cu_stream stream;

	return cu.cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING);
}

static weft_cu_result copy_mapping(void)
{
	weft_cu_result err = cu.cuMemcpyAsync((uintptr_t)s.pinned, s.mapped, SMALL, s.side);

	return err ? err : cu.cuStreamSynchronize(s.side);
}

/* In the other context, whose stream s.used is. */
static weft_cu_result aside(weft_cu_result err)
{
	return err ? err : cu.cuStreamSynchronize(s.used);
}

static weft_cu_result copy_mapping_aside(void)
{
	return aside(cu.cuMemcpyAsync((uintptr_t)s.pinned, s.mapped, SMALL, s.used));
}

static weft_cu_result copy_rows_aside(void)
{
	struct weft_cu_rows rows = {
		.srcMemoryType = WEFT_CU_MEMORYTYPE_HOST,
		.srcHost = s.large,
		.srcPitch = 64,
		.dstMemoryType = WEFT_CU_MEMORYTYPE_DEVICE,
		.dstDevice = s.mapped,
		.dstPitch = 64,
		.WidthInBytes = 64,
		.Height = 2,
	};

	return aside(cu.cuMemcpy2DAsync_v2(&rows, s.used));
}

static weft_cu_result write_word_aside(void)
{
	return aside(cu.cuStreamWriteValue64_v2(s.used, s.mapped, 1, 0));
}

static weft_cu_result copy_theirs_aside(void)
{
	return aside(cu.cuMemcpyAsync((uintptr_t)s.pinned, s.target, SMALL, s.used));
}

static weft_cu_result make_context(void)
{
	weft_cu_context context;

	return cu.cuCtxCreate_v2(&context, 0, 0);
}

static const struct {
	const char *name;
	weft_cu_result (*call)(void);
	bool aside; /* in another context */
} held[] = {
	{"copy of its memory", copy_within},
	{"copy of a mapping", copy_mapping},
	{"make a stream", make_another},
	{"launch a kernel", launch_first},
	{"wait for a stream", await_stream},
	{"attribute", ask_attribute},
	{"copy of a mapping, in another context", copy_mapping_aside, true},
	{"rows to a mapping, in another context", copy_rows_aside, true},
	{"word to a mapping, in another context", write_word_aside, true},
	{"copy of its memory, in another context", copy_theirs_aside, true},
	{"register 64 KiB, in another context", register_small, true},
	{"make a context", make_context},
};

/* ---- The groups ---- */

/* Another process's memory, which stays until that process is ended. */
static pid_t begin_peer(int out[2], int end[2])
{
	pid_t pid = fork();
	char byte;

	if (pid)
		return pid;
	close(end[1]);
	gpu_context();
	GPU_OK(cu.cuIpcGetMemHandle(&s.peer, facts_memory(FACTS_LEGACY)));
	if (write(out[1], &s.peer, sizeof(s.peer)) != sizeof(s.peer) || read(end[0], &byte, 1))
		_exit(3);
	_exit(0);
}

static void *map_pages(size_t bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	memset(at, 1, bytes);
	return at;
}

static void make_all(void)
{
	s.context = gpu_context();
	s.image = gpu_image(facts_image);
	s.module = gpu_module(facts_image);
	GPU_OK(cu.cuModuleGetFunction(&s.stay, s.module, "stay"));
	GPU_OK(cu.cuStreamCreate(&s.side, WEFT_CU_STREAM_NON_BLOCKING));
	GPU_OK(cu.cuStreamCreate(&s.copies, WEFT_CU_STREAM_NON_BLOCKING));
	s.memory = gpu_alloc(LARGE);
	s.target = gpu_alloc(LARGE);
	s.pinned = gpu_pinned(LARGE);
	s.words = gpu_pinned(4096);
	s.pageable = map_pages(LARGE, MAP_PRIVATE);
	s.registered = map_pages(SMALL, MAP_PRIVATE);
	s.large = map_pages(LARGE, MAP_PRIVATE);
	s.shared_registered = map_pages(SMALL, MAP_SHARED);
}

void facts_held(void)
{
	weft_cu_context popped;

	make_all();
	GPU_OK(make_handle());
	GPU_OK(map_handle());
	GPU_OK(cu.cuModuleGetFunction(&s.unused, s.module, "fill"));
	GPU_OK(launch_first());
	GPU_OK(await_stream());
	GPU_OK(cu.cuCtxCreate_v2(&s.other, 0, 0));
	GPU_OK(make_stream());
	GPU_OK(cu.cuCtxPopCurrent_v2(&popped));
	for (unsigned int i = 0; i < sizeof(held) / sizeof(held[0]); i++)
		ask_held(held[i].name, held[i].call, held[i].aside ? s.other : s.context);
}

void facts_beside(void)
{
	int out[2], end[2];
	pid_t peer;

	if (pipe(out) || pipe(end))
		return;
	peer = begin_peer(out, end);
	if (read(out[0], &s.peer, sizeof(s.peer)) != sizeof(s.peer))
		return;
	make_all();
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		ask_beside(calls[i].name, calls[i].call, NULL);
	close(end[1]);
	waitpid(peer, NULL, 0);
}
