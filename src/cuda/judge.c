/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The host's side of the kernel that judges events, which is launched for each buffer. Each lane has a stream, so that several buffers are
 * under way at once, and memory of its own.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cuda/find.h"
#include "cuda/judge.h"
#include "cuda/plugin.h"

#define LANES	   64u
#define WARP	   32u
#define WARPS	   64u /* a datagram each; in blocks of their own, so that each has a processor */
#define WARPS_MOST 1024u
#define ASK	   1024u /* looks, before it is asked whether the launch has failed */
#define LINE	   64u
#define DECISION   8u /* bytes */

struct lane {
	weft_cu_stream stream;
	struct weft_judge_told *told;
	struct weft_judge_args args; /* of the last launch, and of the next but for its buffer */
	uint32_t looks;
};

struct judge {
	struct weft_cuda_region *memory;
	weft_cu_module module;
	weft_cu_function function;
	weft_cu_ptr at; /* the detector, then words and work of the lanes */
	uint8_t *host;
	void *pin;
	uint64_t host_bytes;
	unsigned int warps;
	uint32_t lanes;
	struct lane lane[LANES];
};

/* ---- Memory for lists ---- */

/* Makes the device's primary context current, and holds it. */
static int enter_primary(struct weft_cuda *cuda, uint32_t device)
{
	weft_cu_context context;
	weft_cu_device which;

	if (weft_cuda_find(cuda, NULL) || cuda->cuInit(0) ||
	    cuda->cuDeviceGet(&which, (int)device) ||
	    cuda->cuDevicePrimaryCtxRetain(&context, which))
		return -ENODEV;
	if (!cuda->cuCtxPushCurrent_v2(context))
		return 0;
	cuda->cuDevicePrimaryCtxRelease_v2(which);
	return -ENODEV;
}

static void leave_primary(const struct weft_cuda *cuda, uint32_t device)
{
	weft_cu_context ours;

	cuda->cuCtxPopCurrent_v2(&ours);
	cuda->cuDevicePrimaryCtxRelease_v2((weft_cu_device)device);
}

int weft_cuda_allocate(uint32_t device, uint64_t len_bytes, uint64_t *va)
{
	weft_cu_context ours;
	struct weft_cuda cuda;
	weft_cu_ptr at;
	int err = enter_primary(&cuda, device);

	if (err)
		return err;
	if (cuda.cuMemAlloc_v2(&at, len_bytes)) {
		leave_primary(&cuda, device);
		return -ENOMEM;
	}
	cuda.cuCtxPopCurrent_v2(&ours);
	*va = at;
	return 0;
}

void weft_cuda_free(uint32_t device, uint64_t va)
{
	struct weft_cuda cuda;

	if (enter_primary(&cuda, device))
		return;
	cuda.cuMemFree_v2(va);
	leave_primary(&cuda, device);
	cuda.cuDevicePrimaryCtxRelease_v2((weft_cu_device)device); /* what allocate has held */
}

/* ---- Beginning and end ---- */

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

/* The memory of all lanes is zero at first. */
static int make_memory(struct judge *j, const struct weft_plugin_judge *o)
{
	const struct weft_cuda *cuda = &j->memory->cuda;
	uint64_t detector_bytes = rounded(o->detector_bytes);
	uint64_t each_bytes = rounded(LINE + j->warps * (uint64_t)WARP * o->work_bytes);
	uint64_t bytes = detector_bytes + o->lanes * each_bytes;

	if (cuda->cuMemAlloc_v2(&j->at, bytes)) {
		j->at = 0;
		return -ENOMEM;
	}
	if (cuda->cuMemsetD8_v2(j->at, 0, bytes) ||
	    cuda->cuMemcpyHtoD_v2(j->at, o->detector, o->detector_bytes) ||
	    cuda->cuCtxSynchronize())
		return -EIO;
	for (uint32_t i = 0; i < o->lanes; i++) {
		struct weft_judge_args *args = &j->lane[i].args;

		args->detector = j->at;
		args->ended = j->at + detector_bytes + i * each_bytes;
		args->work = args->ended + LINE;
		args->work_bytes = o->work_bytes;
	}
	return 0;
}

