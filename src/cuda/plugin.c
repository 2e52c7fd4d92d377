/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libweft-cuda.so: memory of GPUs, by the copy engines and the driver that the program has brought. Each memory has
 * a stream of its own, which waits for none of the program's work, and which none of it waits for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/find.h"
#include "cuda/mutation.h"
#include "cuda/plugin.h"
#include "pool/step.h"

#define TAIL_BYTES 8u /* what programs poll on */

/* ---- The context ---- */

/* Memory of a pool, or mapped, is of no context. Chooses one for it that lives as long as the program uses the device
 * through it; else the primary one, with a reference. */
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

static void let_go_of_context(struct weft_cuda_region *m)
{
	if (m->retained && !WEFT_MUTATED(reference_kept))
		m->cuda.cuDevicePrimaryCtxRelease_v2(m->what.device);
}

/* The program's current context is current again after weft_cuda_pop. */
int weft_cuda_push(const struct weft_cuda_region *m)
{
	if (WEFT_MUTATED(context_not_pushed))
		return 0;
	return m->cuda.cuCtxPushCurrent_v2(m->context) ? -EFAULT : 0;
}

void weft_cuda_pop(const struct weft_cuda_region *m)
{
	weft_cu_context ours;

	if (WEFT_MUTATED(context_not_pushed))
		return;
	if (!WEFT_MUTATED(context_not_popped))
		m->cuda.cuCtxPopCurrent_v2(&ours);
}

/* ---- Beginning and end ---- */

static int make_stream(struct weft_cuda_region *m)
{
	unsigned int flags = WEFT_MUTATED(stream_blocking) ? WEFT_CU_STREAM_DEFAULT
							   : WEFT_CU_STREAM_NON_BLOCKING;
	int err = weft_cuda_push(m);

	if (err)
		return err;
	if (m->cuda.cuStreamCreate(&m->stream, flags))
		err = -EIO;
	weft_cuda_pop(m);
	return err;
}

static bool is_known(const struct weft_cuda *cuda, uint64_t va)
{
	unsigned long long id;

	return cuda->cuPointerGetAttribute(&id, WEFT_CU_POINTER_ATTRIBUTE_BUFFER_ID, va) !=
	       WEFT_CUDA_ERROR_INVALID_VALUE;
}

/* Neither end nor the middle is CUDA's: the host's memory, of which there may be much. Memory of a device that
 * a program has rounded to pages has such ends. */
static bool is_host(const struct weft_cuda *cuda, uint64_t va, uint64_t len_bytes)
{
	return !is_known(cuda, va) && !is_known(cuda, va + len_bytes / 2) &&
	       !is_known(cuda, va + len_bytes - 1);
}

static int look_at_memory(struct weft_cuda_region *m, uint64_t va, uint64_t len_bytes)
{
	int err = weft_cuda_find(&m->cuda, NULL);

	if (!err && is_host(&m->cuda, va, len_bytes))
		return -ENOENT;
	err = err ? err : weft_cuda_look(&m->cuda, va, len_bytes, &m->what);
	if (err)
		return err;
	if (m->what.kind == WEFT_CUDA_DEVICE || m->what.kind == WEFT_CUDA_MANAGED)
		return 0;
	weft_cuda_forget(&m->what);
	return -ENOENT;
}

static int begin_region(uint64_t va, uint64_t len_bytes, void **memory)
{
	struct weft_cuda_region *m = calloc(1, sizeof(*m));
	int err = m ? look_at_memory(m, va, len_bytes) : -ENOMEM;

	if (err)
		goto free_memory;
	err = choose_context(m);
	if (err)
		goto forget;
	err = make_stream(m);
	if (err)
		goto let_go;
	m->shared = -1;
	*memory = m;
	return 0;
let_go:
	let_go_of_context(m);
forget:
	weft_cuda_forget(&m->what);
free_memory:
	free(m);
	return err;
}

static bool is_still(void *memory)
{
	const struct weft_cuda_region *m = memory;

	return WEFT_MUTATED(id_unchecked) || weft_cuda_is_still(&m->cuda, &m->what);
}

/* A stream of a context that has ended has ended with it: whatever names it then ends the process, and so may what is
 * asked of that context. While the memory is there, so is its context. Otherwise the stream stays until that ends. */
bool weft_cuda_has_context(const struct weft_cuda_region *m)
{
	return WEFT_MUTATED(stale_stream_destroyed) || weft_cuda_is_still(&m->cuda, &m->what);
}

static void end_region(void *memory)
{
	struct weft_cuda_region *m = memory;

	weft_cuda_unshare(m);
	if (!WEFT_MUTATED(stream_kept) && weft_cuda_has_context(m) && !weft_cuda_push(m)) {
		m->cuda.cuStreamDestroy_v2(m->stream);
		weft_cuda_pop(m);
	}
	let_go_of_context(m);
	weft_cuda_forget(&m->what);
	free(m);
}

/* ---- Copies ---- */

/* Within one copy the engine keeps no order: the bytes that are polled on are a copy of their own, which
 * the stream begins after the other. */
