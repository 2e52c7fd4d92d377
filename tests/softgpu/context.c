/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Contexts, and which of them is a thread's. */
#include "soft.h"

#include <stdlib.h>

#define STACK_MAX 64

struct CUctx_st *soft_contexts;
static weft_cu_context primaries[SOFT_DEVICES];
static weft_cu_result faults[SOFT_DEVICES];
static _Thread_local struct {
	weft_cu_context at[STACK_MAX];
	unsigned int count;
} stack;

static weft_cu_context top(void)
{
	return stack.count ? stack.at[stack.count - 1] : NULL;
}

weft_cu_result soft_context_check(weft_cu_context context)
{
	for (weft_cu_context known = soft_contexts; known; known = known->next)
		if (known == context)
			return known->alive ? known->fault : WEFT_CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return WEFT_CUDA_ERROR_INVALID_CONTEXT;
}

weft_cu_result soft_current(weft_cu_context *context)
{
	*context = top();
	return *context ? soft_context_check(*context) : WEFT_CUDA_ERROR_INVALID_CONTEXT;
}

void soft_context_fail(weft_cu_context context, weft_cu_result fault)
{
	if (!faults[context->device])
		faults[context->device] = fault;
	for (weft_cu_context other = soft_contexts; other; other = other->next)
		if (other->device == context->device)
			other->fault = faults[context->device];
	pthread_cond_broadcast(&soft_changed);
}

static weft_cu_result context_new(weft_cu_context *out, weft_cu_device device, bool primary)
{
	weft_cu_context context;

	if (device < 0 || device >= SOFT_DEVICES)
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	if (faults[device])
		return faults[device];
	context = calloc(1, sizeof(*context));
	if (!context)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	*context = (struct CUctx_st){.device = device, .primary = primary, .next = soft_contexts};
	soft_contexts = context;
	*out = context;
	return WEFT_CUDA_SUCCESS;
}

static weft_cu_result start(weft_cu_context context)
{
	context->legacy = soft_stream_new(context, true);
	if (!context->legacy)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	context->alive = true;
	context->fault = faults[context->device];
	context->peers = 0;
	return WEFT_CUDA_SUCCESS;
}

/* Ends the context: waits for the work in it, then all memory and streams of it are gone. */
static void end(weft_cu_context context)
{
	/* as hardware's: for all that runs on the device */
	for (weft_cu_context other = soft_contexts; other; other = other->next)
		if (other->alive && other->device == context->device)
			soft_wait_all(other);
	context->alive = false;
	for (weft_cu_stream stream = soft_streams; stream; stream = stream->next)
		if (stream->context == context)
			stream->alive = false;
	soft_ranges_end(context);
	pthread_cond_broadcast(&soft_changed);
}

/* WEFT_SOFT_GPU_CONTEXTS in the environment: for so many there is room. */
static bool has_room(void)
{
	const char *most = getenv("WEFT_SOFT_GPU_CONTEXTS");
	long count = 0;

	for (weft_cu_context context = soft_contexts; context; context = context->next)
		count += context->alive && !context->primary;
	return !most || count < strtol(most, NULL, 10);
}

weft_cu_result cuCtxCreate_v2(weft_cu_context *context, unsigned int flags, weft_cu_device device)
{
	weft_cu_result err;

	SOFT_BEGIN();
	if (stack.count == STACK_MAX || !has_room())
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	err = context_new(context, device, false);
	if (!err)
		err = start(*context);
	if (!err)
		stack.at[stack.count++] = *context;
	return err;
}