static int make_host(struct judge *j, const struct weft_plugin_judge *o)
{
	uint64_t each_bytes = rounded(LINE + o->room * DECISION);

	j->host_bytes = (o->lanes * each_bytes + 4095) & ~4095ull;
	j->host = mmap(NULL, j->host_bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (j->host == MAP_FAILED)
		return -ENOMEM;
	for (uint32_t i = 0; i < o->lanes; i++) {
		struct lane *lane = &j->lane[i];

		lane->told = (struct weft_judge_told *)(j->host + i * each_bytes);
		lane->args.told = (uintptr_t)lane->told;
		lane->args.decision = lane->args.told + LINE;
		lane->args.room = o->room;
		lane->args.algorithm = o->algorithm;
		lane->args.drop = o->drop;
	}
	return weft_cuda_pin(j->memory, j->host, j->host_bytes, &j->pin);
}

static int launch_lane(struct judge *j, struct lane *lane, uint64_t va, uint64_t len_bytes)
{
	void *params[] = {&lane->args};

	lane->args.data = va;
	lane->args.bytes = len_bytes;
	lane->args.turn++;
	lane->told->wrong = 0;
	lane->looks = 0;
	return j->memory->cuda.cuLaunchKernel(j->function, j->warps, 1, 1, WARP, 1, 1, 0,
					      lane->stream, params, NULL)
		       ? -EFAULT
		       : 0;
}

/* The first launch of each lane is of nothing: what the driver puts off until a launch may wait for a kernel that stays, which begins
 * later. With the context pushed. */
static int make_lanes(struct judge *j, uint64_t va)
{
	const struct weft_cuda *cuda = &j->memory->cuda;

	for (uint32_t i = 0; i < j->lanes; i++) {
		struct lane *lane = &j->lane[i];

		if (cuda->cuStreamCreate(&lane->stream, WEFT_CU_STREAM_NON_BLOCKING)) {
			lane->stream = NULL;
			return -EIO;
		}
		if (launch_lane(j, lane, va, 0) || cuda->cuStreamSynchronize(lane->stream))
			return -EIO;
	}
	return 0;
}

static int make_all(struct judge *j, const struct weft_plugin_judge *o)
{
	int err = weft_cuda_push_memory(j->memory);

	if (err)
		return err;
	err = weft_cuda_load(&j->memory->cuda, "weft-judge.ptx", "WEFT_JUDGE_KERNEL", "weft_judge",
			     &j->module, &j->function);
	if (!err)
		err = make_memory(j, o);
	if (!err)
		err = make_lanes(j, j->memory->what.part->start);
	weft_cuda_pop(j->memory);
	return err;
}

static unsigned int warps_wanted(void)
{
	unsigned int warps = weft_cuda_number("WEFT_JUDGE_WARPS", WARPS);

	return warps && warps <= WARPS_MOST ? warps : WARPS;
}

int weft_cuda_judge_begin(void *memory, const struct weft_plugin_judge *o, void **judge)
{
	struct judge *j;
	int err;

	if (!o->lanes || o->lanes > LANES)
		return -EINVAL;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->memory = memory;
	j->lanes = o->lanes;
	j->warps = warps_wanted();
	err = make_host(j, o);
	if (!err)
		err = make_all(j, o);
	if (err)
		weft_cuda_judge_end(j);
	else
		*judge = j;
	return err;
}

static void end_lanes(struct judge *j)
{
	const struct weft_cuda *cuda = &j->memory->cuda;

	if (!weft_cuda_has_memory(j->memory) || weft_cuda_push_memory(j->memory))
		return;
	for (uint32_t i = 0; i < j->lanes && j->lane[i].stream; i++) {
		cuda->cuStreamSynchronize(j->lane[i].stream);
		cuda->cuStreamDestroy_v2(j->lane[i].stream);
	}
	if (j->at)
		cuda->cuMemFree_v2(j->at);
	if (j->module)
		cuda->cuModuleUnload(j->module);
	weft_cuda_pop(j->memory);
}

void weft_cuda_judge_end(void *judge)
{
	struct judge *j = judge;

	end_lanes(j);
	if (j->pin)
		weft_cuda_unpin(j->pin);
	if (j->host != MAP_FAILED)
		munmap(j->host, j->host_bytes);
	free(j);
}

/* ---- Buffers ---- */

int weft_cuda_judge_put(void *judge, uint32_t lane, uint64_t va, uint64_t len_bytes)
{
	struct judge *j = judge;
	int err = weft_cuda_push_memory(j->memory);

	if (err)
		return err;
	err = launch_lane(j, &j->lane[lane], va, len_bytes);
	weft_cuda_pop(j->memory);
	return err;
}

static bool is_decided(const struct lane *lane)
{
	const _Atomic uint64_t *done = (const _Atomic uint64_t *)&lane->told->done;

	/* with weft_release in tell_host (stream/rich/judge_kernel.c): the decisions are there */
	return atomic_load_explicit(done, memory_order_acquire) == lane->args.turn;
}

/* Whether the lane's launch is under way, or waits for its turn. */
static bool is_under_way(const struct judge *j, const struct lane *lane)
{
	weft_cu_result result;

	if (!weft_cuda_has_memory(j->memory) || weft_cuda_push_memory(j->memory))
		return false;
	result = j->memory->cuda.cuStreamQuery(lane->stream);
	weft_cuda_pop(j->memory);
	return result == WEFT_CUDA_ERROR_NOT_READY;
}

int weft_cuda_judge_take(void *judge, uint32_t number, struct weft_plugin_judged *judged)
{
	struct judge *j = judge;
	struct lane *lane = &j->lane[number];

	if (!is_decided(lane)) {
		if (++lane->looks % ASK || is_under_way(j, lane))
			return -EAGAIN;
		if (!is_decided(lane))
			return -EFAULT;
	}
	*judged = (struct weft_plugin_judged){
		.decisions = (const void *)(uintptr_t)lane->args.decision,
		.events = lane->told->events,
		.sent_ns = lane->told->sent_ns,
		.wrong = lane->told->wrong != 0,
	};
	return 0;
}
