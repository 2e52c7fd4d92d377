/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Contexts. Memory of cuMemAlloc is copied in its own; that of a pool, which is of none, in the program's. Mapped memory, which is of
 * none either, is copied in one of Weft's own: a thread of the program's that is in cuMemcpyDtoH holds the lock of its context, and
 * that copy may be of what a kernel has made of the very bytes that are to be brought (PyTorch's, behind a collective of NCCL's).
 */
#include <errno.h>
#include <pthread.h>

#include "cuda/mutation.h"
#include "cuda/plugin.h"

#define DEVICES 64

/* ---- Weft's own, one a device ---- */

/* They end with the process: the end of a context waits for all kernels of the device. */
static struct {
	pthread_mutex_t lock;
	weft_cu_context context[DEVICES];
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* NULL: the device has no room for one, which takes half a GiB. */
static weft_cu_context own_context(const struct weft_cuda *cuda, weft_cu_device device)
{
	weft_cu_context *context = &own.context[device], current;

	pthread_mutex_lock(&own.lock);
	if (!*context && !cuda->cuCtxCreate_v2(context, 0, device))
		cuda->cuCtxPopCurrent_v2(&current);
	pthread_mutex_unlock(&own.lock);
	return *context;
}

/* ---- A region's ---- */

/* For what is of no context, one that lives as long as the program uses the device through it; else the primary one, with a
 * reference. */
static int choose_context(struct weft_cuda_region *m)
{
	const struct weft_cuda *cuda = &m->cuda;
	weft_cu_context current = NULL;
	weft_cu_device device = -1;
	unsigned int flags;
	int active = 0;

	m->context = m->what.context;
	if (m->context)
		return 0;
	cuda->cuDevicePrimaryCtxGetState(m->what.device, &flags, &active);
	if (!active && !cuda->cuCtxGetCurrent(&current) && current &&
	    !cuda->cuCtxGetDevice(&device) && device == m->what.device) {
		m->context = current;
		return 0;
	}
	if (cuda->cuDevicePrimaryCtxRetain(&m->context, m->what.device))
		return -EIO;
	m->retained = !WEFT_MUTATED(reference_not_taken);
	if (!m->retained)
		cuda->cuDevicePrimaryCtxRelease_v2(m->what.device);
	return 0;
}

static bool is_of_handle(const struct weft_cuda_region *m)
{
	weft_cu_memory handle;

	if (m->what.context ||
	    m->cuda.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)m->what.part->start))
		return false;
	m->cuda.cuMemRelease(handle);
	return true;
}

int weft_cuda_choose_contexts(struct weft_cuda_region *m)
{
	int err = choose_context(m);

	m->copier = NULL;
	if (!err && is_of_handle(m) && m->what.device < DEVICES && !WEFT_MUTATED(copied_in_theirs))
		m->copier = own_context(&m->cuda, m->what.device);
	if (!m->copier)
		m->copier = m->context;
	return err;
}

void weft_cuda_let_go_of_context(struct weft_cuda_region *m)
{
	if (m->retained && !WEFT_MUTATED(reference_kept))
		m->cuda.cuDevicePrimaryCtxRelease_v2(m->what.device);
}

/* A stream of a context that has ended has ended with it: whatever names it then ends the process, and so may what is
 * asked of that context. While the memory is there, so is its context. Otherwise the stream stays until that ends. */
bool weft_cuda_has_context(const struct weft_cuda_region *m)
{
	return WEFT_MUTATED(stale_stream_destroyed) || m->copier != m->context ||
	       weft_cuda_is_still(&m->cuda, &m->what);
}

bool weft_cuda_has_memory(const struct weft_cuda_region *m)
{
	return weft_cuda_is_still(&m->cuda, &m->what);
}

static int push_context(const struct weft_cuda *cuda, weft_cu_context context)
{
	if (WEFT_MUTATED(context_not_pushed))
		return 0;
	return cuda->cuCtxPushCurrent_v2(context) ? -EFAULT : 0;
}

int weft_cuda_push(const struct weft_cuda_region *m)
{
	return push_context(&m->cuda, m->copier);
}

int weft_cuda_push_memory(const struct weft_cuda_region *m)
{
	return push_context(&m->cuda, m->context);
}

void weft_cuda_pop(const struct weft_cuda_region *m)
{
	weft_cu_context ours;

	if (WEFT_MUTATED(context_not_pushed))
		return;
	if (!WEFT_MUTATED(context_not_popped))
		m->cuda.cuCtxPopCurrent_v2(&ours);
}