weft_cu_result cuCtxDestroy_v2(weft_cu_context context)
{
	weft_cu_result err;

	SOFT_BEGIN();
	err = soft_context_check(context);
	if (err == WEFT_CUDA_ERROR_INVALID_CONTEXT || err == WEFT_CUDA_ERROR_CONTEXT_IS_DESTROYED ||
	    context->primary)
		return WEFT_CUDA_ERROR_INVALID_CONTEXT;
	end(context);
	if (top() == context)
		stack.count--;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDevicePrimaryCtxRetain(weft_cu_context *context, weft_cu_device device)
{
	weft_cu_result err = WEFT_CUDA_SUCCESS;

	SOFT_BEGIN();
	if (device < 0 || device >= SOFT_DEVICES)
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	if (!primaries[device])
		err = context_new(&primaries[device], device, true);
	if (!err && !primaries[device]->alive)
		err = start(primaries[device]);
	if (err)
		return err;
	primaries[device]->retained++;
	*context = primaries[device];
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDevicePrimaryCtxRelease_v2(weft_cu_device device)
{
	SOFT_BEGIN();
	if (device < 0 || device >= SOFT_DEVICES)
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	if (!primaries[device] || !primaries[device]->retained)
		return WEFT_CUDA_ERROR_INVALID_CONTEXT;
	if (!--primaries[device]->retained)
		end(primaries[device]);
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuDevicePrimaryCtxGetState(weft_cu_device device, unsigned int *flags, int *active)
{
	SOFT_BEGIN();
	if (device < 0 || device >= SOFT_DEVICES)
		return WEFT_CUDA_ERROR_INVALID_DEVICE;
	*flags = 0;
	*active = primaries[device] && primaries[device]->alive;
	return WEFT_CUDA_SUCCESS;
}

/* Whether there was such a context: one that has ended or failed may still be made current, and then answers every call with
 * that error. */
static bool is_known(weft_cu_context context)
{
	return soft_context_check(context) != WEFT_CUDA_ERROR_INVALID_CONTEXT;
}

weft_cu_result cuCtxPushCurrent_v2(weft_cu_context context)
{
	SOFT_BEGIN();
	if (!context || stack.count == STACK_MAX)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (!is_known(context))
		return WEFT_CUDA_ERROR_INVALID_CONTEXT;
	stack.at[stack.count++] = context;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuCtxPopCurrent_v2(weft_cu_context *context)
{
	SOFT_BEGIN();
	if (!stack.count)
		return WEFT_CUDA_ERROR_INVALID_CONTEXT;
	stack.count--;
	if (context)
		*context = stack.at[stack.count];
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuCtxSetCurrent(weft_cu_context context)
{
	SOFT_BEGIN();
	if (!context) {
		stack.count -= stack.count > 0;
		return WEFT_CUDA_SUCCESS;
	}
	if (!is_known(context))
		return WEFT_CUDA_ERROR_INVALID_CONTEXT;
	stack.at[stack.count ? stack.count - 1 : stack.count++] = context;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuCtxGetCurrent(weft_cu_context *context)
{
	SOFT_BEGIN();
	*context = top();
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuCtxGetDevice(weft_cu_device *device)
{
	SOFT_BEGIN_IN(context);
	*device = context->device;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuCtxSynchronize(void)
{
	SOFT_BEGIN_IN(context);
	return soft_wait_all(context);
}

weft_cu_result cuCtxEnablePeerAccess(weft_cu_context peer, unsigned int flags)
{
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	err = flags ? WEFT_CUDA_ERROR_INVALID_VALUE : soft_context_check(peer);
	if (err)
		return err;
	if (peer->device == context->device)
		return WEFT_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (context->peers & 1u << peer->device)
		return WEFT_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	context->peers |= 1u << peer->device;
	return WEFT_CUDA_SUCCESS;
}

weft_cu_result cuCtxDisablePeerAccess(weft_cu_context peer)
{
	weft_cu_result err;

	SOFT_BEGIN_IN(context);
	err = soft_context_check(peer);
	if (err)
		return err;
	if (!(context->peers & 1u << peer->device))
		return WEFT_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	context->peers &= ~(1u << peer->device);
	return WEFT_CUDA_SUCCESS;
}
