/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libweft-cuda.so: memory of GPUs, by the copy engines and the driver that the program has brought. Each memory has
 * a stream of its own, which waits for none of the program's work, and which none of it waits for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/find.h"
#include "cuda/mutation.h"
#include "cuda/plugin.h"
#include "pool/step.h"

#define WORD_BYTES 8u
#define TAIL_BYTES WORD_BYTES /* what programs poll on */

static const char *driver_lacks(void)
{
	const char *lacks = NULL;
	struct weft_cuda cuda;

	weft_cuda_find(&cuda, &lacks);
	return lacks;
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
	err = weft_cuda_choose_contexts(m);
	if (err)
		goto forget;
	err = make_stream(m);
	if (err)
		goto let_go;
	m->shared = -1;
	*memory = m;
	return 0;
let_go:
	weft_cuda_let_go_of_context(m);
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

static void end_region(void *memory)
{
	struct weft_cuda_region *m = memory;

	weft_cuda_unshare(m);
	if (!WEFT_MUTATED(stream_kept) && weft_cuda_has_context(m) && !weft_cuda_push(m)) {
		m->cuda.cuStreamDestroy_v2(m->stream);
		weft_cuda_pop(m);
	}
	weft_cuda_let_go_of_context(m);
	weft_cuda_forget(&m->what);
	free(m);
}

/* ---- Copies ---- */

static int copy_rows(const struct weft_cuda_region *m, weft_cu_ptr to, weft_cu_ptr from,
		     uint64_t width_bytes, uint64_t rows)
{
	const struct weft_cu_rows what = {
		.srcMemoryType = WEFT_CU_MEMORYTYPE_HOST,
		.srcHost = (const void *)(uintptr_t)from,
		.srcPitch = width_bytes,
		.dstMemoryType = WEFT_CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.dstPitch = width_bytes,
		.WidthInBytes = width_bytes,
		.Height = rows,
	};

	return m->cuda.cuMemcpy2DAsync_v2(&what, m->stream) ? -EFAULT : 0;
}

/*
 * From the host's memory in a context of Weft's own. A plain copy of 24 KiB or less is work of the device's processors, which
 * contexts get in turns of 2 ms when the program's kernels run; two rows, and a word that the stream writes, go by an engine.
 * An aligned word of 8 bytes arrives whole, since programs put a flag beside the data.
 */
static int copy_aside(const struct weft_cuda_region *m, weft_cu_ptr to, weft_cu_ptr from,
		      uint64_t len_bytes)
{
	uint64_t half, rest;

	if (!(to % WORD_BYTES) && len_bytes % (2 * WORD_BYTES) >= WORD_BYTES) {
		uint64_t word;

		memcpy(&word, (const void *)(uintptr_t)from, sizeof(word));
		if (m->cuda.cuStreamWriteValue64_v2(m->stream, to, word, 0))
			return -EFAULT;
		to += WORD_BYTES;
		from += WORD_BYTES;
		len_bytes -= WORD_BYTES;
	}
	half = len_bytes / (2 * WORD_BYTES) * WORD_BYTES;
	rest = len_bytes - 2 * half;
	if (half && copy_rows(m, to, from, half, 2))
		return -EFAULT;
	return rest ? copy_rows(m, to + 2 * half, from + 2 * half, 1, rest) : 0;
}

static bool comes_from_host(const struct weft_cuda *cuda, weft_cu_ptr at)
{
	unsigned int type;

	return cuda->cuPointerGetAttribute(&type, WEFT_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) ||
	       type == WEFT_CU_MEMORYTYPE_HOST;
}

static bool goes_aside(const struct weft_cuda_region *m, weft_cu_ptr from)
{
	return m->copier != m->context && comes_from_host(&m->cuda, from);
}

static int copy_either(const struct weft_cuda_region *m, bool aside, weft_cu_ptr to,
		       weft_cu_ptr from, uint64_t len_bytes)
{
	if (aside)
		return copy_aside(m, to, from, len_bytes);
	return m->cuda.cuMemcpyAsync(to, from, len_bytes,
				     WEFT_MUTATED(copies_elsewhere) ? NULL : m->stream)
		       ? -EFAULT
		       : 0;
}

/* Within one copy the engine keeps no order: the bytes that are polled on are a copy of their own, which
 * the stream begins after the other. */
static int issue_copy(const struct weft_cuda_region *m, weft_cu_ptr to, weft_cu_ptr from,
		      uint64_t len_bytes)
{
	uint64_t last = WEFT_MUTATED(tail_short) ? TAIL_BYTES - 1 : TAIL_BYTES;
	uint64_t tail = WEFT_MUTATED(one_copy) ? 0 : len_bytes < last ? len_bytes : last;
	uint64_t body = len_bytes - tail;
	bool aside = goes_aside(m, from);
	bool behind = !WEFT_MUTATED(tail_first);

	if (WEFT_MUTATED(tail_left_out))
		tail = 0;
	if (tail && !behind && copy_either(m, aside, to + body, from + body, tail))
		return -EFAULT;
	if (body && copy_either(m, aside, to, from, body))
		return -EFAULT;
	WEFT_STEP(device_body_issued);
	if (tail && behind && copy_either(m, aside, to + body, from + body, tail))
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

static int issue_parts_of_region(void *memory, uint64_t va, void *host,
				 const struct weft_plugin_part part[], uint32_t parts)
{
	const struct weft_cuda_region *m = memory;
	weft_cu_ptr from = (uintptr_t)host;
	bool aside = goes_aside(m, from);
	int err = 0;

	if (!is_still(memory) || weft_cuda_push(m))
		return -EFAULT;
	for (uint32_t n = 0; n < parts && !err; n++) {
		uint32_t i = WEFT_MUTATED(parts_backwards) ? parts - 1 - n : n;

		if (part[i].len_bytes && !(i && WEFT_MUTATED(part_left_out)))
			err = copy_either(m, aside, va + part[i].offset, from + part[i].offset,
					  part[i].len_bytes);
	}
	weft_cuda_pop(m);
	return err;
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

static int ask_region(void *memory)
{
	struct weft_cuda_region *m = memory;
	weft_cu_result result;

	if (!weft_cuda_has_context(m) || weft_cuda_push(m))
		return -EFAULT;
	result = m->cuda.cuStreamQuery(m->stream);
	weft_cuda_pop(m);
	if (result == WEFT_CUDA_ERROR_NOT_READY)
		return -EAGAIN;
	return result ? -EFAULT : 0;
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
	.lacks = driver_lacks,
	.begin = begin_region,
	.end = end_region,
	.is_still = is_still,
	.is_apart = is_apart,
	.reaches = reaches_other,
	.copy = copy_region,
	.issue = issue_region,
	.issue_parts = issue_parts_of_region,
	.wait = wait_region,
	.ask = ask_region,
	.name = name,
	.pins = weft_cuda_pins,
	.pin = weft_cuda_pin,
	.unpin = weft_cuda_unpin,
	.pull_begin = weft_cuda_pull_begin,
	.pull_start = weft_cuda_pull_start,
	.pull_put = weft_cuda_pull_put,
	.pull_wait = weft_cuda_pull_wait,
	.pull_done = weft_cuda_pull_done,
	.pull_stop = weft_cuda_pull_stop,
	.pull_end = weft_cuda_pull_end,
	.allocate = weft_cuda_allocate,
	.free = weft_cuda_free,
	.judge_begin = weft_cuda_judge_begin,
	.judge_put = weft_cuda_judge_put,
	.judge_take = weft_cuda_judge_take,
	.judge_end = weft_cuda_judge_end,
	.share = weft_cuda_share,
	.open = weft_cuda_open,
	.close = weft_cuda_close,
	.close_waits = weft_cuda_close_waits,
	.copy_view = weft_cuda_copy_view,
};