static int issue_copy(const struct weft_cuda_region *m, weft_cu_ptr to, weft_cu_ptr from,
		      uint64_t len_bytes)
{
	uint64_t last = WEFT_MUTATED(tail_short) ? TAIL_BYTES - 1 : TAIL_BYTES;
	uint64_t tail = WEFT_MUTATED(one_copy) ? 0 : len_bytes < last ? len_bytes : last;
	uint64_t body = len_bytes - tail;
	weft_cu_stream stream = WEFT_MUTATED(copies_elsewhere) ? NULL : m->stream;
	bool behind = !WEFT_MUTATED(tail_first);

	if (WEFT_MUTATED(tail_left_out))
		tail = 0;
	if (tail && !behind && m->cuda.cuMemcpyAsync(to + body, from + body, tail, stream))
		return -EFAULT;
	if (body && m->cuda.cuMemcpyAsync(to, from, body, stream))
		return -EFAULT;
	WEFT_STEP(device_body_issued);
	if (tail && behind && m->cuda.cuMemcpyAsync(to + body, from + body, tail, stream))
		return -EFAULT;
	return 0;
}

static int wait_for_stream(const struct weft_cuda_region *m)
{
	if (WEFT_MUTATED(not_waited_for))
		return 0;
	return m->cuda.cuStreamSynchronize(WEFT_MUTATED(waits_elsewhere) ? NULL : m->stream)
		       ? -EFAULT
		       : 0;
}

int weft_cuda_copy(const struct weft_cuda_region *m, weft_cu_ptr to, weft_cu_ptr from,
		   uint64_t len_bytes)
{
	int waited, err = issue_copy(m, to, from, len_bytes);

	WEFT_STEP(device_under_way);
	/* what was issued before an error is under way all the same */
	waited = wait_for_stream(m);
	return err ? err : waited;
}

/* One of issue_copy and weft_cuda_copy, with the region's context. */
static int copy_between(struct weft_cuda_region *m, uint64_t va, void *here, uint64_t len_bytes,
			bool write,
			int (*copy)(const struct weft_cuda_region *m, weft_cu_ptr to,
				    weft_cu_ptr from, uint64_t len_bytes))
{
	weft_cu_ptr ours = (uintptr_t)here;
	int err;

	if (!is_still(m) || weft_cuda_push(m))
		return -EFAULT;
	err = write ? copy(m, va, ours, len_bytes) : copy(m, ours, va, len_bytes);
	weft_cuda_pop(m);
	return err;
}

static int issue_region(void *memory, uint64_t va, void *here, uint64_t len_bytes, bool write)
{
	return copy_between(memory, va, here, len_bytes, write, issue_copy);
}

static int copy_region(void *memory, uint64_t va, void *here, uint64_t len_bytes, bool write)
{
	return copy_between(memory, va, here, len_bytes, write, weft_cuda_copy);
}

/* A stream of memory that has gone may have ended with its context; so have its copies. */
static int wait_region(void *memory)
{
	struct weft_cuda_region *m = memory;
	int err;

	if (!weft_cuda_has_context(m) || weft_cuda_push(m))
		return -EFAULT;
	err = wait_for_stream(m);
	weft_cuda_pop(m);
	return err;
}

static bool is_apart(const void *memory)
{
	return ((const struct weft_cuda_region *)memory)->what.kind == WEFT_CUDA_DEVICE;
}

/* Whether a copy to that other memory can be made in this one's context. Memory of cuMemAlloc is copied in a context of any device;
 * a copy of pools and mappings is refused in a context of a device for which they were not made. */
static bool reaches_other(const void *memory, const void *other)
{
	const struct weft_cuda_memory *ours = &((const struct weft_cuda_region *)memory)->what;
	const struct weft_cuda_memory *what = &((const struct weft_cuda_region *)other)->what;

	return WEFT_MUTATED(all_reached) || ours->device == what->device || what->context ||
	       what->kind == WEFT_CUDA_MANAGED;
}

static void name(const void *memory, char *text)
{
	snprintf(text, 16, "gpu%d", ((const struct weft_cuda_region *)memory)->what.device);
}

__attribute__((visibility("default"))) extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
	.version = WEFT_PLUGIN_VERSION,
	.begin = begin_region,
	.end = end_region,
	.is_still = is_still,
	.is_apart = is_apart,
	.reaches = reaches_other,
	.copy = copy_region,
	.issue = issue_region,
	.wait = wait_region,
	.name = name,
	.pins = weft_cuda_pins,
	.pin = weft_cuda_pin,
	.unpin = weft_cuda_unpin,
	.pull_begin = weft_cuda_pull_begin,
	.pull_start = weft_cuda_pull_start,
	.pull_put = weft_cuda_pull_put,
	.pull_wait = weft_cuda_pull_wait,
	.pull_stop = weft_cuda_pull_stop,
	.pull_end = weft_cuda_pull_end,
	.share = weft_cuda_share,
	.open = weft_cuda_open,
	.close = weft_cuda_close,
	.close_waits = weft_cuda_close_waits,
	.copy_view = weft_cuda_copy_view,
};
