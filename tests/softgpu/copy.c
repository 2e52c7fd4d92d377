/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Copies and fills. An engine copies pieces of 64 bytes in an order that chance makes, as CUDA promises
 * none within a copy. Each call returns as early as the page "API synchronization behavior" of
 * CUDA's driver API lets it: from pageable memory to a device the bytes are read at
 * once and arrive later; device to device is not waited for at all.
 */
#include "soft.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PIECE	    64u
#define YIELD_EVERY 16 /* pieces, about: then other threads have a chance to look */

static void move_words(uint64_t *to, const uint64_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		__atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

static void move(uint8_t *to, const uint8_t *from, size_t bytes)
{
	if (!(((uintptr_t)to | (uintptr_t)from | bytes) & 7)) {
		move_words((uint64_t *)to, (const uint64_t *)from, bytes / 8);
		return;
	}
	for (size_t i = 0; i < bytes; i++)
		__atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

struct ends {
	struct soft_view to, from;
};

/* The bytes [start, end) of the operation. */
static void copy_piece(const struct soft_op *op, const struct ends *ends, size_t start, size_t end)
{
	while (start < end) {
		size_t room, left = end - start;
		uint8_t *to = soft_view_at(&ends->to, op->to + start, &room);
		const uint8_t *from = op->staged + start;
		size_t bytes = room < left ? room : left;

		if (!op->staged) {
			from = soft_view_at(&ends->from, op->from + start, &left);
			bytes = left < bytes ? left : bytes;
		}
		move(to, from, bytes);
		start += bytes;
	}
}

/* All numbers below count, in an order of chance; NULL without memory. */
static uint32_t *shuffled(uint64_t *chance, size_t count)
{
	uint32_t *order = malloc(count * sizeof(*order));

	for (size_t i = 0; order && i < count; i++) {
		size_t other = soft_chance(chance, i + 1);

		order[i] = order[other];
		order[other] = (uint32_t)i;
	}
	return order;
}

static void copy_pieces(struct soft_op *op, const struct ends *ends)
{
	size_t into = op->to % PIECE;
	size_t count = (into + op->bytes + PIECE - 1) / PIECE;
	uint32_t *order = shuffled(&op->chance, count);

	if (!order)
		soft_die("no memory for an order of %zu pieces", count);
	for (size_t i = 0; i < count; i++) {
		size_t start = (size_t)order[i] * PIECE, end = start + PIECE - into;

		start = start > into ? start - into : 0;
		copy_piece(op, ends, start, end < op->bytes ? end : op->bytes);
		if (!soft_chance(&op->chance, YIELD_EVERY))
			sched_yield();
	}
	free(order);
	atomic_thread_fence(memory_order_release);
}

static void check_still_pinned(const struct soft_op *op, bool was, uint64_t at)
{
	const struct soft_range *range = soft_range_at(at);

	if (was && (!range || !soft_is_host(range)))
		soft_die("DMA to or from %#llx, which is no longer registered with CUDA",
			 (unsigned long long)at);
}

static weft_cu_result run_copy(struct soft_op *op)
{
	struct ends ends = {0};
	weft_cu_result err;

	pthread_mutex_lock(&soft_lock);
	check_still_pinned(op, op->pins[0], op->to);
	if (!op->staged)
		check_still_pinned(op, op->pins[1], op->from);
	err = soft_view_open(&ends.to, op->to, op->bytes);
	if (!err && !op->staged)
		err = soft_view_open(&ends.from, op->from, op->bytes);
	pthread_mutex_unlock(&soft_lock);
	if (!err)
		copy_pieces(op, &ends);
	pthread_mutex_lock(&soft_lock);
	soft_view_close(&ends.to);
	soft_view_close(&ends.from);
	pthread_mutex_unlock(&soft_lock);
	return err;
}

/* ---- what may be copied ---- */

#define ANY_DEVICE (-1) /* the call names both contexts */

enum end { PAGEABLE, PINNED, DEVICE };

/* Whether a context of the device reaches that memory: pools and mappings only of the devices that they are for, memory of
 * cuMemAlloc any. */
static bool is_reached(const struct soft_range *range, int device)
{
	if (range->kind == SOFT_MAPPED)
		return device == ANY_DEVICE ? range->access : range->access >> device & 1;
	return range->kind != SOFT_POOL || device == ANY_DEVICE || range->memory->device == device;
}

/* The end's kind; an error if it names memory of a device that is not all mapped, or that a context of `device` does not reach. */
static weft_cu_result judge(uint64_t at, size_t bytes, int device, enum end *end, bool *sync)
{
	struct soft_range *range = soft_range_at(at);
	struct soft_view view;

	*end = !range ? PAGEABLE : soft_is_host(range) ? PINNED : DEVICE;
	*sync |= range && range->sync;
	if (!range)
		return soft_is_device_address(at) ? WEFT_CUDA_ERROR_INVALID_VALUE
						  : WEFT_CUDA_SUCCESS;
	if (*end == PINNED)
		return at + bytes > range->start + range->bytes ? WEFT_CUDA_ERROR_INVALID_VALUE
								: WEFT_CUDA_SUCCESS;
	if (range->kind != SOFT_MAPPED && at + bytes > range->start + range->bytes)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (!is_reached(range, device))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (soft_view_open(&view, at, bytes))
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	soft_view_close(&view);
	return WEFT_CUDA_SUCCESS;
}

struct request {
	uint64_t to, from;
	size_t bytes;
	bool async, to_device, from_device; /* what the call's name says of its ends */
	bool peers;			    /* it names their contexts */
	bool holds;			    /* it holds its context while it waits */
};

/* A copy needs the context, and that of which either end is: pools and mappings are of none. */
static void await_contexts(const struct request *r, weft_cu_context context)
{
	const uint64_t ends[] = {r->to, r->from};

	soft_await_context(context);
	for (unsigned int i = 0; i < 2; i++) {
		const struct soft_range *range = soft_range_at(ends[i]);

		if (range && range->kind == SOFT_LEGACY)
			soft_await_context(range->context);
	}
}

static weft_cu_result make(const struct request *r, int device, struct soft_op **out, bool *wait)
{
	enum end to, from;
	bool sync = false;
	weft_cu_result err = judge(r->to, r->bytes, device, &to, &sync);
	struct soft_op *op;

	if (!err)
		err = judge(r->from, r->bytes, device, &from, &sync);
	if (!err && ((r->to_device && to == PAGEABLE) || (r->from_device && from == PAGEABLE)))
		err = WEFT_CUDA_ERROR_INVALID_VALUE;
	if (err)
		return err;
	op = soft_op_new(run_copy);
	if (!op)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	op->to = r->to;
	op->from = r->from;
	op->bytes = r->bytes;
	op->pins[0] = to == PINNED;
	op->pins[1] = from == PINNED;
	*wait = !r->async && !(to == DEVICE && (from == DEVICE || from == PAGEABLE));
	*wait |= to != DEVICE && from != DEVICE; /* host to host waits in either case */
	*wait |= sync && !r->async;
	if (!r->async && to == DEVICE && from == PAGEABLE && r->bytes) {
		op->staged = malloc(r->bytes);
		if (op->staged)
			memcpy(op->staged, (void *)(uintptr_t)r->from, r->bytes);
	}
	*out = op;
	return WEFT_CUDA_SUCCESS;
}

static weft_cu_result copy(const struct request *r, weft_cu_stream handle)
{
	weft_cu_stream stream;
	struct soft_op *op;
	weft_cu_result err;
	bool wait;

	SOFT_BEGIN_IN(context);
	soft_await_driver();
	await_contexts(r, context);
	err = soft_stream_find(context, handle, &stream);
	if (!err && r->bytes)
		err = make(r, r->peers ? ANY_DEVICE : context->device, &op, &wait);
	if (err || !r->bytes)
		return err;
	/* staged: the source may be read before what is ahead in the stream has written it */
	if (op->staged && (err = soft_wait(stream, stream->issued)))
		return err;
	err = soft_enqueue(stream, op);
	if (err || !wait)
		return err;
	return r->holds ? soft_hold(stream, stream->issued) : soft_wait(stream, stream->issued);
}

weft_cu_result cuMemcpy(weft_cu_ptr to, weft_cu_ptr from, size_t bytes)
{
	return copy(&(struct request){to, from, bytes, false, false, false}, NULL);
}

weft_cu_result cuMemcpyAsync(weft_cu_ptr to, weft_cu_ptr from, size_t bytes, weft_cu_stream stream)
{
	return copy(&(struct request){to, from, bytes, true, false, false}, stream);
}

/* From the host's memory to a device's, of rows without gaps: what Weft asks for. */
weft_cu_result cuMemcpy2DAsync_v2(const struct weft_cu_rows *rows, weft_cu_stream stream)
{
	bool gaps = rows->srcPitch != rows->WidthInBytes || rows->dstPitch != rows->WidthInBytes;

	if (rows->srcPitch < rows->WidthInBytes || rows->dstPitch < rows->WidthInBytes)
		return WEFT_CUDA_ERROR_INVALID_VALUE;
	if (gaps || rows->srcMemoryType != WEFT_CU_MEMORYTYPE_HOST ||
	    rows->dstMemoryType != WEFT_CU_MEMORYTYPE_DEVICE)
		return WEFT_CUDA_ERROR_NOT_SUPPORTED;
	return copy(&(struct request){rows->dstDevice, (uintptr_t)rows->srcHost,
				      rows->WidthInBytes * rows->Height, true, true, false},
		    stream);
}

weft_cu_result cuMemcpyHtoD_v2(weft_cu_ptr to, const void *from, size_t bytes)
{
	return copy(&(struct request){to, (uintptr_t)from, bytes, false, true, false}, NULL);
}

weft_cu_result cuMemcpyDtoH_v2(void *to, weft_cu_ptr from, size_t bytes)
{
	return copy(&(struct request){(uintptr_t)to, from, bytes, false, false, true, false, true},
		    NULL);
}

weft_cu_result cuMemcpyDtoD_v2(weft_cu_ptr to, weft_cu_ptr from, size_t bytes)
{
	return copy(&(struct request){to, from, bytes, false, true, true}, NULL);
}

weft_cu_result cuMemcpyHtoDAsync_v2(weft_cu_ptr to, const void *from, size_t bytes,
				    weft_cu_stream stream)
{
	return copy(&(struct request){to, (uintptr_t)from, bytes, true, true, false}, stream);
}

weft_cu_result cuMemcpyDtoHAsync_v2(void *to, weft_cu_ptr from, size_t bytes, weft_cu_stream stream)
{
	return copy(&(struct request){(uintptr_t)to, from, bytes, true, false, true}, stream);
}

weft_cu_result cuMemcpyDtoDAsync_v2(weft_cu_ptr to, weft_cu_ptr from, size_t bytes,
				    weft_cu_stream stream)
{
	return copy(&(struct request){to, from, bytes, true, true, true}, stream);
}

static weft_cu_result check_both(weft_cu_context one, weft_cu_context other)
{
	weft_cu_result err;

	SOFT_BEGIN();
	err = soft_context_check(one);
	return err ? err : soft_context_check(other);
}

weft_cu_result cuMemcpyPeer(weft_cu_ptr to, weft_cu_context to_context, weft_cu_ptr from,
			    weft_cu_context from_context, size_t bytes)
{
	weft_cu_result err = check_both(to_context, from_context);

	return err ? err : copy(&(struct request){to, from, bytes, false, true, true, true}, NULL);
}

weft_cu_result cuMemcpyPeerAsync(weft_cu_ptr to, weft_cu_context to_context, weft_cu_ptr from,
				 weft_cu_context from_context, size_t bytes, weft_cu_stream stream)
{
	weft_cu_result err = check_both(to_context, from_context);

	return err ? err : copy(&(struct request){to, from, bytes, true, true, true, true}, stream);
}

/* A fill is a copy of staged bytes that is not waited for, unless the target is the host's. */
static weft_cu_result fill(uint64_t at, unsigned char value, size_t bytes, weft_cu_stream handle,
			   bool async)
{
	bool sync = false;
	weft_cu_stream stream;
	weft_cu_result err;
	struct soft_op *op;
	enum end end;

	SOFT_BEGIN_IN(context);
	err = soft_stream_find(context, handle, &stream);
	if (!err)
		err = judge(at, bytes, context->device, &end, &sync);
	if (!err && end == PAGEABLE)
		err = WEFT_CUDA_ERROR_INVALID_VALUE;
	if (err || !bytes)
		return err;
	op = soft_op_new(run_copy);
	if (!op)
		return WEFT_CUDA_ERROR_OUT_OF_MEMORY;
	op->to = at;
	op->bytes = bytes;
	op->pins[0] = end == PINNED;
	op->staged = malloc(bytes);
	if (op->staged)
		memset(op->staged, value, bytes);
	err = soft_enqueue(stream, op);
	return err || async || (end == DEVICE && !sync) ? err : soft_wait(stream, stream->issued);
}

weft_cu_result cuMemsetD8_v2(weft_cu_ptr at, unsigned char value, size_t count)
{
	return fill(at, value, count, NULL, false);
}

weft_cu_result cuMemsetD8Async(weft_cu_ptr at, unsigned char value, size_t count,
			       weft_cu_stream stream)
{
	return fill(at, value, count, stream, true);
}
